"""Run a module of this room in a process that ends with the call, also at an interrupt or the interpreter's end.

Python runs isolated (`-I`: no PYTHON* variables, no user packages, no folder of the caller's on the path), without the
site packages (`-S`) and in `/`, so that no file a model wrote can be imported: the process loads the module, what it
imports relatively, and the standard library. It ends with the call: also when the call is interrupted and when the
interpreter ends.
"""

import atexit
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from oasis_harness.children import isolated_child
from oasis_harness.registry import on_interrupt

__all__ = ["child_command", "running"]


def child_command(module: str) -> list[str]:
    """Return the command line that runs `main()` of the module of this room."""
    return isolated_child(Path(__file__).resolve().parent, module).words


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
