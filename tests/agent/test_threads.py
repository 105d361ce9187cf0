"""Two threads on one session: what is written is one conversation, and a second turn is refused or waits its turn."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from oasis_harness.agent import Session
from oasis_harness.conversation import Note, Reply, User
from oasis_harness.engine import ScriptedEngine
from oasis_harness.errors import OutOfOrder

N_RUNS, N_TURNS, N_NOTES = 20, 5, 40


def at_once(*work: Callable[[], object]) -> None:
    """Run `work` in a thread each, all let go at the same moment."""
    barrier = threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        barrier.wait()
        one()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("run", range(N_RUNS))
def test_notes_from_another_thread_never_break_the_file(run: int, tmp_path: Path) -> None:
    """A note while a reply is read: the file loads, every note is in it once, and the next turn carries them."""
    engine = ScriptedEngine(["Yes, it is so. " * 20] * (N_TURNS + 1))
    path = tmp_path / "c.jsonl"

    def note_often() -> None:
        for n in range(N_NOTES):
            session.note(f"note {n}")

    with Session(engine, path=path) as session:
        at_once(
            lambda: [session.send(f"question {n}") for n in range(N_TURNS)],
            note_often,
        )
        session.send("and now?")
    with Session.load(path, engine) as loaded:
        events = [node.event for node in loaded.conversation.nodes()]
        sent = b"".join(node.sent for node in loaded.conversation.nodes())
    assert [event.text for event in events if isinstance(event, Note)] == [b"note %d" % n for n in range(N_NOTES)]
    assert sum(isinstance(event, Reply) for event in events) == N_TURNS + 1
    assert all(sent.count(b"note %d\n" % n) == 1 for n in range(N_NOTES))


@pytest.mark.parametrize("run", range(N_RUNS))
def test_a_second_turn_at_once_is_refused_before_anything_is_recorded(run: int, tmp_path: Path) -> None:
    """Of many turns at once every one is answered whole or refused whole, and the file holds the answered ones."""
    engine = ScriptedEngine(["Yes. " * 40] * 40)
    path = tmp_path / "c.jsonl"
    answered: list[str] = []
    refused: list[str] = []

    def ask(name: str) -> None:
        for n in range(5):
            try:
                session.send(f"{name} {n}")
                answered.append(f"{name} {n}")
            except OutOfOrder as error:
                assert "a reply is still being read" in str(error)
                refused.append(f"{name} {n}")

    with Session(engine, path=path) as session:
        at_once(lambda: ask("ann"), lambda: ask("bob"), lambda: ask("eve"))
        assert len(session.turns) == len(answered)
    with Session.load(path, engine) as loaded:
        events = [node.event for node in loaded.conversation.nodes()]
    said = [event.text.decode() for event in events if isinstance(event, User)]
    assert sorted(said) == sorted(answered) and len(answered) + len(refused) == 15
    assert sum(isinstance(event, Reply) and bool(event.data) for event in events) == len(answered)
