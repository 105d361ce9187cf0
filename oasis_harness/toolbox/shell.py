"""Run a shell command in a workspace: bounded in time and in output, and nothing outlives it.

The command gets a session of its own, so that no program can wait for an answer on the terminal, and a supervisor that
ends every process it leaves: at its end, at a timeout, at an interrupt, and when the harness itself dies. Output is
bounded while it is read. This is not a sandbox.
"""

import os
import time
from dataclasses import dataclass

from oasis_harness.registry import ToolRefused

from .environment import passed_environment
from .output import BoundedOutput
from .supervised import Command, Ending, run_supervised
from .workspace import Workspace

__all__ = ["ShellTools"]

_MAX_TIMEOUT_S = 280.0
"""Below the 300 s that an agent waits for a tool, so that it is this tool that says what happened."""


@dataclass(frozen=True, slots=True)
class ShellTools:
    """The shell tool of one workspace; its docstring is what the model reads."""

    workspace: Workspace
    pass_environment: tuple[str, ...] = ()
    """Names of variables that commands see beside the usual ones (`environment.PASSED_NAMES`)."""

    def shell(self, command: str, timeout_s: float = 60) -> str:
        """Run a shell command in the workspace. Background processes are stopped when it ends."""
        if not 0 < timeout_s <= _MAX_TIMEOUT_S:
            raise ToolRefused(f"timeout_s must lie between 0 and {_MAX_TIMEOUT_S:g} seconds, got {timeout_s}.")
        if "\0" in command:
            raise ToolRefused("The command holds a NUL character. Send it without.")
        output = BoundedOutput()
        try:
            ending = run_supervised(self._command(command), output.add, time.monotonic() + timeout_s)
        except OSError as error:
            ending = Ending(error=f"could not be started: {error.strerror}")
        if ending.error:
            raise ToolRefused(f"The command {ending.error}.")
        text = output.text()
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{_in_words(ending, timeout_s)}]"

    def _command(self, command: str) -> Command:
        environment = passed_environment(os.environ, self.pass_environment)
        return Command(("/bin/sh", "-c", command), str(self.workspace.root), environment)


def _in_words(ending: Ending, timeout_s: float) -> str:
    left = f"; processes that could not be ended: {ending.n_left}" if ending.n_left else ""
    if ending.status is None:
        return f"killed: not done after {timeout_s:g} seconds{left}"
    if ending.status < 0:
        return f"ended by signal {-ending.status}{left}"
    return f"exit code {ending.status}{left}"
