"""A small agent with a loop of its own; test_prompt.py catches whatever moves a byte of what it sends."""

import json
from collections.abc import Callable
from typing import Any

from oasis_harness import Tools

SYSTEM = "You are a careful engineer."
FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "notes.md": "add() is wrong.\n"}
tools = Tools()


@tools.add
def read_file(path: str, limit: int = 200) -> str:
    """Read a text file of the workspace, at most `limit` lines."""
    return "\n".join(FILES[path].splitlines()[:limit])


def head() -> tuple[str, Tools]:
    """Return what every conversation opens with, for `oasis prefix check agent.py:head`."""
    return SYSTEM, tools


def run(task: str, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """Work on `task`; `ask` sends a request body and returns the model's message."""
    schemas = [json.loads(tool.schema) for tool in tools.frozen()]
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    while True:
        reply = ask({"model": "any", "tools": schemas, "messages": messages})
        messages.append(reply)
        if not reply.get("tool_calls"):
            return str(reply["content"])
        for call in reply["tool_calls"]:
            result = read_file(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
