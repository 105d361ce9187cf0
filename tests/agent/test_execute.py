"""A call that is interrupted or given up ends what it has started, while the program goes on."""

import signal
from pathlib import Path

import pytest

from oasis_harness.agent.execute import Limits, execute
from oasis_harness.replies import ToolCall
from oasis_harness.toolbox import workspace_tools
from tests.toolbox.processes import has_ended, started_python, wait_until, wait_until_dead

_COMMAND = "sleep 60 & echo $! > part; mv part pid; sleep 60"

_RUNS = """
import sys, time
from oasis_harness.agent.execute import Limits, execute
from oasis_harness.replies import ToolCall
from oasis_harness.toolbox import workspace_tools
tools = {tool.name: tool for tool in workspace_tools(sys.argv[1], sandbox="off")}
try:
    execute(tools, ToolCall("1", "shell", {"command": sys.argv[2]}), Limits())
except KeyboardInterrupt:
    print("interrupted", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_call_that_is_interrupted_has_ended_when_it_is_said_so(tmp_path: Path) -> None:
    process = started_python(_RUNS, tmp_path, _COMMAND)
    assert wait_until((tmp_path / "pid").exists, 30)
    process.send_signal(signal.SIGINT)
    assert process.stdout and process.stdout.readline() == "interrupted\n"
    assert has_ended(int((tmp_path / "pid").read_text()))
    process.kill()
    process.communicate(timeout=20)


@pytest.mark.slow
def test_a_call_that_is_given_up_ends_what_it_started(tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in workspace_tools(tmp_path, sandbox="off")}
    result = execute(tools, ToolCall("1", "shell", {"command": _COMMAND}), Limits(timeout_s=1.5))
    assert result.content == b"error: shell gave no result within 1.5 s"
    assert wait_until_dead(int((tmp_path / "pid").read_text()))
