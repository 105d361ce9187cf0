"""Every block of the README is run, or checked against what it speaks of."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from oasis_harness.cli.main import app

ROOT = Path(__file__).parents[1]
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
)
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]
COMMANDS = [line for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]


def test_every_kind_of_block_is_known() -> None:
    """A block of another kind would be run by nobody."""
    assert {kind for kind, _ in BLOCKS} == {"console", "python", "text"}
    assert len(PROGRAMS) == 2


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


@pytest.mark.parametrize("command", [part for line in COMMANDS for part in line.split(" && ") if "oasis" in part])
def test_an_oasis_command_has_the_options_it_is_shown_with(command: str) -> None:
    """Each is parsed by the command line itself."""
    words = shlex.split(command)
    if words[0] == "oasis":
        group = typer.main.get_command(app)
        context = group.make_context("oasis", list(words[1:]), resilient_parsing=False)
        name, found, rest = group.resolve_command(context, words[1:])  # type: ignore[attr-defined]  # a click group
        assert found is not None
        found.make_context(name, rest, parent=context, resilient_parsing=found.name == "models")


def test_ci_installs_as_the_readme_says() -> None:
    """The test command is one line, and .ci/run runs the same two halves."""
    (command,) = [line for line in COMMANDS if "pytest" in line]
    install, tests = command.split(" && ")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert install.replace("pip install", "pip install --quiet") in script
    assert script.splitlines()[-1] == tests


def test_a_turn_line_is_shown_as_it_is_printed() -> None:
    """The sample in the README has the form of a real one."""
    (sample,) = [text.strip() for kind, text in BLOCKS if kind == "text"]
    pattern = r"turn \d+ · [\d,]+ tokens · reused [\d,]+ of [\d,]+ · prefilled [\d,]+ · first token \d+\.\d\d s"
    assert re.fullmatch(pattern, sample)
