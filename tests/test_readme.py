"""Every block of the README is run, or checked against what it speaks of."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
import yaml

from oasis_harness.cli.main import app
from oasis_harness.guard.plugin import pytest_plugin
from tests.guard.desk import desk_environment

ROOT = Path(__file__).parents[1]
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
)
PROGRAMS = [text for kind, text in BLOCKS if kind == "python" and "\ndef test_" not in text]
SUITES = [text for kind, text in BLOCKS if kind == "python" and "\ndef test_" in text]
COMMANDS = [line for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]


def test_every_kind_of_block_is_known() -> None:
    """A block of another kind would be run by nobody."""
    assert {kind for kind, _ in BLOCKS} == {"console", "python", "text"}
    assert len(PROGRAMS) == 2
    assert len(SUITES) == 1


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_it_stands(program: str, default_model: Path, tmp_path: Path) -> None:
    """In a folder that holds what a clone holds, on the real default model, with nothing read twice."""
    for name in ("README.md", "skills"):
        (tmp_path / name).symlink_to(ROOT / name)
    source = f"import warnings; warnings.simplefilter('error')\n{program}"
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deficit=0" in done.stdout


@pytest.mark.slow
def test_the_suite_records_and_fails_as_it_is_told(tmp_path: Path) -> None:
    """Of the agent it names; it stands in examples/ci too, in 15 lines of code."""
    (suite,) = SUITES
    assert suite == (ROOT / "examples" / "ci" / "test_prompt.py").read_text(encoding="utf-8")
    assert len([line for line in suite.splitlines() if line]) <= 15
    (tmp_path / "test_prompt.py").write_text(suite, encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    agent = (ROOT / "examples" / "ci" / "agent.py").read_text(encoding="utf-8")
    kept = desk_environment()

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", "-m", *words]
        return subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)

    def run(source: str, *words: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "agent.py").write_text(source, encoding="utf-8")
        return python("pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--oasis-engine=none", *words)

    assert run(agent, "--oasis-record").returncode == run(agent).returncode == 0
    moved = agent.replace("Read a text file", "Read one text file")
    assert "where   head/tool[read_file].description (agent.py:" in run(moved).stdout
    assert run(moved, "--oasis-sign", "a clearer description").returncode == run(moved).returncode == 0
    (check,) = [line for line in COMMANDS if line.startswith("oasis prefix check")]
    done = python("oasis_harness", *shlex.split(check)[1:])
    assert done.returncode == 0 and "oasis: 1 same" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("command", [part for line in COMMANDS for part in line.split(" && ") if "oasis" in part])
def test_an_oasis_command_has_the_options_it_is_shown_with(command: str) -> None:
    """Each is parsed by the command line itself, or offered by the plugin."""
    words = shlex.split(command)
    if words[0] == "oasis":
        parse_oasis(words[1:])
    elif words[0] == "pytest":
        assert {word for word in words if word.startswith("--oasis")} <= plugin_options()


def parse_oasis(words: list[str]) -> None:
    """Parse a command line of ours as click does, without running it."""
    group, name = typer.main.get_command(app), "oasis"
    context = group.make_context(name, list(words))
    while hasattr(group, "resolve_command"):
        name, group, words = group.resolve_command(context, words)
        context = group.make_context(name, list(words), parent=context)


def plugin_options() -> set[str]:
    """Return the options that the plugin adds to pytest."""
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    return {name for group in parser._groups for option in group.options for name in option.names()}


def test_the_workflow_runs_what_is_there() -> None:
    """It installs no mlx, and each of its commands exists."""
    text = (ROOT / "examples" / "prefix-check.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    commands = [shlex.split(step["run"]) for step in job["steps"] if "run" in step]
    assert commands[0][:4] == ["python", "-m", "pip", "install"] and "mlx" not in " ".join(commands[0])
    assert next(step["uses"] for step in job["steps"] if "uses" in step).startswith("actions/checkout")
    for words in commands:
        if words[0] == "oasis":
            parse_oasis(words[1:])
        else:
            assert words[:2] == ["python", "-m"] and find_spec(words[2]) is not None


def test_ci_installs_as_the_readme_says() -> None:
    """The test command is one line, and .ci/run runs the same two halves."""
    (command,) = [line for line in COMMANDS if "pip install" in line and "pytest" in line]
    install, tests = command.split(" && ")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert install.replace("pip install", "pip install --quiet") in script
    assert script.splitlines()[-1] == tests


def test_a_turn_line_is_shown_as_it_is_printed() -> None:
    """The sample in the README has the form of a real one."""
    (sample,) = [text.strip() for kind, text in BLOCKS if kind == "text"]
    pattern = r"turn \d+ · [\d,]+ tokens · reused [\d,]+ of [\d,]+ · prefilled [\d,]+ · first token \d+\.\d\d s"
    assert re.fullmatch(pattern, sample)
