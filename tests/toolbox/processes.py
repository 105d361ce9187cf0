"""Watching processes from outside, for the tests of what a call leaves behind."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["children_of", "has_ended", "is_alive", "started_python", "wait_until", "wait_until_dead"]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    try:
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool], within_s: float = 10) -> bool:
    deadline = time.monotonic() + within_s
    while not (is_so := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_so


def wait_until_dead(pid: int) -> bool:
    return wait_until(lambda: not is_alive(pid))


def has_ended(pid: int) -> bool:
    """Whether a process that was ended with its call has: where orphans are waited for, at once."""
    return not is_alive(pid) if sys.platform == "linux" else wait_until_dead(pid)


def children_of(pid: int) -> list[int]:
    """Return the processes that `pid` has started and that run."""
    return [child for child, parent in _parents().items() if parent == pid and is_alive(child)]


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    if not Path("/proc/self/stat").exists():
        rows = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        return {int(child): int(parent) for child, parent in map(str.split, rows.splitlines())}
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    return parents


def started_python(source: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a program that uses the package, in a session of its own, as a terminal would."""
    command = [sys.executable, "-c", source, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
