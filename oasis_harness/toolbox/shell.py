"""Run a shell command in a workspace: bounded in time and in output, and nothing outlives it.

The command gets a session of its own, so that its whole process group can be killed and no program can wait for an
answer on the terminal. Output is bounded while it is read: a command that prints 100 MB costs 8 KB. This is not a
sandbox.
"""

import atexit
import codecs
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from oasis_harness.registry import ToolRefused

from .environment import passed_environment
from .workspace import Workspace

__all__ = ["ShellTools"]

_KEPT = 4_000
"""Bytes kept of the beginning of the output, and as many of its end."""

_MAX_TIMEOUT_S = 280.0
"""Below the 300 s that an agent waits for a tool, so that it is this tool that says what happened."""

_POLL_S = 0.05
"""How soon the end of the shell is noticed while something in the background still holds its output open."""


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
        output = _Output()
        with self._started(command) as process:
            kill = partial(_kill_group, process)
            atexit.register(kill)  # the agent runs tools on threads, which end with the process and clean up nothing
            try:
                is_done = _read(process, output, time.monotonic() + timeout_s)
            finally:
                kill()
                atexit.unregister(kill)
        ending = _ending(process.returncode) if is_done else f"killed: not done after {timeout_s:g} seconds"
        text = output.text()
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{ending}]"

    def _started(self, command: str) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self.workspace.root,
                env=passed_environment(os.environ, self.pass_environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ToolRefused(f"The command could not be started: {error.strerror}.") from None
        except ValueError:
            raise ToolRefused("The command holds a NUL character. Send it without.") from None


@dataclass(slots=True)
class _Output:
    """The first and the last _KEPT bytes of a stream."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    n_left_out: int = 0

    def add(self, chunk: bytes) -> None:
        room = _KEPT - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = max(len(self.tail) - _KEPT, 0)
        del self.tail[:excess]
        self.n_left_out += excess

    def text(self) -> str:
        if not self.n_left_out:
            return (self.head + self.tail).decode("utf-8", "backslashreplace")
        # A character that the cut went through is dropped at the end of the head and at the start of the tail.
        head = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(bytes(self.head))
        whole = next((n for n in range(4) if self.tail[n] & 0xC0 != 0x80), 0)
        tail = self.tail[whole:].decode("utf-8", "backslashreplace")
        return f"{head}\n[{self.n_left_out} bytes left out]\n{tail}"


def _read(process: "subprocess.Popen[bytes]", output: _Output, deadline: float) -> bool:
    """Read until the command has ended; return False when the deadline came first."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        has_ended = False
        while (remaining := deadline - time.monotonic()) > 0:
            if not has_ended and process.poll() is not None:
                has_ended = True
                _kill_group(process)  # what it left in the background could write for ever
            if selector.select(min(remaining, _POLL_S)):
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    return _has_ended(process, remaining)
                output.add(chunk)
            elif has_ended:
                return True
    return False


def _has_ended(process: "subprocess.Popen[bytes]", remaining_s: float) -> bool:
    """Wait for a command that has closed its output."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(remaining_s)
    return process.returncode is not None


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
        os.killpg(process.pid, signal.SIGKILL)


def _ending(returncode: int) -> str:
    return f"exit code {returncode}" if returncode >= 0 else f"ended by signal {-returncode}"
