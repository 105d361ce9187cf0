"""The diagnosis of two texts knows what the linter of one knows, and what it alone may believe."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.guard import Volatile, find_volatile
from oasis_harness.guard.volatile import Mask, mask_of

from .test_volatile import FOUND, NOBODY

MASKS = {
    Volatile.CLOCK: Mask.CLOCK,
    Volatile.DATE: Mask.CLOCK,
    Volatile.COUNTER: Mask.CLOCK,
    Volatile.HOME_PATH: Mask.PATH,
    Volatile.TEMP_PATH: Mask.PATH,
    **dict.fromkeys((Volatile.UUID, Volatile.ADDRESS, Volatile.PROCESS, Volatile.PORT), Mask.RANDOM),
    **dict.fromkeys((Volatile.GIT_HASH, Volatile.SESSION_ID), Mask.RANDOM),
}
LABELLED = {Volatile.WORKING_DIRECTORY, Volatile.HOST, Volatile.USER}
"""What the linter knows from the machine it runs on; the diagnosis knows it by its label."""
KNOWN = [case for case in FOUND if case[1] in MASKS and find_volatile(case[0].encode(), machine=NOBODY)]


def others(value: str) -> Iterator[str]:
    """Yield values like `value`, as the next turn or another machine would have them."""
    for at, char in reversed(list(enumerate(value))):
        if char.isdigit():
            yield from (value[:at] + digit + value[at + 1 :] for digit in "123456789" if digit != char)
    yield value.replace("Tuesday", "Friday").replace("grace", "hopper").replace("zyx", "abc")


def test_every_kind_of_the_linter_is_masked_or_labelled() -> None:
    assert set(MASKS) | LABELLED == set(Volatile)
    assert {kind for _, kind, _ in KNOWN} == set(MASKS)


@pytest.mark.parametrize(("text", "kind", "value"), KNOWN, ids=lambda case: str(case)[:40])
def test_what_the_linter_finds_twice_the_diagnosis_names(text: str, kind: Volatile, value: str) -> None:
    """Another value of the kind, at the same place: both have to say so."""
    for other in (text.replace(value, one) for one in others(value) if one != value):
        if [finding.kind for finding in find_volatile(other.encode(), machine=NOBODY)] == [kind]:
            assert mask_of(text, other) is MASKS[kind]
            break
    else:
        pytest.fail(f"no other value was found for {value!r}")


@pytest.mark.parametrize(
    ("old", "new", "mask"),
    [
        ("It is Mon Mar  3 23:59:00 2025.", "It is Tue Mar  4 00:00:01 2025.", Mask.CLOCK),
        ("pid 12345 runs", "pid 9876 runs", Mask.RANDOM),
        ("at localhost:49152 now", "at localhost:51234 now", Mask.RANDOM),
        ("commit 3f2a9bc here", "commit 81bb0de here", Mask.RANDOM),
        ("message 9", "message 10", Mask.CLOCK),
        ("Due on the 3rd of May", "Due on the 4th of May", Mask.CLOCK),
        ("see src/app.py", "see src/App.py", Mask.CASE),
        ("see ./src/a", "see ./lib/b", Mask.PATH),
    ],
)
def test_both_sides_are_evidence(old: str, new: str, mask: Mask) -> None:
    """The last five are too little for the linter, which sees one side."""
    assert mask_of(old, new) is mask
    assert mask_of(new, old) is mask


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Be brief.", "Be kind."),
        ("Wait 3 days.", "Wait 4 days."),
        ("pid 12345 runs", "pid 12345 stops"),
        ("Today is 2025-03-04.", "Today is fine."),
        ("at localhost:49152 now", "at example.org now"),
    ],
)
def test_a_thing_on_one_side_only_and_other_words_are_no_mask(old: str, new: str) -> None:
    assert mask_of(old, new) is None
    assert mask_of(new, old) is None


@given(st.text(), st.text())
def test_any_text_can_be_asked_about(old: str, new: str) -> None:
    """Halves of surrogate pairs, signs that stand for a mask, anything; and the answer is the same both ways."""
    assert mask_of(old + "\ud800", new + "\ud800") is mask_of(new + "\ud800", old + "\ud800")
