"""Ask a person, on the terminal itself, before a tool writes or executes."""

import json
import os
import termios

from oasis_harness.registry import Tool
from oasis_harness.replies import ToolCall

from .terminal import visible

__all__ = ["ask"]


def ask(call: ToolCall, tool: Tool, *, terminal: str = "/dev/tty") -> bool:
    """Ask on the `terminal`; without one, or at its end (Ctrl-D), deny.

    What was typed before the question answers nothing: it is thrown away. Neither stdin nor stdout is touched, so a
    task that came through a pipe cannot say yes.
    """
    try:
        screen = os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        arguments = visible(json.dumps(dict(call.arguments), ensure_ascii=False))
        termios.tcflush(screen, termios.TCIFLUSH)
        question = f"\n{visible(tool.name)} wants to {tool.effect}: {arguments}\nAllow? [y/N] "
        os.write(screen, question.encode("utf-8", "backslashreplace"))
        answer = os.read(screen, 1024)
        os.write(screen, b"" if answer else b"\n")
        return answer.strip().lower() in (b"y", b"yes")
    except (OSError, termios.error):  # the terminal went away, or is none
        return False
    finally:
        os.close(screen)
