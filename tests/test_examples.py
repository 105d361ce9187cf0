"""The examples run as they stand, from any folder, and leave nothing behind."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = {"agent.py", "own_loop.py", "scripted.py"}


def run(name: str, folder: Path) -> str:
    """Run a copy of the example in a copy of its folder; return what it printed."""
    copies = shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(folder.rglob("*"))
    words = [sys.executable, "-B", "-W", "error", str(copies / name)]
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(folder.rglob("*")) == before
    return done.stdout


def test_every_example_is_run_here() -> None:
    """calc.py is what the others read; the rest is run by guard/test_example_agent.py and test_readme.py."""
    found = {path.name for path in EXAMPLES.iterdir() if path.name != "__pycache__"}
    assert found == PROGRAMS | {"calc.py", "ci", "prefix-check.yml"}


@pytest.mark.slow
def test_scripted(tmp_path: Path) -> None:
    """An agent is tested without a model, and an engine that forgets is found."""
    assert run("scripted.py", tmp_path).startswith("found: the engine reused 0 of ")


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", ["agent.py", "own_loop.py"])
def test_an_example_on_the_default_model(name: str, default_model: Path, tmp_path: Path) -> None:
    """It ends with the reuse of its last turn, with something reused and nothing read twice."""
    last = run(name, tmp_path).splitlines()[-1]
    match = re.search(r"Reuse\(expected=(\d+), reused=(\d+), prefilled=\d+, deficit=0, cause=None", last)
    assert match is not None, last
    assert match[1] == match[2] != "0"
