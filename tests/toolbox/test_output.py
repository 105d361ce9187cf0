"""Output is cut in the middle, never in a character, and says how much is missing."""

from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.toolbox.output import BoundedOutput


@given(st.lists(st.binary(max_size=5_000), max_size=8))
def test_bounded_output_is_the_beginning_and_the_end(chunks: list[bytes]) -> None:
    output, data = BoundedOutput(), b"".join(chunks)
    for chunk in chunks:
        output.add(chunk)
    assert len(output.head) + len(output.tail) <= 8_000
    assert data.startswith(output.head) and data.endswith(output.tail)
    assert len(output.head) + output.n_left_out + len(output.tail) == len(data)
    output.text().encode("utf-8")


@given(st.integers(0, 3), st.sampled_from("aä€🙂"), st.integers(0, 3))
def test_a_cut_never_splits_a_character(n_before: int, character: str, n_after: int) -> None:
    output = BoundedOutput()
    output.add(b"." * n_before + character.encode() * 9_000 + b"." * n_after)
    assert "\\x" not in output.text() and output.n_left_out
