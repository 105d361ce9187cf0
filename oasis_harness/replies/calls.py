"""One call of a reply, and how a dialect writes it.

    <tool_call>{"name": "read_file", "arguments": {"path": "calc.py"}}</tool_call>
    └ opener ┘└ what stands between the marks is the syntax's own ┘└  closer  ┘

Plain values; `parse_reply` reads them from sampled bytes.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .layout import CallLayout

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
    layout: CallLayout | None = None
    """Where the parts of a call stand, where that was learned from the template."""

    @classmethod
    def of_layout(cls, layout: CallLayout) -> "CallSyntax":
        """Return the syntax that reads what was learned."""
        return cls(layout.opener, layout.closer, layout.parse, layout=layout)

    @property
    def is_whole(self) -> bool:
        """Whether a call is the whole of a reply, since nothing but its shape tells it from text."""
        return self.layout is not None and self.layout.is_whole

    def marks_among(self, specials: Collection[str]) -> tuple[str, ...]:
        """Return the marks of a call that are special tokens."""
        if self.layout is not None:
            return self.layout.marks_among(specials)
        return tuple(mark for mark in (self.opener, self.closer) if mark in specials)

    def find(self, text: str) -> tuple[int, int] | None:
        """Return (start, end) of what opens the first calls in `text`, or None."""
        if self.layout is not None:
            return None if self.layout.is_whole else self.layout.find(text)
        at = text.find(self.opener) if self.opener else -1
        return (at, at + len(self.opener)) if at >= 0 else None

    def extent(self, text: str) -> int:
        """Return where the calls end that `text`, right after an opener, begins with; 0 if that is not known."""
        return json_end(text) if self.layout is None else self.layout.extent(text)


class GivenIds(StrEnum):
    """Which ids that the model gives its calls are kept; the value is their pattern."""

    NONE = "(?!)"
    NINE = "[A-Za-z0-9]{9}"
    """As the strictest templates want them."""
    ANY = r"[\w.:/-]{1,100}"


def json_end(text: str) -> int:
    """Return where the JSON value that `text` begins with ends, or 0."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return 0
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return 0


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
