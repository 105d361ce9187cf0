"""Ask a person, on the terminal itself, before a tool writes or executes."""

import json

from oasis_harness.registry import Tool
from oasis_harness.replies import ToolCall

from .terminal import answer_to

__all__ = ["ask"]


def ask(call: ToolCall, tool: Tool, *, terminal: str = "/dev/tty") -> bool:
    """Ask on the `terminal`; without one, or at its end (Ctrl-D), deny.

    What was typed before the question answers nothing: it is thrown away. Neither stdin nor stdout is touched, so a
    task that came through a pipe cannot say yes.
    """
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    question = f"\n{tool.name} wants to {tool.effect}: {arguments}\nAllow? [y/N] "
    return answer_to(question, terminal=terminal).strip().lower() in ("y", "yes")
