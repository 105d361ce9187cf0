"""Edits: exactly one place changes, every other byte stays, and a miss shows where to aim."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox.edit import edit_bytes

MARK = b"\xef\xbb\xbf"
pieces = st.text(st.sampled_from("ab \t\n'\"’é—\\"), max_size=12)


def edit(data: bytes, old: str, new: str) -> bytes:
    return edit_bytes(data, old, new, shown="a.py")[0]


def refusal(data: bytes, old: str, new: str = "new") -> str:
    with pytest.raises(ToolRefused) as caught:
        edit(data, old, new)
    return str(caught.value)


@given(pieces, pieces, pieces, pieces, st.sampled_from([b"", MARK]), st.sampled_from(["\n", "\r\n"]))
def test_a_unique_match_changes_only_itself(
    before: str, old: str, after: str, new: str, mark: bytes, line_end: str
) -> None:
    text = before + old + after
    assume(old and old != new and text.find(old) == text.rfind(old))
    data = mark + text.replace("\n", line_end).encode()
    assert (
        edit(data, old, new) == mark + (before + new + after).replace("\n", line_end if "\n" in text else "\n").encode()
    )


@given(st.binary(max_size=20), st.binary(max_size=20), pieces)
def test_bytes_that_are_not_utf8_survive_around_an_edit(before: bytes, after: bytes, new: str) -> None:
    before, after = (part.replace(b"\n", b"").replace(MARK, b"") for part in (before, after))
    assume(b"OLD" not in before + after and new != "OLD")
    assert edit(before + b"\nOLD\n" + after, "OLD", new) == before + b"\n" + new.encode() + b"\n" + after


@given(pieces, pieces, pieces)
def test_whatever_is_sent_either_edits_or_says_what_to_send(text: str, old: str, new: str) -> None:
    try:
        edit(text.encode(), old, new)
    except ToolRefused as error:
        assert "a.py" in str(error) or "nothing to change" in str(error)


def test_the_file_keeps_its_line_ends_whichever_the_model_sends() -> None:
    assert edit(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz") == b"x\r\ny\r\nz\r\nc\r\n"
    assert edit(b"a\r\nb\r\n", "a\r\nb", "x\r\ny") == b"x\r\ny\r\n"
    assert edit(b"a\nb\n", "a\r\nb", "x\r\ny") == b"x\ny\n"


def test_mixed_line_ends_outside_the_edit_stay_mixed() -> None:
    assert edit(b"a\r\nb\nc\r\nd\n", "b", "B") == b"a\r\nB\nc\r\nd\n"
    assert edit(b"a\r\nb\nc\r\nd\n", "  c", "C") == b"a\r\nb\nC\nd\n"


def test_several_places_are_refused_with_their_lines() -> None:
    assert "lines 1, 3. Send more of the lines around" in refusal(b"x = 1\ny\nx = 1\n", "x = 1")
    assert "lines 1, 1." in refusal(b"aaa", "aa")  # overlapping: either could be meant
    assert "lines 1, 2." in refusal(b"  x = 1\n\tx = 1\n", "x  =  1")


def test_whitespace_quotes_and_dashes_may_differ_where_the_place_is_unique() -> None:
    data = "def f():\n\tprint('a – b')  \n".encode()
    edited, message = edit_bytes(data, "    print(“a - b”)", "    print('c')", shown="a.py")
    assert edited == b"def f():\n\tprint('c')\n"
    assert message == "Edited a.py, line 2; old differed from the file in whitespace or quotes."


def test_an_exact_match_comes_before_a_loose_one() -> None:
    assert edit(b"x  = 1\nx = 1\n", "x = 1", "y") == b"x  = 1\ny\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("if a:\n    b ()", "if a:\n    c()\nelse:\n    d()", "    if a:\n        c()\n    else:\n        d()"),
        ("if a:\n        b ()", "if a:\n        c()", "    if a:\n        c()"),
        ("\tif a:\n\t\tb ()", "\tif a:\n\t\tc()\n\n\t\td()", "    if a:\n        c()\n\n        d()"),
        ("        if a:\n            b ()", "        c()", "    c()"),
    ],
)
def test_new_lines_are_indented_as_the_file_is(old: str, new: str, expected: str) -> None:
    data = b"def f():\n    if a:\n        b()\n    z()\n"
    assert edit(data, old, new).decode() == f"def f():\n{expected}\n    z()\n"


def test_blank_lines_around_old_are_taken_off_new_as_well() -> None:
    assert edit(b"a\nb  b\nc\n", "\nb b\n\n", "\nB\n\n") == b"a\nB\nc\n"
    assert edit(b"a\nb  b\nc\n", "b b\n", "") == b"a\nc\n"


def test_a_miss_shows_the_nearest_lines_and_the_call() -> None:
    data = b"import os\n\ndef add(a, b):\n    return a + b\n"
    assert refusal(data, "def add(a, c):\n    return a + c\n") == (
        "old does not occur in a.py. Nearest, from line 3:\ndef add(a, b):\n    return a + b\n"
        'Send the lines as they stand there: edit_file(path="a.py", old="<these lines>", new="...").'
    )


def test_a_miss_without_anything_near_points_to_read_file() -> None:
    assert refusal(b"import os\n", "zzzzzzzz").endswith('Look first: read_file(path="a.py").')
    assert refusal(b"a\n\nb\n", " \n \n \n").endswith('Look first: read_file(path="a.py").')


def test_an_empty_old_fills_an_empty_file_only() -> None:
    assert edit(b"", "", "x\n") == b"x\n"
    assert edit(MARK, "", "x\n") == MARK + b"x\n"
    assert "old is empty" in refusal(b"x", "")


def test_an_edit_that_changes_nothing_is_refused() -> None:
    assert "nothing to change" in refusal(b"x", "x", "x")


def test_a_miss_in_a_huge_file_stays_bounded() -> None:
    data = b"\n".join([b"value = compute(%d) " % n + b"y" * 5_000 for n in range(200)])
    assert len(refusal(data, "\n".join(["value = computed(7) " + "z" * 5_000] * 50))) < 6_000
