"""A session's file: what fails while it is written is rescued, and what somebody else wrote is read with care."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oasis_harness import ScriptedEngine, Session
from oasis_harness.canonical import canonical_json
from oasis_harness.chain import link
from oasis_harness.conversation import Reply, load
from oasis_harness.errors import BrokenChain, NotRecorded

Body = dict[str, Any]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_reply_outlives_the_file_it_was_to_be_written_to(tmp_path: Path, state: Path) -> None:
    """`git clean` while the model answers: question and answer are in the file that the error names."""
    path = tmp_path / "c.jsonl"
    session = Session(ScriptedEngine(["It adds."]), path=path)
    with pytest.raises(NotRecorded, match=r"deleted by another program .* go on with Session\.load") as caught:
        for _ in session.stream("What does it do?"):
            path.unlink(missing_ok=True)
    rescued = caught.value.rescued
    assert rescued is not None and rescued.is_relative_to(state)
    assert isinstance(load(rescued).tip.event, Reply) and load(rescued).tip.sent == b"It adds."
    again = Session.load(rescued, ScriptedEngine(["Two numbers."]), policy="raise")
    assert again.send("What?").text == "Two numbers."


def forged(path: Path, change: Callable[[Body], object]) -> None:
    """Change the last event of a file and chain it again, as whoever wants to be believed would."""
    *lines, last = path.read_bytes().splitlines()
    body = json.loads(last)["body"]
    change(body)
    data = canonical_json(body)
    name = link(json.loads(lines[-1])["digest"], data)
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b'{"digest":"%s","body":%s}\n' % (name.encode(), data))


FORGED: dict[str, Callable[[Body], object]] = {
    "other words in the ids": lambda body: body.update(ids=[*b"No, never."]),
    "an id without a row": lambda body: body.update(ids=[4_000_000_000]),
    "other words shown": lambda body: body["event"].update(data="No, never."),
    "other words sent": lambda body: body.update(sent="No, never."),
    "ids that are left out": lambda body: body.update(ids=[]),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED.keys())
def test_a_file_whose_tokens_say_something_else_is_not_gone_on_with(
    tmp_path: Path, change: Callable[[Body], object]
) -> None:
    """The digests fit, since whoever wrote the file made them; the model would read other words than are shown."""
    path = tmp_path / "c.jsonl"
    with Session(ScriptedEngine(["Yes, always."]), path=path) as session:
        session.send("Is it so?")
    forged(path, change)
    with pytest.raises(BrokenChain, match=r"line 3: the tokens of this reply do not spell what it says"):
        Session.load(path, ScriptedEngine([]))


def test_a_file_that_was_only_chained_again_loads(tmp_path: Path) -> None:
    """The forging of these tests itself breaks nothing."""
    with Session(ScriptedEngine(["Yes."]), path=tmp_path / "c.jsonl") as session:
        session.send("Is it so?")
    forged(tmp_path / "c.jsonl", lambda body: None)
    assert len(Session.load(tmp_path / "c.jsonl", ScriptedEngine([])).conversation) == 3


def test_every_event_can_be_asked_to_be_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One flush an event, in a new session and in a loaded one; none without the wish."""
    flushed: list[int] = []
    flush = os.fsync

    def counted(file: int) -> None:
        flushed.append(file)
        flush(file)

    monkeypatch.setattr(os, "fsync", counted)
    for name, is_synced in (("fast", False), ("sure", True)):
        with Session(ScriptedEngine(["a"]), path=tmp_path / name, is_synced=is_synced) as session:
            session.send("one")
        with Session.load(tmp_path / name, ScriptedEngine(["b"]), is_synced=is_synced) as session:
            session.send("two")
        assert len(flushed) == (5 if is_synced else 0)
