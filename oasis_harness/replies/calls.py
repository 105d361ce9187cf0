"""One call of a reply, and how a dialect writes it.

    <tool_call>{"name": "read_file", "arguments": {"path": "calc.py"}}</tool_call>
    └ opener ┘└ what stands between the marks is the syntax's own ┘└  closer  ┘

Plain values; `parse_reply` reads them from sampled bytes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["JSON_CALLS", "CallSyntax", "GivenIds", "ToolCall"]


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """How a dialect writes a call: the marks around it, and a parser of what stands between them."""

    opener: str
    closer: str
    parse: Callable[[str, Sequence[Mapping[str, Any]]], Any]
    """(text between the marks, tool schemas) to `{"name", "arguments"}` or a list of them; raises on nonsense."""
    is_json: bool = False
    """Whether `{"name": …, "arguments": …}` is known to stand between the marks, so that a grammar can ask for it."""


class GivenIds(StrEnum):
    """Which ids that the model gives its calls are kept; the value is their pattern."""

    NONE = "(?!)"
    NINE = "[A-Za-z0-9]{9}"
    """As the strictest templates want them."""
    ANY = r"[\w.:/-]{1,100}"


def _json_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    return json.loads(text)


JSON_CALLS = CallSyntax("<tool_call>", "</tool_call>", _json_call, is_json=True)
"""`<tool_call>{"name": …, "arguments": …}</tool_call>`, for templates that know no tools."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a reply."""

    id: str
    """Unique in its reply. Ours are unique in the conversation, and nine letters and digits long."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    """What is wrong with the call, in words for the model; empty when it can be run."""
