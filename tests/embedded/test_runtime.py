"""The engine keeps what it read, and says so truthfully, on every kind of cache."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oasis_harness import Sampling, Session
from oasis_harness.embedded import worker
from oasis_harness.embedded.decode import CountingModel, LiveCache
from oasis_harness.embedded.runtime import MlxEngine
from oasis_harness.engine import Completion, Finish, Piece, Prompt, Reuse
from oasis_harness.errors import EngineClosed, PromptTooLong, ReuseDeficit, UnknownToken

from .oracle import RecordingModel, cold_run


def ask(engine: MlxEngine, key: str, ids: Sequence[int], max_tokens: int = 4) -> Completion:
    *_, last = engine.generate(Prompt(key, np.array(ids, dtype=np.uint32)), Sampling(max_tokens=max_tokens))
    assert isinstance(last, Completion)
    return last


def text(n: int, seed: int = 1) -> list[int]:
    return [int(x) for x in np.random.default_rng(seed).integers(97, 122, n)]


def test_reused_and_prefilled_add_up_to_what_was_presented(tiny_engine: MlxEngine) -> None:
    """The second call reads only what the first did not."""
    first = ask(tiny_engine, "sum", text(50))
    assert (first.n_prefilled, first.n_presented, first.n_held) == (50, 50, 0)
    grown = [*text(50), *first.ids, *text(7, seed=2)]
    second = ask(tiny_engine, "sum", grown)
    held = 50 + len(first.ids) - first.n_pending
    assert second.n_held == second.n_matched == held
    assert second.n_prefilled == len(grown) - held


def test_a_reply_cut_by_length_leaves_one_token_pending(tiny_engine: MlxEngine) -> None:
    """The last sampled token was never read; nothing else is missing."""
    outcome = ask(tiny_engine, "length", text(20), max_tokens=3)
    assert (outcome.finish, outcome.n_pending, len(outcome.ids)) == (Finish.LENGTH, 1, 3)


def test_a_stop_token_is_never_read(llama: MlxEngine) -> None:
    """A card whose stop ids are all ids stops at once: nothing is sampled, nothing is pending."""
    loaded, stops = llama._loaded, frozenset(range(259))
    llama._loaded = replace(loaded, model_info=replace(loaded.model_info, stop_ids=stops))
    try:
        outcome = ask(llama, "stop", text(20))
    finally:
        llama._loaded = loaded
    assert (outcome.finish, outcome.ids, outcome.n_pending) == (Finish.STOP, (), 0)


def test_the_same_prompt_again_reads_its_last_token(llama: MlxEngine) -> None:
    """An exact hit is cut back by one: there is always a token to run, and the reply is the same."""
    first = ask(llama, "exact", text(30))
    again = ask(llama, "exact", text(30))
    assert again.n_prefilled == 1
    assert again.ids == first.ids


class CancellingModel(CountingModel):
    """Cancels the running call after its `n`-th slice."""

    def __init__(self, engine: MlxEngine, n: int) -> None:
        super().__init__(engine._loaded.model)
        self._engine, self._n = engine, n

    def read(self, live: LiveCache, ids: Any) -> Any:
        logits = super().read(live, ids)
        self._n -= 1
        if self._n == 0:
            self._engine.cancel()
        return logits


@pytest.mark.parametrize("n_slices", [1, 2, 3, 4, 5, 6])
def test_a_cancel_at_any_slice_loses_nothing(tiny_engine: MlxEngine, n_slices: int) -> None:
    """Cancelled after any chunk or token, what was read is held, and the retry answers as if never cancelled."""
    key, kept = f"cancel {n_slices}", tiny_engine._model
    tiny_engine._model = CancellingModel(tiny_engine, n_slices)
    try:
        cancelled = ask(tiny_engine, key, text(60), max_tokens=50)
    finally:
        tiny_engine._model = kept
    n_held = 60 + len(cancelled.ids) - cancelled.n_pending
    assert (cancelled.finish, n_held) == (Finish.CANCELLED, [16, 32, 48, 59, 60, 61][n_slices - 1])
    grown = [*text(60), *cancelled.ids, *text(3, seed=5)]
    retry = ask(tiny_engine, key, grown)
    assert (retry.n_matched, retry.n_prefilled) == (n_held, len(grown) - n_held)
    assert retry.ids == ask(tiny_engine, f"cold {n_slices}", grown).ids


def test_an_id_outside_the_vocabulary_is_refused(llama: MlxEngine) -> None:
    """mlx reads whatever lies behind its embedding there, or dies."""
    n_vocabulary = llama._loaded.n_vocabulary
    with pytest.raises(UnknownToken, match=rf"token {n_vocabulary} is not in the vocabulary"):
        ask(llama, "outside", [*text(3), n_vocabulary])
    with pytest.raises(UnknownToken):
        ask(llama, "outside", [2**32 - 1])


def test_closing_the_steps_keeps_what_was_read(llama: MlxEngine) -> None:
    """A consumer that walks away cancels; what was read is still held."""
    steps = llama.generate(Prompt("close", np.array(text(40), dtype=np.uint32)), Sampling(max_tokens=200))
    for step in steps:
        if isinstance(step, Piece):
            break
    steps.close()  # type: ignore[attr-defined]  # the engine's iterator can be closed
    assert ask(llama, "close", [*text(40), *text(5, seed=3)]).n_matched == 40


def test_forks_continue_alternately_without_touching_each_other(tiny_engine: MlxEngine) -> None:
    """Two branches of one live, grown in turns: each one's logits are those of a cold run in its own slices."""
    recorder = RecordingModel(tiny_engine._loaded.model)
    tiny_engine._model, kept = recorder, tiny_engine._model
    try:
        histories = {"live": text(40)}
        grow(tiny_engine, histories, "live")
        logs = {"live": recorder.slices[:], "branch": recorder.slices[:]}
        held = len(tiny_engine._live_caches["live"].ids)
        tiny_engine.fork("live", "branch", held)
        histories["branch"] = list(histories["live"])
        for round_number in range(3):
            for key in ("live", "branch"):
                recorder.slices.clear()
                histories[key] += text(5 + round_number, seed=len(key) + round_number)
                grow(tiny_engine, histories, key)
                logs[key] += recorder.slices
        for key in logs:
            cold = cold_run(tiny_engine, logs[key])
            assert all(np.array_equal(warm, again) for (_, _, warm), again in zip(logs[key], cold, strict=True))
    finally:
        tiny_engine._model = kept


def grow(engine: MlxEngine, histories: dict[str, list[int]], key: str) -> None:
    outcome = ask(engine, key, histories[key])
    assert outcome.n_matched == outcome.n_held
    histories[key] += outcome.ids


def test_a_changed_token_is_never_reused(tiny_engine: MlxEngine) -> None:
    """The prompt's own prefix decides: from the changed token on everything is read again, or all of it."""
    first = ask(tiny_engine, "changed", text(50))
    changed = text(50)
    changed[20] += 1
    second = ask(tiny_engine, "changed", changed)
    assert second.n_matched == 20
    can_rewind = tiny_engine.model_info.name == "llama"
    assert second.n_prefilled == (30 if can_rewind else 50)
    assert second.ids == ask(tiny_engine, "changed, cold", changed).ids
    assert first.n_presented == 50


def test_a_dropped_trunk_is_a_named_deficit(tiny_engine: MlxEngine) -> None:
    """The real engine, made to forget: forgotten. One token too few: trimmed. One id changed: diverged, where."""
    for spoil, cause in ((forget, "forgotten"), (trim, "trimmed"), (change, "diverged")):
        with Session(tiny_engine, system="s", policy="raise", sampling=Sampling(max_tokens=3)) as session:
            session.send("a first turn, long enough to matter")
            spoil(tiny_engine, session._asking.key)
            with pytest.raises(ReuseDeficit) as error:
                session.send("a second")
            reuse = error.value.values["reuse"]
            assert isinstance(reuse, Reuse)
            assert reuse.cause == cause
            assert reuse.deficit > 0
            assert (reuse.diverged_at == 7) is (cause == "diverged")
            assert session.send("a third").reuse.deficit == 0


def forget(engine: MlxEngine, key: str) -> None:
    engine.forget(key)


def trim(engine: MlxEngine, key: str) -> None:
    live = engine._live_caches[key]
    engine._live_caches[key] = worker.run(lambda: engine._cut(live, len(live.ids) - 1))
    if not len(engine._live_caches[key].ids):  # a cache that cannot be trimmed is read again, one token short
        ids = live.ids[:-1]
        worker.run(lambda: [engine._model.read(engine._live_caches[key], ids)])


def change(engine: MlxEngine, key: str) -> None:
    ids = engine._live_caches[key].ids.copy()
    ids[7] ^= 1
    engine._live_caches[key].ids = ids


def test_a_prompt_over_the_window_is_refused_with_numbers(llama: MlxEngine) -> None:
    """Nothing is read, and the conversation's cache stays."""
    ask(llama, "window", text(10))
    with pytest.raises(PromptTooLong, match=r"4,096 tokens, the context window 4,096"):
        ask(llama, "window", text(4096))
    assert ask(llama, "window", text(12)).n_matched == 10


def test_calls_from_several_threads_are_answered_one_after_another(llama: MlxEngine) -> None:
    """All mlx work happens on one thread; callers may be on any."""
    outcomes: list[Completion] = []
    threads = [
        threading.Thread(target=lambda n=n: outcomes.append(ask(llama, f"thread {n}", text(20)))) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    assert len({outcome.ids for outcome in outcomes}) == 1


def test_a_closed_engine_says_so(tiny_folder: Path) -> None:
    """A call after close is an error, and closing twice is none."""
    engine = MlxEngine(tiny_folder)
    engine.close()
    engine.close()
    with pytest.raises(EngineClosed):
        ask(engine, "closed", text(3))


def test_sampling_is_reproducible_and_its_seed_matters(llama: MlxEngine) -> None:
    """The same seed gives the same reply; among several seeds some differ."""

    def reply(seed: int) -> tuple[int, ...]:
        prompt = Prompt(f"seed {seed}", np.array(text(20), dtype=np.uint32))
        llama.forget(prompt.conversation)
        *_, last = llama.generate(prompt, Sampling(max_tokens=8, temperature=1.5, seed=seed))
        assert isinstance(last, Completion)
        return last.ids

    assert reply(1) == reply(1)
    assert len({reply(seed) for seed in range(4)}) > 1


def test_a_cancel_is_for_one_conversation(llama: MlxEngine) -> None:
    """Closing a finished stream, or cancelling another conversation, stops nobody else."""
    finished = llama.generate(Prompt("over", np.array(text(5), dtype=np.uint32)), Sampling(max_tokens=1))
    list(finished)
    running = llama.generate(Prompt("runs", np.array(text(5), dtype=np.uint32)), Sampling(max_tokens=60))
    next(running)
    finished.close()  # type: ignore[attr-defined]  # the engine's iterator can be closed
    llama.cancel("over")
    *_, outcome = running
    assert isinstance(outcome, Completion)
    assert (outcome.finish, len(outcome.ids)) == (Finish.LENGTH, 60)


def test_a_session_cancelled_while_its_prompt_is_read_goes_on_without_a_fault(tiny_engine: MlxEngine) -> None:
    """On every kind of cache, under `raise`."""
    kept = tiny_engine._model
    tiny_engine._model = CancellingModel(tiny_engine, 2)
    try:
        with Session(tiny_engine, system="x" * 100, policy="raise", sampling=Sampling(max_tokens=4)) as session:
            cancelled = session.send("one")
            assert (cancelled.finish, cancelled.reuse.reused) == (Finish.CANCELLED, 0)
            assert session.send("two").reuse.reused == 32
    finally:
        tiny_engine._model = kept


def test_a_fork_at_an_older_tip_is_exact_or_cold_and_never_a_fault(tiny_engine: MlxEngine) -> None:
    """A cache that can be rewound gives all of it; one that cannot starts again, and says cold."""
    with Session(tiny_engine, policy="raise", sampling=Sampling(max_tokens=4)) as session:
        session.send("one, long enough to pass the window")
        tip = session.conversation.tip
        session.send("two")
        reuse = session.fork(at=tip).send("other").reuse
    can_rewind = tiny_engine.model_info.name == "llama"
    assert (reuse.deficit == 0, reuse.is_fault) == (can_rewind, False)
    assert reuse.cause == (None if can_rewind else "cold")
