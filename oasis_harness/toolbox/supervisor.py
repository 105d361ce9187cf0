"""The process between the harness and a command: it outlives the harness, and the command does not outlive it.

A process group is not enough: what calls `setsid` leaves it. And a harness that is killed cleans up nothing. So this
process starts the command, and ends every descendant of it when the command has ended, and when stdin closes: the
harness closes it at a timeout or an interrupt, and the system closes it when the harness dies, however it dies.

On Linux orphans become children of this process (`PR_SET_CHILD_SUBREAPER`), so that it is known when none is left: it
has no children any more. Elsewhere only the process group of the command is ended. A command that kills this process
escapes where nothing confines it.

Request: one line of JSON on stdin. Answer: one on stderr, when all is over; stdout is the command's.

    {"words": ["/bin/sh", "-c", "make"], "folder": "/home/me/work", "environment": {"PATH": "/usr/bin"},
     "landlock": {"writable": ["/home/me/work"], "has_network": false}}

    {"status": 2, "n_left": 0}

`status` is the exit code, or minus the signal; null where the command was ended from here.
`{"error": "could not be started: …"}` says why. It imports the standard library alone, because `process` starts it
without this package.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .landlock import restrict_this_process

__all__ = ["main"]

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LOOK_S = 0.2
"""How soon it is noticed that the harness is gone while another of its children holds stdin open."""
_ENDING_S = 5.0
"""How long descendants are hunted; what is left then belongs to another user or forks faster than it is killed."""


@dataclass(frozen=True, slots=True)
class _Request:
    words: list[str]
    folder: str
    environment: Mapping[str, str]
    landlock: Mapping[str, Any] | None


def main() -> None:
    """Run the one command asked for on stdin."""
    parent = os.getppid()
    request = _Request(**json.loads(sys.stdin.buffer.readline()))
    _call_system("prctl", _PR_SET_CHILD_SUBREAPER, 1)
    waker = _wake_at_signals()
    try:
        command = _start(request)
    except OSError as error:
        _report({"error": f"could not be started: {error.strerror}"})
        return
    os.dup2(2, 1)  # the command alone holds its output now
    status = None
    try:
        status = _wait(command, parent, waker)
    finally:
        n_left = _end_all(command)
    _report({"status": status, "n_left": n_left})


def _report(answer: Mapping[str, object]) -> None:
    with suppress(BrokenPipeError):
        os.write(2, json.dumps(answer).encode() + b"\n")


def _call_system(name: str, *numbers: int) -> None:
    """Call a function of the C library that only Linux has."""
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), name)(*map(ctypes.c_ulong, numbers))


def _wake_at_signals() -> int:
    """Return a descriptor that can be read when a child has ended; a request to terminate ends this process orderly."""
    waker, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    return waker


def _start(request: _Request) -> int:
    """Start the command and return its process id.

    Raises:
        OSError: It cannot be started.
    """
    failure, written = os.pipe()
    command = os.fork()
    if not command:
        _become(request, written)
    os.close(written)
    with os.fdopen(failure, "rb") as file:
        number = file.read()
    if number:
        os.waitpid(command, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return command


def _become(request: _Request, failure: int) -> None:
    """Turn this process, a fresh fork, into the command; never return."""
    try:
        os.setsid()
        _call_system("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request.folder)
        if request.landlock is not None:
            restrict_this_process(**request.landlock)
        os.execve(request.words[0], request.words, request.environment)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _wait(command: int, parent: int, waker: int) -> int | None:
    """Wait for the end of the command and return its exit code; None where the harness closed stdin or is gone."""
    while True:
        status = _reap(command)
        if status is not None:
            return status
        ready, _, _ = select.select([0, waker], [], [], _LOOK_S)
        if waker in ready:
            os.read(waker, 4096)
        if (0 in ready and not os.read(0, 4096)) or os.getppid() != parent:
            return None


def _reap(command: int) -> int | None:
    """Collect all children that have ended; return the exit code of the command if it is among them."""
    status = None
    with suppress(ChildProcessError):
        while True:
            pid, ending = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == command:
                status = os.waitstatus_to_exitcode(ending)
    return status


def _end_all(command: int) -> int:
    """Kill every descendant and return how many are left: where orphans come here, none without children are none."""
    deadline = time.monotonic() + _ENDING_S
    with suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
        os.killpg(command, signal.SIGKILL)
    while children := _children():
        if time.monotonic() > deadline:
            return len(children)
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        _reap(command)
        time.sleep(0.001)
    return 0


def _children() -> list[int]:
    """Return the children of this process that have not been collected; elsewhere than on Linux none is found."""
    own = os.getpid()
    with suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/self/task/{own}/children").read_bytes().split()]
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_bytes().rpartition(b")")[2].split()[1]) == own:
                found.append(int(status.parent.name))
    return found
