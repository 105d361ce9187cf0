"""Run a command under a supervisor: until it ends, until a deadline, or until somebody ends the call.

The harness's side of `supervisor`. It reads the output, and holds the pipe whose end tells the supervisor to end
everything: closed here, or by the system when this process dies.
"""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from oasis_harness.registry import on_interrupt

from .process import child_command

__all__ = ["Command", "Ending", "run_supervised"]

_ENDING_S = 8.0
"""How long the supervisor may take to end everything; above its own limit."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended."""

    status: int | None = None
    """Its exit code, or minus the signal that ended it; None where it was ended from here."""
    n_left: int = 0
    """Processes that could not be ended."""
    error: str = ""
    """What became of it where nobody knows how it ended: "could not be started: Argument list too long"."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is run: the request that a supervisor reads (see `supervisor`)."""

    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    landlock: Mapping[str, object] | None = None
    """What confines it (see `landlock`); None for nothing."""


def run_supervised(
    command: Command, take: Callable[[bytes], None], deadline: float, *, wrap: Callable[[list[str]], list[str]] = list
) -> Ending:
    """Run `command`, hand its output to `take`, and leave nothing of it running; `wrap` puts the supervisor into a box.

    Raises:
        OSError: No process can be started.
    """
    with _supervisor(wrap(child_command("supervisor")), command.environment) as process:
        assert process.stdin is not None
        with on_interrupt(process.stdin.close):
            with suppress(BrokenPipeError, ValueError):  # it is gone, or the call is interrupted already
                process.stdin.write(json.dumps(asdict(command)).encode() + b"\n")
            report = _read(process, take, deadline)
            if report is None:
                process.stdin.close()
                report = _read(process, take, time.monotonic() + _ENDING_S)
    try:
        return Ending(**json.loads(report or b""))
    except ValueError:  # what stands there else is an error of the box, with absolute paths
        return Ending(error="was lost: its supervisor was killed")


@contextmanager
def _supervisor(words: Sequence[str], environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the supervisor; at the end of the block it has ended everything, also after an interrupt."""
    process = subprocess.Popen(
        words,
        cwd="/",
        env=environment,  # what the command may not see, it may not read out of its supervisor either
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # no Ctrl-C of the terminal reaches it: the harness decides
        bufsize=0,
    )
    try:
        yield process
    finally:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def _read(process: "subprocess.Popen[bytes]", take: Callable[[bytes], None], deadline: float) -> bytes | None:
    """Hand on the output until the supervisor has ended; return its report, or None when the deadline came first."""
    assert process.stdout is not None and process.stderr is not None
    report = b""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            selector.register(stream, selectors.EVENT_READ)
        while (remaining := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(remaining):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                if key.fileobj is process.stdout:
                    take(chunk)
                    continue
                report += chunk
                if not chunk:
                    _drain(process.stdout.fileno(), take)
                    return report
    return None


def _drain(descriptor: int, take: Callable[[bytes], None]) -> None:
    """Hand on what is left in a pipe; what could not be ended may hold it open, and is not waited for."""
    os.set_blocking(descriptor, False)
    with suppress(BlockingIOError):
        while chunk := os.read(descriptor, 65536):
            take(chunk)
