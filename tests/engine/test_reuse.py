"""The check names what it finds, and each fault of a cache is found under its own name."""

import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness import ScriptedEngine, Session
from oasis_harness.engine import Cause, Completion, Finish, Policy, Reuse, check_reuse, measure_reuse
from oasis_harness.errors import ReuseDeficit, ReuseExcess, ReuseWarning


def outcome(presented: int, prefilled: int, held: int, matched: int) -> Completion:
    return Completion((), Finish.STOP, presented, prefilled, held, matched, 0)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.booleans())
def test_reused_prefilled_and_deficit_add_up(expected: int, reused: int, new: int, first: bool) -> None:
    """Every presented token is reused or prefilled; the deficit is what was expected and not reused."""
    reuse = measure_reuse(expected, outcome(reused + new, new, reused, reused), is_first_call=first)
    assert reuse.presented == reused + new
    assert reuse.deficit == max(0, expected - reused)
    assert (reuse.cause is None) is (reuse.deficit == 0 and not (first and reused == 0))


def test_the_first_call_is_cold_and_no_fault() -> None:
    """A resumed conversation expects its past and finds nothing: cold, not an error."""
    reuse = measure_reuse(500, outcome(520, 520, 0, 0), is_first_call=True)
    assert (reuse.cause, reuse.deficit, reuse.is_fault) == (Cause.COLD, 500, False)
    check_reuse(reuse, Policy.RAISE)


def test_nothing_held_after_the_first_call_is_forgotten() -> None:
    """An engine cannot call itself cold twice."""
    reuse = measure_reuse(500, outcome(520, 520, 0, 0), is_first_call=False)
    assert (reuse.cause, reuse.is_fault) == (Cause.FORGOTTEN, True)


def test_reusing_more_than_was_sent_is_an_error_under_every_policy() -> None:
    """It can only be somebody else's tokens."""
    excess = measure_reuse(10, outcome(30, 5, 25, 25), is_first_call=False)
    for policy in Policy:
        with pytest.raises(ReuseExcess, match="reused 25 tokens where the conversation had sent 10"):
            check_reuse(excess, policy)


def test_a_deficit_raises_or_warns_and_says_how_much() -> None:
    """The message has the numbers, the cause and the token."""
    reuse = Reuse(expected=1200, reused=7, prefilled=1300, deficit=1193, cause=Cause.DIVERGED, diverged_at=7)
    with pytest.raises(ReuseDeficit, match=r"7 of 1,200 tokens \(diverged at token 7\): 1,193 were read again"):
        check_reuse(reuse, Policy.RAISE)
    with pytest.warns(ReuseWarning, match="1,193"):
        check_reuse(reuse, Policy.WARN)


def forget(engine: ScriptedEngine) -> None:
    engine.faults.forget = True


def trim(engine: ScriptedEngine) -> None:
    engine.faults.trim = 1


def diverge(engine: ScriptedEngine) -> None:
    engine.faults.diverge_at = 9


def diverge_without_rewind(engine: ScriptedEngine) -> None:
    engine.faults.diverge_at, engine.faults.untrimmable = 9, True


@pytest.mark.parametrize(
    ("spoil", "cause", "deficit"),
    [
        (forget, Cause.FORGOTTEN, "all"),
        (trim, Cause.TRIMMED, 1),
        (diverge, Cause.DIVERGED, "from 9"),
        (diverge_without_rewind, Cause.DIVERGED, "all"),
    ],
)
def test_every_fault_of_a_cache_is_named(
    spoil: Callable[[ScriptedEngine], None], cause: Cause, deficit: int | str
) -> None:
    """Drop the trunk, trim one too many, change one id: the deficit and its cause follow."""
    engine = ScriptedEngine(["one", "two", "three"])
    session = Session(engine, system="s")
    session.send("hello")
    promised = session.conversation.n_expected
    spoil(engine)
    with pytest.warns(ReuseWarning):
        reuse = session.send("again").reuse
    assert reuse.cause is cause
    assert reuse.deficit == {"all": promised, "from 9": promised - 9}.get(str(deficit), deficit)
    assert reuse.diverged_at == (9 if cause is Cause.DIVERGED else None)
    assert session.send("and again").reuse == measure_clean(session)


def measure_clean(session: Session) -> Reuse:
    last = session.turns[-1].reuse
    return Reuse(last.expected, last.expected, last.prefilled, 0, None)


def test_no_fault_no_deficit() -> None:
    """The control: an honest cache never complains, over many turns."""
    engine = ScriptedEngine([f"reply {n}" for n in range(30)])
    session = Session(engine, policy="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(30):
            session.send(f"turn {n}")
    assert [turn.reuse.deficit for turn in session.turns] == [0] * 30


def test_a_cache_that_cannot_rewind_names_it() -> None:
    """It holds everything the conversation sent, and something more that does not match: no checkpoint."""
    reuse = measure_reuse(50, outcome(60, 60, 55, 50), is_first_call=False)
    assert reuse.cause is Cause.NO_CHECKPOINT
