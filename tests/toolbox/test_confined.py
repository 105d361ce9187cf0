"""What a command may touch, under each mechanism that this machine has; where it has none, that is said."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox import Sandbox, Workspace, workspace_tools
from oasis_harness.toolbox.confined import Confinement, sandbox_here
from oasis_harness.toolbox.landlock import landlock_version
from oasis_harness.toolbox.shell import ShellTools

from .processes import children_of, started_python, wait_until, wait_until_dead

HERE = {
    wish: sandbox_here(wish, Confinement(Path(tempfile.gettempdir()).resolve())) is wish
    for wish in (Sandbox.BUBBLEWRAP, Sandbox.LANDLOCK)
}
"""Which mechanisms work on this machine."""
needs = {
    wish: pytest.mark.skipif(not works, reason=f"{wish} does not work on this machine") for wish, works in HERE.items()
}
each_mechanism = pytest.mark.parametrize("sandbox", [pytest.param(wish, marks=mark) for wish, mark in needs.items()])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace beside a folder that is none of its business, and a temp folder of its own."""
    for name in ["work", "temp", "outside"]:
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / "work"


def shell(root: Path, sandbox: Sandbox, command: str, *, has_network: bool = False) -> str:
    return ShellTools(Workspace(root), sandbox=sandbox, has_network=has_network).shell(command, timeout_s=60)


@each_mechanism
def test_a_command_writes_in_the_workspace_and_the_temp_folder_only(root: Path, sandbox: Sandbox) -> None:
    assert shell(root, sandbox, 'echo a > made; mkdir b; mv made b; echo t > "$TMPDIR/t"') == "[exit code 0]"
    assert (root / "b" / "made").read_text() == "a\n" and (root.parent / "temp" / "t").exists()
    secret = root.parent / "outside" / "secret"
    secret.write_text("old")
    ways = ["> ../outside/x", ">> ../outside/secret", "ln ../outside/secret l && echo x > l", "cp b/made ../outside"]
    for command in [*ways, "ln -s ../outside l; echo x > l/x", "mv b ../x", "rm ../outside/secret"]:
        assert shell(root, sandbox, f"({command}) 2>&1 || echo refused").endswith("refused\n[exit code 0]")
    assert list((root.parent / "outside").iterdir()) == [secret] and secret.read_text() == "old"


@each_mechanism
def test_results_are_those_of_a_command_that_is_not_confined(root: Path, sandbox: Sandbox) -> None:
    for command in ["echo out; echo err >&2; exit 3", "kill -9 $$", "echo x > /dev/null; cat; pwd", "no_such_command"]:
        assert shell(root, sandbox, command) == shell(root, Sandbox.OFF, command)
    with pytest.raises(ToolRefused, match="could not be started: Argument list too long"):
        shell(root, sandbox, "x" * 10_000_000)


@needs[Sandbox.BUBBLEWRAP]
def test_the_folder_of_git_is_read_only_where_it_can_be(root: Path) -> None:
    subprocess.run(["git", "init", "--quiet", root], check=True)
    assert "Read-only" in shell(root, Sandbox.BUBBLEWRAP, "echo x > .git/hooks/pre-commit; mv .git g; rm -r .git/hooks")
    assert "On branch" in shell(root, Sandbox.BUBBLEWRAP, "git -c safe.directory='*' status")
    assert not (root / ".git" / "hooks" / "pre-commit").exists() and not (root / "g").exists()


@needs[Sandbox.BUBBLEWRAP]
def test_so_is_a_folder_that_a_gitfile_names(root: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--separate-git-dir", root / "meta", root], check=True)
    (root / ".hg").mkdir()
    for place in [".git", "meta/config", "meta/hooks/pre-commit", ".hg/hgrc"]:
        assert "Read-only" in shell(root, Sandbox.BUBBLEWRAP, f"echo x >> {place}")


@needs[Sandbox.BUBBLEWRAP]
@pytest.mark.parametrize(
    "command", ["ln -s / .git", "echo 'gitdir: /' > .git", "echo 'gitdir: .' > .git", "ln -s . .hg"]
)
def test_a_command_cannot_widen_the_next_ones_view_by_way_of_git(root: Path, command: str) -> None:
    """The folder that is excepted lies where the workspace says, and a command may have said `/`."""
    assert shell(root, Sandbox.BUBBLEWRAP, command) == "[exit code 0]"
    assert shell(root, Sandbox.BUBBLEWRAP, "touch made; echo /proc/[0-9]*") == "/proc/1 /proc/2\n[exit code 0]"
    assert (root / "made").exists()


@needs[Sandbox.BUBBLEWRAP]
def test_what_the_caller_protects_is_read_only_where_it_can_be(root: Path) -> None:
    (root / "c.jsonl").write_text("{}\n")
    tools = ShellTools(Workspace(root, (root / "c.jsonl", root / "later")), sandbox=Sandbox.BUBBLEWRAP)
    assert "Read-only" in tools.shell("echo x >> c.jsonl")
    assert tools.shell("echo x > other; cat c.jsonl") == "{}\n[exit code 0]"


@each_mechanism
def test_there_is_no_network_unless_it_is_allowed(root: Path, sandbox: Sandbox) -> None:
    if sandbox is Sandbox.LANDLOCK and landlock_version() < 4:
        pytest.skip("Landlock bounds TCP from version 4 on")
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        command = f'{sys.executable} -c "{connect}" 2> /dev/null'
        assert shell(root, sandbox, command) == "[exit code 1]"
        assert shell(root, sandbox, command, has_network=True) == "[exit code 0]"


@each_mechanism
def test_a_confined_command_cannot_read_the_keys_of_the_harness(
    root: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not out of the system's view of other processes, where they stood when the harness was started."""
    source = "import sys; sys.path[:0] = sys.argv[3:]; from tests.toolbox.test_confined import *\n"
    source += "print(shell(Path(sys.argv[1]), Sandbox(sys.argv[2]), 'cat /proc/*/environ | tr -d \"\\\\0\"'))"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    said, _ = started_python(source, root, sandbox, *sys.path).communicate(timeout=60)
    assert "PATH=" in said and "sk-secret" not in said


@each_mechanism
def test_a_confined_command_cannot_signal_the_harness(root: Path, sandbox: Sandbox) -> None:
    if sandbox is Sandbox.LANDLOCK and landlock_version() < 6:
        pytest.skip("Landlock bounds signals from version 6 on")
    assert shell(root, sandbox, f"kill -0 {os.getpid()} 2>&1 || echo refused").endswith("refused\n[exit code 0]")
    assert shell(root, sandbox, "kill -9 $PPID; echo alive").endswith("alive\n[exit code 0]")


_RUNS = """
import sys
sys.path[:0] = sys.argv[3:]
from tests.toolbox.test_confined import *
shell(Path(sys.argv[1]), Sandbox(sys.argv[2]), "setsid sleep 987654 & touch up; sleep 60")
"""


@pytest.mark.slow
@each_mechanism
def test_a_confined_command_ends_with_a_harness_that_is_killed(root: Path, sandbox: Sandbox) -> None:
    process = started_python(_RUNS, root, sandbox, *sys.path)
    assert wait_until((root / "up").exists, 30)
    started = children_of(process.pid)
    while more := [child for parent in started for child in children_of(parent) if child not in started]:
        started += more
    assert len(started) >= 4  # a supervisor, the shell and what it runs
    process.kill()
    process.communicate()
    assert all(map(wait_until_dead, started))


def test_where_nothing_confines_the_first_result_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if HERE[Sandbox.LANDLOCK]:
        pytest.skip("Landlock works on this machine")
    monkeypatch.setenv("PATH", "/nowhere")
    tools = ShellTools(Workspace(root))
    note = "[commands run unconfined: neither bubblewrap nor Landlock works here]\n"
    assert tools.shell("echo a") == f"{note}a\n[exit code 0]"
    assert tools.shell("echo b") == "b\n[exit code 0]"


def test_what_does_not_work_is_refused_and_not_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolRefused, match="No command is run: bubblewrap does not work here"):
        shell(root, Sandbox.BUBBLEWRAP, "touch made")
    assert not (root / "made").exists()
    with pytest.raises(ValueError, match="'chroot' is not a valid Sandbox"):
        workspace_tools(root, sandbox="chroot")


def test_a_bubblewrap_that_lies_in_the_workspace_is_not_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "bwrap").write_text("#!/bin/sh\ntouch ran\n")
    (root / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(root))
    assert sandbox_here(Sandbox.BUBBLEWRAP, Confinement(root)) is None


@needs[Sandbox.LANDLOCK]
def test_the_whole_disk_may_be_the_workspace() -> None:
    """Bubblewrap then lies in it and is not run."""
    assert sandbox_here(Sandbox.AUTO, Confinement(Path("/"))) is Sandbox.LANDLOCK
    assert shell(Path("/"), Sandbox.LANDLOCK, "echo x > /dev/null; pwd") == "/\n[exit code 0]"
