"""What a reply says: its text, its reasoning and its calls. A view of the sampled bytes, never stored with them.

A call that does not parse becomes a ToolCall with an error: the loop answers it with a result, and the bytes stay as
they were sampled.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["JSON_CALLS", "CallSyntax", "Parsed", "ToolCall", "parse"]

_THINK = (("<think>", "</think>"), ("<|channel>thought", "<channel|>"), ("[THINK]", "[/THINK]"))
"""Reasoning marks in use; a reply has one pair at most."""


class CallSyntax(NamedTuple):
    """How a dialect writes a call: the marks around it, and a parser of what stands between them."""

    opener: str
    closer: str
    parse: Callable[[str, Sequence[Mapping[str, Any]]], Any]
    """(text between the marks, tool schemas) to `{"name", "arguments"}` or a list of them; raises on nonsense."""


def _json_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    return json.loads(text)


JSON_CALLS = CallSyntax("<tool_call>", "</tool_call>", _json_call)
"""`<tool_call>{"name": …, "arguments": …}</tool_call>`, for templates that know no tools."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a reply."""

    id: str
    """Unique in the conversation and nine letters and digits long, as the strictest templates want it."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    """What is wrong with the call, in words for the model; empty when it can be run."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The parts of a reply."""

    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


def parse(
    data: bytes,
    syntax: CallSyntax,
    *,
    index: int,
    tools: Sequence[Mapping[str, Any]] = (),
    generation_prompt: str = "",
) -> Parsed:
    """Split the sampled bytes of event `index` into text, reasoning and calls.

    `generation_prompt` is what stood before the reply: it may already have opened the reasoning.
    """
    reasoning, text = _split_reasoning(data.decode("utf-8", errors="replace"), generation_prompt)
    parts: list[str] = []
    calls: list[ToolCall] = []
    while syntax.opener and syntax.opener in text:
        before, _, rest = text.partition(syntax.opener)
        inside, closer, text = _until(rest, syntax)
        parts.append(before)
        calls += _calls(inside, bool(closer), syntax, tools, index, len(calls))
    parts.append(text)
    return Parsed("".join(parts).strip(), reasoning.strip(), tuple(calls))


def _split_reasoning(text: str, generation_prompt: str) -> tuple[str, str]:
    for opener, closer in _THINK:
        if generation_prompt.rstrip().endswith(opener) or text.lstrip().startswith(opener):
            reasoning, _, answer = text.partition(closer)
            return reasoning.replace(opener, "", 1), answer
    return "", text


def _until(rest: str, syntax: CallSyntax) -> tuple[str, str, str]:
    """Return (inside, closer, after); where the syntax has no closer, a call ends where the next one opens."""
    if syntax.closer:
        return rest.partition(syntax.closer)
    inside, opener, after = rest.partition(syntax.opener)
    return inside, "end", opener + after


def _calls(
    inside: str, is_closed: bool, syntax: CallSyntax, tools: Sequence[Mapping[str, Any]], index: int, first: int
) -> list[ToolCall]:
    if not is_closed:
        return [ToolCall(_call_id(index, first), "", error=f"the call was cut off before {syntax.closer}")]
    try:
        parsed = syntax.parse(inside, tools)
    except Exception as error:  # noqa: BLE001 - the parser is foreign code, its errors are the model's to read
        return [ToolCall(_call_id(index, first), "", error=f"the call does not parse: {error}")]
    found = parsed if isinstance(parsed, list) else [parsed]
    return [_call(one, _call_id(index, first + i)) for i, one in enumerate(found)]


def _call(found: Any, call_id: str) -> ToolCall:
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(name, str):
        return ToolCall(call_id, "", error='a call must be an object with "name" and "arguments"')
    arguments = found.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _json_object(arguments)
    if not isinstance(arguments, dict):
        return ToolCall(call_id, name, error='"arguments" must be an object')
    return ToolCall(str(found.get("id") or call_id), name, arguments)


def _json_object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _call_id(index: int, number: int) -> str:
    return f"c{index % 1_000_000:06d}{number % 100:02d}"
