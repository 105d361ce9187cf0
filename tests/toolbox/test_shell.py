"""The shell: bounded output, bounded time, and nothing outlives a call."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox import Sandbox, Workspace
from oasis_harness.toolbox.process import child_command
from oasis_harness.toolbox.shell import ShellTools

from .processes import children_of, has_ended, is_alive, started_python, wait_until, wait_until_dead


@pytest.fixture
def tools(tmp_path: Path) -> ShellTools:
    return ShellTools(Workspace(tmp_path), sandbox=Sandbox.OFF)


def test_both_streams_and_the_exit_code_are_in_the_result(tools: ShellTools) -> None:
    assert tools.shell("echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    assert tools.shell("true") == "[exit code 0]"
    assert tools.shell("printf x") == "x\n[exit code 0]"
    assert tools.shell("kill -9 $$") == "[ended by signal 9]"


def test_it_runs_in_the_workspace(tools: ShellTools) -> None:
    tools.shell("echo hello > made.txt")
    assert (tools.workspace.root / "made.txt").read_text() == "hello\n"


def test_input_is_closed(tools: ShellTools) -> None:
    assert tools.shell("cat; read line || echo none") == "none\n[exit code 0]"


def test_no_key_of_the_environment_reaches_a_command(tools: ShellTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("BUILD_NUMBER", "7")
    assert "OPENAI_API_KEY" not in tools.shell("env") and "PATH=" in tools.shell("env")
    shell = ShellTools(tools.workspace, pass_environment=("BUILD_NUMBER",), sandbox=Sandbox.OFF).shell
    assert shell("echo $BUILD_NUMBER $OPENAI_API_KEY") == "7\n[exit code 0]"


def test_invalid_utf8_is_replaced_visibly(tools: ShellTools) -> None:
    assert tools.shell(r"printf 'caf\351\n'") == "caf\\xe9\n[exit code 0]"


@pytest.mark.slow
def test_a_hundred_megabytes_of_output_cost_little_memory(tools: ShellTools) -> None:
    tracemalloc.start()
    text = tools.shell("echo first; yes | head -c 100000000; echo last")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2_000_000 and len(text) < 9_000
    assert text.startswith("first\ny\n") and text.endswith("y\nlast\n[exit code 0]")
    assert "\n[99992011 bytes left out]\n" in text


def test_a_timeout_kills_the_whole_group(tools: ShellTools) -> None:
    text = tools.shell("echo started; sleep 60 & echo $! > pid; sleep 60", timeout_s=0.3)
    assert text == "started\n[killed: not done after 0.3 seconds]"
    assert wait_until_dead(int((tools.workspace.root / "pid").read_text()))


def test_endless_output_is_killed_too(tools: ShellTools) -> None:
    assert tools.shell("yes", timeout_s=0.2).endswith("y\n[killed: not done after 0.2 seconds]")


def test_a_command_that_closed_its_output_is_still_waited_for(tools: ShellTools) -> None:
    assert tools.shell("exec >&- 2>&-; sleep 60", timeout_s=0.2) == "[killed: not done after 0.2 seconds]"
    assert tools.shell("exec >&- 2>&-; exit 4") == "[exit code 4]"


_LEAVES_ITS_GROUP = pytest.mark.skipif(sys.platform != "linux", reason="only Linux brings orphans to the supervisor")


@pytest.mark.parametrize(
    "command",
    [
        "sleep 60 & echo $!",
        "yes > /dev/null & echo $!",
        "(trap '' HUP TERM; sleep 60) & echo $!",
        pytest.param("setsid sleep 60 & echo $!", marks=_LEAVES_ITS_GROUP),
        pytest.param(
            "(setsid sh -c 'echo $$; touch up; sleep 60; true' &) & until [ -e up ]; do :; done",
            marks=_LEAVES_ITS_GROUP,
        ),
    ],
)
def test_what_runs_in_the_background_ends_with_the_call(tools: ShellTools, command: str) -> None:
    """Also where it holds the output open, and where it has left the group and lost its parent."""
    start = time.monotonic()
    pid, ending = tools.shell(command, timeout_s=30).split("\n")
    assert ending == "[exit code 0]" and time.monotonic() - start < 10
    assert has_ended(int(pid))


@_LEAVES_ITS_GROUP
def test_a_timeout_ends_what_has_left_the_group(tools: ShellTools) -> None:
    command = "setsid sh -c 'setsid sleep 60 & echo $!; sleep 60' & sleep 60"
    pid, ending = tools.shell(command, timeout_s=0.5).split("\n")
    assert ending == "[killed: not done after 0.5 seconds]"
    assert has_ended(int(pid))


_RUNS = """
import sys, time
from pathlib import Path
from oasis_harness.toolbox import Sandbox, Workspace
from oasis_harness.toolbox.process import child_command
from oasis_harness.toolbox.shell import ShellTools
try:
    ShellTools(Workspace(Path(sys.argv[1])), sandbox=Sandbox(sys.argv[3])).shell(sys.argv[2], timeout_s=120)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    time.sleep(60)
"""
"""A plain program that runs a command, and goes on when it is interrupted."""

_COMMAND = "%s sh -c 'sleep 60 & echo $! > part; mv part pid; sleep 60' & sleep 60"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_command_ends_with_the_harness_however_that_ends(tmp_path: Path, number: int) -> None:
    """An interrupt ends the command and not the harness; all others end both."""
    process = started_python(_RUNS, tmp_path, _COMMAND % ("setsid" if sys.platform == "linux" else ""), "off")
    assert wait_until((tmp_path / "pid").exists, 30)
    supervisors = children_of(process.pid)
    process.send_signal(number)
    if number == signal.SIGINT:
        assert process.stdout and process.stdout.readline() == "interrupted\n"
        assert children_of(process.pid) == []
        process.kill()
    process.communicate(timeout=20)
    assert all(map(wait_until_dead, [*supervisors, int((tmp_path / "pid").read_text())]))


_FORKS = """
import os, sys, threading, time
from pathlib import Path
from oasis_harness.toolbox import Sandbox, Workspace
from oasis_harness.toolbox.shell import ShellTools
root = Path(sys.argv[1])
shell = ShellTools(Workspace(root), sandbox=Sandbox.OFF).shell
threading.Thread(target=shell, args=(sys.argv[2],), daemon=True).start()
while not (root / "pid").exists():
    time.sleep(0.01)
if child := os.fork():
    print(child, flush=True)
time.sleep(60)
"""
"""A program whose fork holds every file open that the program had open."""


@pytest.mark.slow
def test_a_command_ends_with_a_harness_whose_fork_lives_on(tmp_path: Path) -> None:
    process = started_python(_FORKS, tmp_path, _COMMAND % "")
    assert process.stdout
    fork = int(process.stdout.readline())
    process.kill()
    assert wait_until_dead(int((tmp_path / "pid").read_text())) and is_alive(fork)
    os.kill(fork, signal.SIGKILL)
    process.communicate(timeout=20)


_INTERRUPTED = """
import sys, threading, time
from pathlib import Path
from oasis_harness.toolbox import Sandbox, Workspace
from oasis_harness.toolbox.process import child_command
from oasis_harness.toolbox.shell import ShellTools
root = Path(sys.argv[1])
command = "sleep 60 & echo $! > part; mv part pid; sleep 60"
threading.Thread(target=ShellTools(Workspace(root), sandbox=Sandbox.OFF).shell, args=(command,), daemon=True).start()
while not (root / "pid").exists():
    time.sleep(0.01)
"""
"""What Ctrl-C leaves of an agent: a tool that runs on a daemon thread while the main thread ends."""


@pytest.mark.slow
def test_a_command_ends_with_the_process_that_ran_it(tmp_path: Path) -> None:
    """Its thread has no say any more when the interpreter ends."""
    subprocess.run([sys.executable, "-c", _INTERRUPTED, str(tmp_path)], check=True, timeout=30)
    assert wait_until_dead(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
def test_a_supervisor_that_a_command_kills_takes_the_command_with_it(tools: ShellTools) -> None:
    with pytest.raises(ToolRefused, match="its supervisor was killed"):
        tools.shell("echo $$ > pid; kill -9 $PPID; sleep 60", timeout_s=30)
    assert sys.platform != "linux" or wait_until_dead(int((tools.workspace.root / "pid").read_text()))


def test_the_supervisor_loads_the_standard_library_alone(tools: ShellTools) -> None:
    """It is started without site packages, beside the module that starts it."""
    words = child_command("supervisor")
    report = "import sys; print([name for name in sys.modules if 'oasis' in name or 'pydantic' in name])"
    words[words.index("-c") + 1] = words[words.index("-c") + 1].replace(".main()", f"\n{report}")
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_background_process_that_floods_the_output_does_not_hold_the_call(tools: ShellTools) -> None:
    assert tools.shell("yes & exit 5", timeout_s=30).endswith("[exit code 5]")


@pytest.mark.parametrize("timeout_s", [0, -1, 281, float("nan"), float("inf")])
def test_a_senseless_timeout_is_refused(tools: ShellTools, timeout_s: float) -> None:
    with pytest.raises(ToolRefused, match="between 0 and 280 seconds"):
        tools.shell("true", timeout_s)


def test_a_command_that_cannot_start_is_explained(tools: ShellTools) -> None:
    with pytest.raises(ToolRefused, match="NUL"):
        tools.shell("a\0b")
    with pytest.raises(ToolRefused, match="could not be started: Argument list too long"):
        tools.shell("x" * 10_000_000)


def test_a_command_that_is_not_there_says_so_in_its_output(tools: ShellTools) -> None:
    assert tools.shell("no_such_command_at_all").endswith("[exit code 127]")
