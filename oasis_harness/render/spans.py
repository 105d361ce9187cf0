"""Whose bytes these are: spans that tile a stretch of a prompt, each with an owner and how well it is known.

    head/system · head/tool[read_file].parameters.limit.description · head/skill[tidy] · event 7 result[0] · template

Nothing here renders; `trace` finds the spans, `provenance` puts those of a whole conversation together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["HARNESS", "TEMPLATE", "Resolution", "Span", "framed", "tiled"]

TEMPLATE = "template"
HARNESS = "harness"
"""Our own words around the texts of others: headings, `<tool_response>`, white space at the ends of a text."""


class Resolution(StrEnum):
    """How well the owner of a span is known."""

    EXACT = "exact"
    """The text itself."""
    CONTAINER = "container"
    """Only what it is a part of: a tool, an event."""
    SCAFFOLD = "scaffold"
    """No one's text: the template's own, or the harness's."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of bytes and its owner."""

    start: int
    """In bytes, from the start of what it is a span of."""
    end: int
    name: str
    resolution: Resolution
    source: str = ""
    """`file:line` where the tool or skill was registered, when known."""

    def moved(self, n_bytes: int) -> "Span":
        """Return this span `n_bytes` further on."""
        return replace(self, start=self.start + n_bytes, end=self.end + n_bytes)


def tiled(found: Iterable[Span], n_bytes: int) -> tuple[Span, ...]:
    """Return spans of all `n_bytes`: those `found`, in order and apart, and the template's own between them.

    Neighbours of one owner become one span, but a text of its own stays one.
    """
    tiles: list[Span] = []
    end = 0
    for span in [*found, Span(n_bytes, n_bytes, TEMPLATE, Resolution.SCAFFOLD)]:
        for tile in (Span(end, span.start, TEMPLATE, Resolution.SCAFFOLD), span):
            is_more = bool(tiles) and tile.resolution is not Resolution.EXACT and _is_same_owner(tiles[-1], tile)
            start = tiles.pop().start if is_more else tile.start
            tiles += [replace(tile, start=start)] if start < tile.end else []
        end = span.end
    return tuple(tiles)


def framed(
    found: Sequence[Span], data: bytes, *, closers: Iterable[bytes], opener: bytes, closing: bytes = b""
) -> list[Span]:
    """Return `found` with the template's end of the last reply and its start of the next, where they stand at the ends.

    `closers` are what may end a reply; `opener` is what starts one. `closing` are the harness's words before all that.
    """
    start, end, left = *((found[0].start, found[-1].end) if found else (len(data), 0)), len(closing)
    n_closer = next((len(one) for one in closers if left + len(one) <= start and data.startswith(one, left)), 0)
    at = len(data) - len(opener) if data.endswith(opener) else 0
    ours = Span(0, left, HARNESS, Resolution.SCAFFOLD)
    before = Span(left, left + n_closer, f"{TEMPLATE}/closer", Resolution.SCAFFOLD)
    after = Span(at, len(data), f"{TEMPLATE}/generation prompt", Resolution.SCAFFOLD)
    return [ours, before, *found, *([after] if at >= max(end, before.end) and opener else [])]


def _is_same_owner(before: Span, after: Span) -> bool:
    return (before.name, before.resolution) == (after.name, after.resolution)
