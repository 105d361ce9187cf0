"""`oasis run` on a scripted engine: what is printed where, and the exit code."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from oasis_harness import ScriptedEngine
from oasis_harness.agent import AgentEvent, CallFinished
from oasis_harness.cli.run import RunOptions, ask, work
from oasis_harness.cli.views import JsonView, TextView
from oasis_harness.registry import Effect, Tool, Tools
from oasis_harness.replies import ToolCall
from oasis_harness.toolbox import Sandbox

READ = '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def options(folder: Path, **changes: Any) -> RunOptions:
    defaults: dict[str, Any] = {
        "model": "scripted",
        "workspace": folder,
        "allow_all": False,
        "as_json": True,
        "max_turns": 50,
        "tool_choice": None,
        "strict": False,
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


@pytest.mark.parametrize(("strict", "code"), [(True, 3), (False, 0)])
def test_a_deficit_counts_only_under_strict(tmp_path: Path, strict: bool, code: int) -> None:
    """Exit code 3 for an answered run that read something twice."""
    engine = ScriptedEngine([READ, "done"])

    class Forgetting(JsonView):
        def show(self, event: AgentEvent) -> None:
            engine.faults.forget = isinstance(event, CallFinished)

    assert work("go", options(tmp_path, strict=strict), engine, Forgetting()) == code


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


def test_an_interrupt_tells_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes on to the caller; where the conversation lies is on stderr."""

    class Interrupted(JsonView):
        def show(self, event: AgentEvent) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work("go", options(tmp_path), ScriptedEngine(["done"]), Interrupted())
    assert f"conversation: {tmp_path / 'c.jsonl'}\n" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "allowed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_the_approval_is_asked_on_stderr(monkeypatch: pytest.MonkeyPatch, typed: str, allowed: bool) -> None:
    """Stdout stays clean, control characters are escaped, and Ctrl-D means no."""
    screen, out = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", out)
    assert ask(*write_call()) is allowed
    assert out.getvalue() == ""
    assert "save wants to write" in screen.getvalue()
    assert "\\x9b" in screen.getvalue()


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where stdin is closed."""
    for stdin in (None, io.StringIO("y\n")):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert not ask(*write_call())


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
