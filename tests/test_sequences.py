"""Where two sequences part: every way to ask gives the answer of a plain loop."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.sequences import common_prefix, first_difference

IDS = st.lists(st.integers(0, 2), max_size=12)


def plain_loop(a: "list[int] | bytes", b: "list[int] | bytes") -> int:
    """Count what both begin with, one item at a time."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


@given(IDS, IDS)
def test_every_type_parts_where_a_plain_loop_says(a: list[int], b: list[int]) -> None:
    """Lists, tuples, bytes, text, ids in lists and ids in arrays."""
    n = plain_loop(a, b)
    assert first_difference(a, b) == first_difference(tuple(a), tuple(b)) == first_difference(bytes(a), bytes(b)) == n
    assert first_difference("".join(map(str, a)), "".join(map(str, b))) == n
    assert common_prefix(a, b) == common_prefix(np.array(a, np.uint32), np.array(b, np.uint32)) == n
    assert common_prefix(tuple(a), np.array(b, np.uint32)) == n


@pytest.mark.parametrize(("a", "b", "n"), [(b"", b"", 0), (b"", b"x", 0), (b"ab", b"abc", 2), (b"abc", b"abd", 2)])
def test_the_shorter_ends_where_it_begins_the_other(a: bytes, b: bytes, n: int) -> None:
    """Nothing, a prefix, and a last byte that differs."""
    assert first_difference(a, b) == first_difference(b, a) == n


def test_importing_it_loads_no_numpy() -> None:
    """The guard, which needs the standard library only, imports it."""
    code = "import sys, oasis_harness.sequences; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
