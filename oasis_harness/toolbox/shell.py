"""Run a shell command in a workspace: bounded in time and in output, and nothing outlives it.

The command gets a session of its own, so that no program can wait for an answer on the terminal, and a supervisor that
ends every process it leaves: at its end, at a timeout, at an interrupt, and when the harness itself dies. Output is
bounded while it is read. What a command may touch is bounded where the system can do that (`confined`).
"""

import os
import threading
import time
from dataclasses import dataclass, field

from oasis_harness.registry import ToolRefused

from .confined import Confinement, Sandbox, sandbox_here
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
    sandbox: Sandbox = Sandbox.AUTO
    has_network: bool = False
    """Whether commands may reach the network where they are confined."""
    _has_run: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    def shell(self, command: str, timeout_s: float = 60) -> str:
        """Run a shell command in the workspace. Background processes are stopped when it ends."""
        if not 0 < timeout_s <= _MAX_TIMEOUT_S:
            raise ToolRefused(f"timeout_s must lie between 0 and {_MAX_TIMEOUT_S:g} seconds, got {timeout_s}.")
        if "\0" in command:
            raise ToolRefused("The command holds a NUL character. Send it without.")
        output = BoundedOutput()
        deadline = time.monotonic() + timeout_s
        note = self._note()
        try:
            ending = self._run(command, output, deadline)
        except OSError as error:
            ending = Ending(error=f"could not be started: {error.strerror}")
        if ending.error:
            raise ToolRefused(f"The command {ending.error}.")
        text = note + output.text()
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{_in_words(ending, timeout_s)}]"

    def _run(self, command: str, output: BoundedOutput, deadline: float) -> Ending:
        confinement = self._confinement()
        sandbox = sandbox_here(self.sandbox, confinement)
        if sandbox is None:
            raise ToolRefused(f"No command is run: {self.sandbox} does not work here. Use the other tools.")
        started = Command(
            ("/bin/sh", "-c", command),
            str(self.workspace.root),
            passed_environment(os.environ, self.pass_environment),
            confinement.landlock_request() if sandbox is Sandbox.LANDLOCK else None,
        )
        wrap = confinement.bubblewrap_words if sandbox is Sandbox.BUBBLEWRAP else list
        return run_supervised(started, output.add, deadline, wrap=wrap)

    def _confinement(self) -> Confinement:
        return Confinement(self.workspace.root, self.workspace.protected, has_network=self.has_network)

    def _note(self) -> str:
        """Return the line of the first result that says that nothing confines the commands."""
        if self.sandbox is not Sandbox.AUTO or self._has_run.is_set():
            return ""
        self._has_run.set()
        if sandbox_here(self.sandbox, self._confinement()) is not Sandbox.OFF:
            return ""
        return "[commands run unconfined: neither bubblewrap nor Landlock works here]\n"


def _in_words(ending: Ending, timeout_s: float) -> str:
    left = f"; processes that could not be ended: {ending.n_left}" if ending.n_left else ""
    if ending.status is None:
        return f"killed: not done after {timeout_s:g} seconds{left}"
    if ending.status < 0:
        return f"ended by signal {-ending.status}{left}"
    return f"exit code {ending.status}{left}"
