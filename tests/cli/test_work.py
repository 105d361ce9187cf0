"""`oasis run` on a scripted engine: what is printed where, and the exit code."""

import io
import json
import os
import pty
import select
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oasis_harness import ScriptedEngine, Session, workspace_tools
from oasis_harness.agent import AgentEvent, CallFinished
from oasis_harness.cli.approval import ask
from oasis_harness.cli.run import RunOptions, Strictness, work
from oasis_harness.cli.views import JsonView, TextView
from oasis_harness.registry import Effect, Tool, Tools
from oasis_harness.replies import ToolCall
from oasis_harness.toolbox import Sandbox

READ = '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>'


def options(folder: Path, **changes: Any) -> RunOptions:
    defaults: dict[str, Any] = {
        "model": "scripted",
        "workspace": folder,
        "allow_all": False,
        "as_json": True,
        "max_turns": 50,
        "tool_choice": None,
        "strict": Strictness.OFF,
        "conversation": folder / "c.jsonl",
        "max_tokens": 512,
        "skills": None,
    }
    return RunOptions(**(defaults | changes))


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=no_constant) for line in text.splitlines()]


def write_call() -> tuple[ToolCall, Tool]:
    def save(text: str) -> str:
        """Save `text`."""
        return text

    tools = Tools()
    tools.add(save, effect=Effect.WRITE)
    (tool,) = tools.frozen()
    return ToolCall("c1", "save", {"text": "\ud800\x9b"}), tool


def test_json_holds_whatever_a_call_carries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lone surrogates stay, NaN and infinity become null, and every line is ASCII and JSON."""
    call = '<tool_call>{"name": "read_file", "arguments": {"path": "\\ud800", "limit": [NaN, -1e999]}}</tool_call>'
    assert work("go", options(tmp_path), ScriptedEngine([call, "done"]), JsonView()) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    (record,) = [record for record in records(out) if record["type"] == "call"]
    assert record["arguments"] == {"path": "\ud800", "limit": [None, None]}


def test_started_tells_the_file_and_what_was_torn_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program learns of a recovery from stdout, as a person does from stderr."""
    work("go", options(tmp_path), ScriptedEngine(["done"]), JsonView())
    file, torn = tmp_path / "c.jsonl", b'{"digest":"sha256:e5'
    file.write_bytes(file.read_bytes() + torn)
    first = records(capsys.readouterr().out)[0]
    work("more", options(tmp_path), ScriptedEngine(["done"]), JsonView())
    second = records(capsys.readouterr().out)[0]
    assert (first["conversation"], first["torn"]) == (str(file), None)
    assert second["torn"]["n_bytes"] == len(torn)
    assert Path(second["torn"]["aside"]).read_bytes() == torn + b"\n"


def test_a_run_out_of_turns_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and which option would change it."""
    assert work("go", options(tmp_path, max_turns=1), ScriptedEngine([READ]), TextView()) == 1
    assert "stopped: no turns left (--max-turns)\n" in capsys.readouterr().err


def test_an_answer_cut_by_its_length_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 here too."""
    assert work("go", options(tmp_path, max_tokens=3), ScriptedEngine(["a long answer"]), TextView()) == 1
    assert "stopped: the answer was cut" in capsys.readouterr().err


@pytest.mark.parametrize(("strict", "code"), [(Strictness.WARM, 3), (Strictness.COLD, 3), (Strictness.OFF, 0)])
def test_a_deficit_counts_only_under_strict(tmp_path: Path, strict: Strictness, code: int) -> None:
    """Exit code 3 for an answered run that read something twice."""
    engine = ScriptedEngine([READ, "done"])

    class Forgetting(JsonView):
        def show(self, event: AgentEvent) -> None:
            engine.faults.forget = isinstance(event, CallFinished)

    assert work("go", options(tmp_path, strict=strict), engine, Forgetting()) == code


@pytest.mark.parametrize(("strict", "code"), [(Strictness.WARM, 0), (Strictness.COLD, 3), (Strictness.OFF, 0)])
def test_a_run_a_message_starts_cold_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strict: Strictness, code: int
) -> None:
    """All is read again, for a new process holds nothing: it is counted, and =cold does not take it."""
    work("go", options(tmp_path), ScriptedEngine(["done"]), JsonView())
    capsys.readouterr()
    assert work("more", options(tmp_path, strict=strict), ScriptedEngine(["done"]), JsonView()) == code
    *_, turn, _, ended = records(capsys.readouterr().out)
    assert turn["reuse"]["cause"] == "cold"
    assert ended["deficit"] == 0 and ended["cold"] == turn["reuse"]["deficit"] > 50


def test_nothing_to_do_is_said_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answered conversation without a new task: exit code 0, a word on stderr, no empty table."""
    work("go", options(tmp_path), ScriptedEngine(["done"]), TextView())
    capsys.readouterr()
    assert work(None, options(tmp_path), ScriptedEngine([]), TextView()) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "nothing to do" in told.err


def test_the_end_tells_how_many_seams_there_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the whole conversation, in the record and in the line under the table."""
    work("go", options(tmp_path), ScriptedEngine(["done"]), JsonView())
    assert records(capsys.readouterr().out)[-1]["seams"] == {"special": 0, "plain": 1, "non_canonical": 0}
    work("more", options(tmp_path), ScriptedEngine(["done"]), TextView())
    assert capsys.readouterr().out.endswith("seams 3 · special 1 · plain 2 · non-canonical 0\n")


def test_an_open_call_of_a_loaded_file_is_shown_before_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where everything is allowed: the file may be somebody else's."""
    script = '<tool_call>{"name": "shell", "arguments": {"command": "touch ran\\u001b]52;c;eA==\\u0007"}}</tool_call>'
    with Session(ScriptedEngine([script]), tools=workspace_tools(tmp_path), path=tmp_path / "c.jsonl") as session:
        session.send("go")
    seen: list[bool] = []

    class Watching(TextView):
        def report(self, doing: str, share: float = 0.0) -> None:
            seen.append("touch ran" in doing and not (tmp_path / "ran").exists())
            super().report(doing, share)

    work(None, options(tmp_path, allow_all=True), ScriptedEngine(["done"]), Watching())
    assert any(seen) and "\x1b]52" not in capsys.readouterr().err


def test_an_interrupt_tells_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes on to the caller; where the conversation lies is on stderr."""

    class Interrupted(JsonView):
        def show(self, event: AgentEvent) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work("go", options(tmp_path), ScriptedEngine(["done"]), Interrupted())
    assert f"conversation: {tmp_path / 'c.jsonl'}\n" in capsys.readouterr().err


class Person:
    """Somebody at a terminal: reads what stands there, and types."""

    def __init__(self) -> None:
        self.hand, self._screen = pty.openpty()
        self.terminal = os.ttyname(self._screen)
        self.seen = b""

    def answers(self, typed: bytes) -> bool:
        """Wait for the question, type, and return what it was taken for."""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, *write_call(), terminal=self.terminal)
            while b"[y/N] " not in self.seen and not asked.done():
                if select.select([self.hand], [], [], 0.1)[0]:
                    self.seen += os.read(self.hand, 1024)
            os.write(self.hand, typed)
            return asked.result(timeout=30)


@pytest.fixture
def person() -> Iterator[Person]:
    someone = Person()
    yield someone
    os.close(someone.hand)
    os.close(someone._screen)


@pytest.mark.parametrize(("typed", "allowed"), [(b"y\n", True), (b"YES\n", True), (b"n\n", False), (b"\n", False)])
def test_the_approval_is_asked_on_the_terminal(person: Person, typed: bytes, allowed: bool) -> None:
    """Control characters of the arguments are escaped there."""
    assert person.answers(typed) is allowed
    assert b"save wants to write" in person.seen and b"\\x9b" in person.seen


def test_ctrl_d_means_no(person: Person) -> None:
    assert person.answers(b"\x04") is False


def test_what_was_typed_before_the_question_does_not_answer_it(person: Person) -> None:
    """A person who typed on while the model worked has not seen what they would allow."""
    os.write(person.hand, b"y\ny\nyes\n")
    assert person.answers(b"n\n") is False


@pytest.mark.parametrize("terminal", ["/dev/null", "/nowhere/tty"])
def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, terminal: str) -> None:
    """A yes that waits on stdin, a pipe of somebody else, is not read."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not ask(*write_call(), terminal=terminal)
    assert sys.stdin.read() == "y\n"


def test_commands_are_confined_unless_the_options_say_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--sandbox` reaches the shell tool: one that cannot work refuses, and `off` runs the command."""
    call = '<tool_call>{"name": "shell", "arguments": {"command": "echo ran"}}</tool_call>'
    for number, (sandbox, said) in enumerate([(Sandbox.BUBBLEWRAP, "No command is run"), (Sandbox.OFF, "ran\n[exit")]):
        wished = options(tmp_path, sandbox=sandbox, allow_all=True, conversation=tmp_path / f"{number}.jsonl")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", "/nowhere")
            work("go", wished, ScriptedEngine([call, "done"]), JsonView())
        assert said in capsys.readouterr().out.replace("\\n", "\n")


def test_the_conversation_and_the_skills_are_not_written_by_their_own_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They lie in the workspace here, as they do where somebody keeps everything in one folder."""
    (tmp_path / "skills").mkdir()
    call = '<tool_call>{"name": "write_file", "arguments": {"path": "%s", "content": "x"}}</tool_call>'
    replies = [call % "c.jsonl", call % "skills/new/SKILL.md", "done"]
    work("go", options(tmp_path, skills=tmp_path / "skills", allow_all=True), ScriptedEngine(replies), JsonView())
    assert capsys.readouterr().out.count("the harness keeps it for itself") == 2
