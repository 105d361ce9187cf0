"""Where the ids of a delta meet the ids before it.

Encoding piece by piece equals encoding the whole only where no merge crosses the cut. Right at a special token none
can (unless one special token begins another). Elsewhere one may; the ids are then kept as they were sent, and the seam
is recorded, never repaired.
"""

from enum import StrEnum

__all__ = ["Seam"]


class Seam(StrEnum):
    """How a delta's ids meet those before them."""

    START = "start"
    """The first ids of an epoch: nothing comes before them."""
    SPECIAL = "special"
    """A special token on one side of the cut: canonical by construction."""
    PLAIN = "plain"
    """Ordinary tokens on both sides: kept as sent."""
