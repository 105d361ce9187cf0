"""The command line, tried as a person would: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oasis_harness.conversation import Reply, load


def oasis(*words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oasis_harness", *words],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tests.embedded.tiny import write_tiny_model

    return str(write_tiny_model(tmp_path_factory.mktemp("models") / "llama", "llama"))


@pytest.mark.slow
def test_help_names_the_commands() -> None:
    """Every command of the README is there."""
    done = oasis("--help")
    assert done.returncode == 0
    for command in ("run", "doctor", "models"):
        assert command in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "there is no task"),
        (["run", "x", "--workspace", "/no/such/folder"], "/no/such/folder is no folder"),
        (["run", "x", "--model", "no-such-model"], "no model 'no-such-model'"),
        (["models", "path", "no-such-model"], "no-such-model is not on this machine"),
        (["models", "pull", "no-such-model"], "no model 'no-such-model'"),
    ],
)
def test_nonsense_gets_one_clear_message(words: list[str], message: str) -> None:
    """No traceback, exit code 2, what is wrong and what to do."""
    done = oasis(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_wrong_tool_choice_is_named(tiny: str) -> None:
    """With the choices there are."""
    done = oasis("run", "x", "--model", tiny, "--tool-choice", "sometimes", "--conversation", os.devnull)
    assert done.returncode == 2
    assert "no tool choice 'sometimes'" in done.stderr


@pytest.mark.slow
def test_json_output_is_one_object_a_line_and_the_run_can_be_continued(tiny: str, tmp_path: Path) -> None:
    """Programs read types and counts; a second run goes on in the same file, cold but without a fault."""
    words = ["--model", tiny, "--tool-choice", "none", "--json", "--max-tokens", "8", "--conversation", "c.jsonl"]
    first = oasis("run", "hello", *words, "--strict", cwd=tmp_path)
    second = oasis("run", "again", *words, "--strict", cwd=tmp_path)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    records = [json.loads(line) for line in second.stdout.splitlines()]
    assert [record["type"] for record in records] == ["started", "turn", "finished", "ended"]
    (turn,) = [record for record in records if record["type"] == "turn"]
    assert turn["reuse"]["cause"] == "cold"
    assert turn["reuse"]["expected"] > 0
    assert records[-1]["deficit"] == 0


def conversation_with_an_open_write(tiny: str, tmp_path: Path) -> Path:
    """A recorded conversation of the tiny model whose last reply calls write_file and has no result yet."""
    from oasis_harness import ScriptedEngine, Session, workspace_tools
    from oasis_harness.embedded import worker
    from oasis_harness.embedded.loader import load_folder

    (tmp_path / "ws").mkdir()
    card = worker.run(lambda: load_folder(Path(tiny), "tiny")).card
    call = '<tool_call>{"name": "write_file", "arguments": {"path": "new.txt", "content": "hi"}}</tool_call>'
    engine = ScriptedEngine([call], card=card)
    with Session(engine, tools=workspace_tools(tmp_path / "ws"), path=tmp_path / "c.jsonl") as session:
        session.send("write new.txt")
    return tmp_path / "c.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True])
def test_without_a_terminal_a_tool_that_writes_needs_yes(tiny: str, tmp_path: Path, allowed: bool) -> None:
    """Denied, the model reads so as the call's result; with -y the file is there. Either way the run goes on."""
    file = conversation_with_an_open_write(tiny, tmp_path)
    words = ["--model", tiny, "--tool-choice", "none", "--max-tokens", "4", "--json", *(["-y"] if allowed else [])]
    done = oasis("run", *words, "--conversation", str(file), "--workspace", str(tmp_path / "ws"))
    (result,) = [json.loads(line) for line in done.stdout.splitlines() if '"type": "result"' in line]
    assert done.returncode == 0, done.stderr
    assert result["is_error"] is not allowed
    assert ("did not allow" in result["content"]) is not allowed
    assert (tmp_path / "ws" / "new.txt").exists() is allowed


@pytest.mark.slow
def test_an_interrupt_keeps_the_conversation(tiny: str, tmp_path: Path) -> None:
    """Ctrl-C in the middle of a reply: exit code 130, and the reply so far is in the file."""
    command = [sys.executable, "-m", "oasis_harness", "run", "hello", "--model", tiny, "--max-tokens", "3000"]
    process = subprocess.Popen(
        [*command, "--tool-choice", "none", "--conversation", str(tmp_path / "c.jsonl")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    reply = load(tmp_path / "c.jsonl").tip.event
    assert isinstance(reply, Reply)
    assert reply.finish == "cancelled"


@pytest.mark.slow
def test_doctor_names_the_blas_and_its_speed() -> None:
    """The winner of the BLAS choice, why, and a measured number."""
    done = oasis("doctor", OASIS_BLAS="reference")
    assert done.returncode == 0, done.stderr
    assert "reference: OASIS_BLAS=reference" in done.stdout or sys.platform == "darwin"
    assert "GFLOP/s" in done.stdout


@pytest.mark.slow
@pytest.mark.model
def test_models_path_finds_what_was_pulled(default_model: Path) -> None:
    """pull, list and path agree."""
    assert oasis("models", "path").stdout.strip() == str(default_model)
    assert str(default_model) in oasis("models", "list").stdout
    assert oasis("models", "pull").stdout.strip() == str(default_model)
