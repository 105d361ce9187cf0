"""Where two sequences part: the one home of the question every check of a prefix asks.

    first_difference(b"You are Ann.", b"You are Bob.")    8, the offset of `A` and `B`
    common_prefix([1, 2, 3], [1, 2, 4, 5])                2, the number of leading ids both have

Bytes, text, tuples and lists are halved, which compares slices at the speed of memory; ids are compared as arrays.
Both answers are the same number: the length of what both begin with. numpy is loaded by the first call that needs it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TokenSequence", "common_prefix", "first_difference"]

TokenSequence: TypeAlias = "NDArray[np.uint32] | Sequence[int]"
"""Token ids of shape (n,)."""


def first_difference(old: Sequence[object] | bytes, new: Sequence[object] | bytes) -> int:
    """Return the offset of the first byte, character or item that differs.

    It is the shorter's length where that begins the other. Both must be of one type: two texts, two tuples.
    """
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_prefix(a: TokenSequence, b: TokenSequence) -> int:
    """Return the length of the longest common prefix of two sequences of ids, arrays or not."""
    import numpy as np

    n = min(len(a), len(b))
    differing = np.flatnonzero(np.asarray(a[:n]) != np.asarray(b[:n]))
    return int(differing[0]) if len(differing) else n
