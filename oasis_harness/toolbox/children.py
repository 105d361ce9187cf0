"""Start a child process that runs one of our own modules and nothing of the workspace's.

Python runs isolated (`-I`: no PYTHON* variables, no user packages, no folder of the caller's on the path), without the
site packages (`-S`) and in `/`, so that no file a model wrote can be imported. Of this package only the one module is
loaded, and what it imports relatively; such a module imports the standard library beyond that. It ends with the call:
also when the call is interrupted and when the interpreter ends.
"""

import atexit
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from oasis_harness.registry import on_interrupt

__all__ = ["child_command", "running"]

_LOAD = """\
import importlib, sys, types
room = types.ModuleType("room")
room.__path__ = [sys.argv[1]]
sys.modules["room"] = room
importlib.import_module("room." + sys.argv[2]).main()
"""
"""Makes a package of our folder without running its door, which would load pydantic."""


def child_command(module: str) -> list[str]:
    """Return the command line that runs `main()` of the module of this room."""
    return [sys.executable, "-I", "-S", "-c", _LOAD, str(Path(__file__).resolve().parent), module]


@contextmanager
def running(module: str, request: bytes) -> Iterator["subprocess.Popen[bytes]"]:
    """Start `module`, send it `request` as its whole input, and kill it at the end of the block.

    Raises:
        OSError: No process can be started.
    """
    process = subprocess.Popen(
        child_command(module),
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    atexit.register(process.kill)  # an agent runs tools on threads, which end with the process and clean up nothing
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(request)
        with on_interrupt(process.kill):
            yield process
    finally:
        process.kill()
        atexit.unregister(process.kill)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
