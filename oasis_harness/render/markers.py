"""Numbered words to put around texts, to see where a template prints each of them.

    text            Be brief.
    marked          Z0oasis00003xBe brief.Z1oasis

They are letters and digits, since some templates escape all else, and stand inside leading and trailing white space,
since some templates trim it.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["Markers", "Placed", "placed"]


class Placed(NamedTuple):
    """A text where it stands in a render, in bytes."""

    start: int
    end: int
    number: int
    printed: str
    """The text as it stands there."""


class Markers:
    """Markers that do not occur in `plain`."""

    def __init__(self, plain: str) -> None:
        # The Z keeps a word from overlapping another.
        free = (word for word in (f"Z{n}oasis" for n in itertools.count()) if word not in plain)
        self._opener, self._closer = next(free), next(free)

    def around(self, number: int, text: str) -> str:
        """Return `text` marked with `number`; marks sort as their numbers do. White space has no mark."""
        core = text.strip()
        if not core:
            return text
        start = text.index(core)
        return f"{text[:start]}{self._opener}{number:05d}x{core}{self._closer}{text[start + len(core) :]}"

    def split(self, marked: str) -> Iterator[tuple[int, str]]:
        """Cut `marked` at its marks into (number, text); what stands outside has number -1.

        A mark that lost its other half stays in the text.
        """
        before, *rest = marked.split(self._opener)
        yield -1, before
        for chunk in rest:
            number, _, after = chunk.partition("x")
            inside, closer, after = after.partition(self._closer)
            if closer and number.isdigit():
                yield from ((int(number), inside), (-1, after))
            else:
                yield -1, self._opener + chunk


def placed(chunks: Sequence[tuple[int, str]]) -> list[Placed]:
    """Return the numbered ones of `chunks`, which follow one another in a render."""
    found: list[Placed] = []
    end = 0
    for number, text in chunks:
        start, end = end, end + len(text.encode())
        found += [Placed(start, end, number, text)] if number >= 0 else []
    return found
