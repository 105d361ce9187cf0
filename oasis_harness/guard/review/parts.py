"""What each part of a prompt head costs: a row for every tool, skill and paragraph of the system text.

    system 1          41 tokens   0.14 s   You are a careful engineer. …
    tool[read_file]   96 tokens   0.32 s   {"type": "function", "function": …

The rows add up to the whole prompt.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cost import PrefillRate
from ..snapshots import Snapshot

if TYPE_CHECKING:
    from oasis_harness.render import Span
    from oasis_harness.tokens import Tokenizer

__all__ = ["CostRow", "Trade", "compare", "costs_of"]

_OWNER = re.compile(r"head/((?:tool|skill)\[.*?\])", re.DOTALL)
_SYSTEM = "head/system"
_BLANK_LINES = re.compile(rb"\n[ \t\r]*\n\s*")
_N_SHOWN = 60
"""Characters of a row's text."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """A part of a prompt head and what it costs every conversation."""

    name: str
    """`tool[read_file]`, `skill[tidy]`, `system 1` for the first paragraph, `template`, `harness` ..."""
    n_tokens: int
    n_bytes: int
    s: float | None
    """Seconds to read it; None without a rate."""
    text: str
    """How it begins, on one line."""
    source: str


@dataclass(frozen=True, slots=True)
class Trade:
    """One capability, once as tools in the head and once as a skill that is read on demand."""

    n_as_tools: int
    """Tokens every conversation reads."""
    n_as_skill: int
    """Tokens every conversation reads before the skill is loaded."""
    n_loaded: int
    """Tokens more where it is loaded."""

    @property
    def break_even(self) -> float | None:
        """Share of conversations that may load the skill before the tools are cheaper; None where that costs nothing.

        Above 1 the skill always is, below 0 the tools always are.
        """
        return (self.n_as_tools - self.n_as_skill) / self.n_loaded if self.n_loaded else None


def costs_of(snapshot: Snapshot, tokenizer: "Tokenizer", rate: PrefillRate | None = None) -> tuple[CostRow, ...]:
    """Return what each tool, skill and paragraph of the system text of `snapshot` costs, in prompt order.

    A token counts for the row that holds its first byte, so the rows add up to the whole prompt.

    Raises:
        ValueError: The snapshot was taken without this tokenizer.
    """
    if snapshot.ids is None or snapshot.tokenizer != tokenizer.digest:
        raise ValueError(f"the snapshot {snapshot.name} was not taken with {tokenizer!r}; take it with that tokenizer")
    starts = tokenizer.starts(snapshot.ids)
    rows: dict[str, CostRow] = {}
    place = 0
    for start, end, name, source in _parts(snapshot):
        n_tokens = 0
        while place < len(starts) and starts[place] < end:
            place, n_tokens = place + 1, n_tokens + 1
        text = _begin(snapshot.data[start:end])
        rows[name] = _added(rows.get(name), CostRow(name, n_tokens, end - start, None, text, source), rate)
    return tuple(rows.values())


def compare(as_tools: Sequence[CostRow], as_skill: Sequence[CostRow], *, n_loaded: int = 0) -> Trade:
    """Compare one capability as tools with the same as a skill, whose body and call are `n_loaded` tokens.

    Give the rows of both whole heads, or only those that differ.
    """
    return Trade(sum(row.n_tokens for row in as_tools), sum(row.n_tokens for row in as_skill), n_loaded)


def _parts(snapshot: Snapshot) -> Iterator[tuple[int, int, str, str]]:
    """Cut a prompt into (start, end, row name, source), the system text at its blank lines."""
    n_paragraphs = 0
    for span in snapshot.spans:
        if span.name != _SYSTEM:
            owner = _OWNER.match(span.name)
            yield span.start, span.end, owner[1] if owner else span.name, span.source
            continue
        for start, end in _paragraphs(snapshot.data, span):
            n_paragraphs += 1
            yield start, end, f"system {n_paragraphs}", span.source


def _paragraphs(data: bytes, span: "Span") -> Iterator[tuple[int, int]]:
    """Cut a span behind its blank lines, which belong to the paragraph before them."""
    start = span.start
    for gap in _BLANK_LINES.finditer(data, span.start, span.end):
        yield start, gap.end()
        start = gap.end()
    if start < span.end:
        yield start, span.end


def _added(row: CostRow | None, more: CostRow, rate: PrefillRate | None) -> CostRow:
    """Return `row` with `more` of the same owner."""
    n_tokens = more.n_tokens + (row.n_tokens if row else 0)
    n_bytes = more.n_bytes + (row.n_bytes if row else 0)
    first = row or more
    seconds = n_tokens / rate.tokens_per_s if rate else None
    return CostRow(more.name, n_tokens, n_bytes, seconds, first.text, first.source)


def _begin(data: bytes) -> str:
    text = " ".join(data.decode("utf-8", "replace").split())
    return text if len(text) <= _N_SHOWN else text[:_N_SHOWN] + "…"
