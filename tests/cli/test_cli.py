"""The command line, tried as a person would: in a process of its own where that is the point, and in this one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from oasis_harness import embedded
from oasis_harness.cli.doctor import examine
from oasis_harness.cli.main import main
from oasis_harness.conversation import Reply, load


class Done(NamedTuple):
    """What a command ended with."""

    returncode: int
    stdout: str
    stderr: str


Oasis = Callable[..., Done]


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


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Oasis:
    """Run the command in this process, without a terminal."""

    def run(*words: str, cwd: Path | None = None) -> Done:
        with monkeypatch.context() as patch, Path(os.devnull).open(encoding="utf-8") as nothing:
            patch.setattr(sys, "argv", ["oasis", *words])
            patch.setattr(sys, "stdin", nothing)
            patch.setenv("COLUMNS", "200")
            if cwd is not None:
                patch.chdir(cwd)
            with pytest.raises(SystemExit) as ending:
                main()
        out, err = capsys.readouterr()
        return Done(int(ending.value.code or 0), out, err)

    return run


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
        (["run", "x", "--model", ""], "a model has a name"),
        (["run", "x", "--max-turns", "0"], "Usage: "),
        (["run", "x", "--model", "no-such-model"], "no model 'no-such-model'"),
        (["run", "x", "--sandbox", "chroot"], "--sandbox is 'chroot'"),
        (["models", "path", "no-such-model"], "no-such-model is not on this machine"),
        (["models", "pull", "no-such-model"], "no model 'no-such-model'"),
    ],
)
def test_nonsense_gets_one_clear_message(here: Oasis, words: list[str], message: str) -> None:
    """No traceback, exit code 2, what is wrong and what to do."""
    done = here(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_wrong_tool_choice_is_named(here: Oasis, tiny: str) -> None:
    """With the choices there are."""
    done = here("run", "x", "--model", tiny, "--tool-choice", "sometimes", "--conversation", os.devnull)
    assert done.returncode == 2
    assert "no tool choice 'sometimes'" in done.stderr


@pytest.mark.slow
def test_json_output_is_one_object_a_line_and_the_run_can_be_continued(here: Oasis, tiny: str, tmp_path: Path) -> None:
    """Programs read types and counts; a second run goes on in the same file, cold but without a fault."""
    words = ["--model", tiny, "--tool-choice", "none", "--json", "--max-tokens", "8", "--conversation", "c.jsonl"]
    first = here("run", "hello", *words, "--strict", cwd=tmp_path)
    second = here("run", "again", *words, "--strict", cwd=tmp_path)
    records = [json.loads(line) for line in second.stdout.splitlines()]
    assert first.returncode in (0, 1), first.stderr
    assert second.returncode == (0 if records[-2]["reason"] == "answered" else 1), second.stderr
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
    model_info = worker.run(lambda: load_folder(Path(tiny), "tiny")).model_info
    call = '<tool_call>{"name": "write_file", "arguments": {"path": "new.txt", "content": "hi"}}</tool_call>'
    engine = ScriptedEngine([call], model_info=model_info)
    with Session(engine, tools=workspace_tools(tmp_path / "ws"), path=tmp_path / "c.jsonl") as session:
        session.send("write new.txt")
    return tmp_path / "c.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True])
def test_without_a_terminal_a_tool_that_writes_needs_yes(here: Oasis, tiny: str, tmp_path: Path, allowed: bool) -> None:
    """Denied, the model reads so as the call's result; with -y the file is there. Either way the run goes on."""
    file = conversation_with_an_open_write(tiny, tmp_path)
    words = ["--model", tiny, "--tool-choice", "none", "--max-tokens", "4", "--json", *(["-y"] if allowed else [])]
    done = here("run", *words, "--conversation", str(file), "--workspace", str(tmp_path / "ws"))
    (result,) = [json.loads(line) for line in done.stdout.splitlines() if '"type": "result"' in line]
    assert done.returncode in (0, 1), done.stderr  # what four tokens of a random model answer
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
    assert errors.decode().endswith(f"\nconversation: {tmp_path / 'c.jsonl'}\noasis: interrupted\n")


@pytest.mark.slow
def test_the_help_of_run_names_the_exit_codes(here: Oasis) -> None:
    """So that a script can tell an answer from an end without one."""
    told = " ".join(here("run", "--help").stdout.split())
    for code in ("0 answered", "1 ended without an answer", "2 error", "3 a reuse deficit", "130 interrupted"):
        assert code in told


@pytest.mark.slow
@pytest.mark.parametrize("place", ["no/such/folder/c.jsonl", "."])
def test_a_conversation_that_cannot_be_written_is_one_line(here: Oasis, tiny: str, tmp_path: Path, place: str) -> None:
    """The path and what the system says; exit code 2."""
    done = here("run", "x", "--model", tiny, "--conversation", str(tmp_path / place))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"oasis: {tmp_path / place}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="MLX brings its own BLAS")
def test_a_missing_library_is_one_line() -> None:
    """OASIS_BLAS names what is not there."""
    done = oasis("run", "x", OASIS_BLAS="/no/such/library.so")
    assert done.returncode == 2
    assert "/no/such/library.so: cannot open" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("words", ["--help", "models path {tiny}", "run x --json --model {tiny} --conversation c"])
def test_a_full_disk_is_one_line(tiny: str, tmp_path: Path, words: str) -> None:
    """Whenever it shows: while a command writes, or when it is over."""
    command = [sys.executable, "-m", "oasis_harness", *words.format(tiny=tiny).split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "oasis: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", ["models path {tiny}", "run x --json --model {tiny} --conversation c"])
def test_a_reader_that_leaves_ends_it_quietly(tiny: str, tmp_path: Path, words: str) -> None:
    """As `oasis … | head -1` does."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "oasis_harness", *words.format(tiny=tiny).split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    os.close(writing)
    assert done.returncode == 1
    assert "oasis:" not in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.slow
def test_a_terminal_that_knows_only_ascii_is_served(tiny: str, tmp_path: Path) -> None:
    """What it cannot show is escaped."""
    words = ["--model", tiny, "--tool-choice", "none", "--max-tokens", "2", "--conversation", "c.jsonl"]
    done = oasis("run", "x", *words, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode in (0, 1), done.stderr
    assert "turn 1 \\xb7 " in done.stdout


def test_a_defect_keeps_its_traceback_but_not_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 would mean that a run ended without an answer."""

    def broken() -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(embedded, "list_models", broken)
    monkeypatch.setattr(sys, "argv", ["oasis", "models", "list"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["mlx", "mlx-lm", "llguidance"])
def test_doctor_fails_where_a_part_of_the_engine_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    """It names the part and how to get it."""

    def version(name: str) -> str:
        if name == part:
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    assert examine(embedded.DEFAULT_MODEL) == 1
    assert f"missing     {part}; install with: pip install 'oasis-harness[mlx]'" in capsys.readouterr().out


@pytest.mark.slow
def test_doctor_names_the_blas_and_its_speed() -> None:
    """The winner of the BLAS choice, why, and a measured number; a model that is not here yet is no failure."""
    done = oasis("doctor", "--model", "not-here-yet", OASIS_BLAS="reference")
    assert done.returncode == 0, done.stderr
    assert "reference: OASIS_BLAS=reference" in done.stdout or sys.platform == "darwin"
    assert "GFLOP/s" in done.stdout
    assert "not-here-yet: not here yet; oasis models pull not-here-yet" in done.stdout


@pytest.mark.slow
@pytest.mark.model
def test_models_path_finds_what_was_pulled(default_model: Path) -> None:
    """pull, list and path agree."""
    assert oasis("models", "path").stdout.strip() == str(default_model)
    assert str(default_model) in oasis("models", "list").stdout
    assert oasis("models", "pull").stdout.strip() == str(default_model)
