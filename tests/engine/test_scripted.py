"""The shipped test double behaves as engines must."""

import numpy as np
import pytest

from oasis_harness import Sampling, ScriptedEngine, ToolChoice
from oasis_harness.engine import Completion, Engine, Finish, Piece, Prompt
from oasis_harness.errors import EngineClosed


def ask(engine: Engine, ids: list[int], key: str = "k", **options: int) -> Completion:
    *_, last = engine.generate(Prompt(key, np.array(ids, dtype=np.uint32)), Sampling(**options))  # type: ignore[arg-type]
    assert isinstance(last, Completion)
    return last


def test_it_reads_only_what_is_new() -> None:
    """Prompt and reply are held; the next prompt's tail is prefilled."""
    engine = ScriptedEngine(["ab", "c"])
    first = ask(engine, [1, 2, 3])
    assert (first.n_prefilled, first.n_pending, first.finish) == (3, 0, Finish.STOP)
    second = ask(engine, [1, 2, 3, *first.ids, 9])
    assert (second.n_held, second.n_matched, second.n_prefilled) == (5, 5, 1)


def test_a_length_limit_leaves_one_pending() -> None:
    """As a real engine: the last sampled token was not read."""
    outcome = ask(ScriptedEngine(["abcdef"]), [1], max_tokens=2)
    assert (outcome.ids, outcome.finish, outcome.n_pending) == ((97, 98), Finish.LENGTH, 1)


def test_a_cancel_ends_the_call() -> None:
    """Cancelled after the first piece, the reply has one token."""
    engine = ScriptedEngine(["abcdef"])
    last = None
    for step in engine.generate(Prompt("k", np.array([1], dtype=np.uint32)), Sampling()):
        if isinstance(step, Piece):
            engine.cancel()
        last = step
    assert isinstance(last, Completion)
    assert (last.finish, last.ids) == (Finish.CANCELLED, (97,))


def test_a_consumer_that_leaves_loses_nothing() -> None:
    """Closing the steps keeps what was read."""
    engine = ScriptedEngine(["abc", "d"])
    steps = engine.generate(Prompt("k", np.array([1, 2], dtype=np.uint32)), Sampling())
    next(steps)
    steps.close()  # type: ignore[attr-defined]  # a generator
    assert ask(engine, [1, 2, 3]).n_matched == 2


def test_forks_and_forgetting() -> None:
    """A fork holds what its source held, up to where it forked."""
    engine = ScriptedEngine(["a", "b", "c"])
    ask(engine, [1, 2, 3])
    engine.fork("k", "branch", 2)
    assert ask(engine, [1, 2, 7], key="branch").n_matched == 2
    engine.forget("k")
    assert ask(engine, [1, 2, 3]).n_held == 0


def test_sampling_takes_a_tool_choice_by_name_and_refuses_nonsense() -> None:
    """A plain string is the choice it names; what cannot be sampled is refused where it is written."""
    assert Sampling(tool_choice="required").tool_choice is ToolChoice.REQUIRED  # type: ignore[arg-type]  # as users do
    for wrong in ({"tool_choice": "sometimes"}, {"max_tokens": 0}, {"temperature": -1.0}):
        with pytest.raises(ValueError):
            Sampling(**wrong)


def test_a_script_that_is_over_says_so() -> None:
    """Not an empty reply: an error that tells what to do."""
    with pytest.raises(EngineClosed, match="only 0 replies"):
        ask(ScriptedEngine([]), [1])
