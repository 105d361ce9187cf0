r"""Marks that a reply only spells: where one is a token of its own, the same letters from other tokens are a quotation.

    sampled   … write <tool_call> {"name": …        `<`, `tool`, `_call`, `>`: the model explains how calls are written
    parsed    as text, and no call is made of it

Before a reply is parsed, each quoted mark begins with a private character instead; in what was parsed it is put back.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .calls import ToolCall
from .parse import Parsed

__all__ = ["unquoted", "with_stand_ins"]

_STAND_IN = "\uf8ff"


def with_stand_ins(data: bytes, quoted: Sequence[tuple[int, int]]) -> bytes:
    """Return `data` in which what lies at `quoted` (start, end in bytes) can be taken for no mark."""
    parts, end = [], 0
    for start, stop in quoted:
        parts += [data[end:start], _STAND_IN.encode(), data[start + 1 : stop]]
        end = stop
    return b"".join([*parts, data[end:]])


def unquoted(parsed: Parsed, marks: Sequence[str]) -> Parsed:
    """Return `parsed` with the quoted `marks` as they were sampled."""

    def text(value: str) -> str:
        for mark in marks:
            value = value.replace(_STAND_IN + mark[1:], mark)
        return value

    def each(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return {text(key): each(item) for key, item in value.items()}
        return [each(item) for item in value] if isinstance(value, list) else value

    def call(one: ToolCall) -> ToolCall:
        return replace(one, name=text(one.name), arguments=each(dict(one.arguments)), error=text(one.error))

    return Parsed(text(parsed.text), text(parsed.reasoning), tuple(map(call, parsed.calls)))
