"""Where the ids of a delta meet the ids before it: what is recorded of it, counted, and known beforehand.

A seam is canonical when encoding piece by piece equals encoding the whole: no merge crosses the cut. Right at a special
token none can (unless one special token begins another). Elsewhere one may; the ids are then kept as they were sent,
and the seam is recorded, never repaired. Which seams are canonical whatever is said there, `proof.py` finds out.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Because", "Seam", "SeamCount", "SeamExample", "SeamProof", "Verdict"]


class Seam(StrEnum):
    """How a delta's ids meet those before them."""

    START = "start"
    """The first ids of an epoch: nothing comes before them."""
    SPECIAL = "special"
    """A special token on one side of the cut: canonical by construction."""
    PLAIN = "plain"
    """Ordinary tokens on both sides: kept as sent."""


@dataclass(frozen=True, slots=True)
class SeamCount:
    """How many seams a conversation has, and how many of them another encoding would have joined."""

    special: int = 0
    plain: int = 0
    non_canonical: int = 0
    """Those of the plain ones where the text around the cut, encoded as one, has other ids."""

    def __add__(self, other: "SeamCount") -> "SeamCount":
        return SeamCount(
            self.special + other.special, self.plain + other.plain, self.non_canonical + other.non_canonical
        )


class Verdict(StrEnum):
    """What is known of a seam before anything is said there."""

    PROVED = "proved"
    """Canonical whatever stands on both sides."""
    OPEN = "open"
    """Not canonical for some texts; there is an example."""
    UNKNOWN = "unknown"
    """Neither a proof nor an example was found."""


class Because(StrEnum):
    """Why a seam is canonical."""

    SPECIAL = "a special token, or nothing, stands on one side"
    SPLIT = "text is split there before any merge"
    NO_PIECE = "no piece of the vocabulary reaches across"
    ENCODED = "both sides are known, and were encoded"


@dataclass(frozen=True, slots=True)
class SeamExample:
    """Two scaffold texts whose ids, one after the other, are not those of the whole."""

    left: bytes
    right: bytes
    kept: tuple[int, ...]
    """Ids of `left`, then of `right`."""
    whole: tuple[int, ...]
    """Ids of both as one text."""


@dataclass(frozen=True, slots=True)
class SeamProof:
    """What is known of a seam, and why."""

    verdict: Verdict
    because: Because | None = None
    """Set when proved."""
    example: SeamExample | None = None
    """Set when open."""
