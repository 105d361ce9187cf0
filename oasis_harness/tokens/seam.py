"""Where the ids of a delta meet the ids before it: what is recorded of it, and counted.

A seam is canonical when encoding piece by piece equals encoding the whole: no merge crosses the cut. Right at a special
token none can (unless one special token begins another). Elsewhere one may; the ids are then kept as they were sent,
and the seam is recorded, never repaired.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Seam", "SeamCount"]


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
