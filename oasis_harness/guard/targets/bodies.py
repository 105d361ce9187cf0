r"""A request body, and a list of tools as it goes to an API, in the form that chat templates take.

    {"system": "Be brief.",                                          [{"role": "system", "content": "Be brief."},
     "messages": [{"role": "user", "content": [                       {"role": "user", "content": "hi"}]
        {"type": "text", "text": "hi"}]}],
     "tools": [{"name": "now", "input_schema": {"type": "object"}}]} [{"type": "function", "function":
                                                                        {"name": "now", "parameters": {…}}}]

Bodies are those of OpenAI's chat completions, of Anthropic's Messages and of Ollama's chat. Keys stay in the order
they were given in, and values as they are, for both are printed. Arguments of a call that are JSON text become what it
says, as servers give them to templates.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from oasis_harness.canonical import canonical_json
from oasis_harness.render import Chat

__all__ = ["chat_of", "tool_objects"]

_TOOL = '{"type": "function", "function": {"name": …, "parameters": …}} or {"name": …, "input_schema": …}'
_BODY = "a request body has messages, a list of objects with a role: OpenAI chat, Anthropic Messages or Ollama chat"
_REASONING = ("reasoning_content", "reasoning", "thinking")
"""What clients and servers call it; templates mostly read the first."""
_BESIDE = ("tool_result", "tool_use", "thinking")
"""Parts of Anthropic's that are no part of the text."""
_SENT = frozenset({"cache_control"})
"""What is for the server and no template prints."""


def chat_of(body: object, *, parses: bool = True) -> Chat:
    """Return the messages and tools of a request body, a mapping or its JSON.

    `parses` makes of arguments that are JSON text what it says.

    Raises:
        TypeError: It is no body; the message names what it is, and what is wanted.
    """
    fields = _fields(body)
    messages = fields.get("messages")
    if not _is_list(messages):
        held = f"one with {', '.join(map(str, fields)) or 'nothing'}" if "messages" not in fields else _shown(messages)
        raise TypeError(f"{_BODY}, not {held}")
    found = [*_system(fields.get("system"))]
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise TypeError(f"messages[{index}] is {_shown(message)}; {_BODY}")
        found += _messages(message, f"messages[{index}]", parses=parses)
    return Chat(tuple(found), tool_objects(fields.get("tools") or ()))


def tool_objects(given: object) -> tuple[dict[str, Any], ...]:
    """Return tools as they go to an API, JSON objects in a list, in the form that templates take; in their order.

    Raises:
        TypeError: One of them is no tool; the message names it, and what is wanted.
    """
    if not _is_list(given):
        raise TypeError(f"tools are {_shown(given)}; give Tools, or a list of JSON objects such as {_TOOL}")
    return tuple(_tool(one, f"tools[{index}]") for index, one in enumerate(given))


def _fields(body: object) -> Mapping[str, Any]:
    if isinstance(body, Mapping):
        return body
    if isinstance(body, str | bytes):
        try:
            fields = json.loads(body)
        except ValueError:
            fields = None
        if isinstance(fields, dict):
            return fields
    raise TypeError(f"{_BODY}, not {_shown(body)}")


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: object) -> str:
    return f"{value!r:.60} ({type(value).__name__})"


def _tool(one: object, place: str) -> dict[str, Any]:
    if not isinstance(one, Mapping):
        raise TypeError(f"{place} is {_shown(one)}; a tool is a JSON object such as {_TOOL}")
    tool = {key: value for key, value in one.items() if key not in _SENT}
    function = tool.get("function")
    if not isinstance(function, Mapping):
        function = {("parameters" if key == "input_schema" else key): value for key, value in tool.items()}
        tool = {"type": "function", "function": function}
        if "parameters" not in function:  # one that the server runs itself
            tool = {"type": function.get("type", "function"), "function": function}
    if not isinstance(function.get("name"), str):
        raise TypeError(f"{place} is {_shown(one)}, which has no name; a tool is a JSON object such as {_TOOL}")
    try:
        canonical_json(tool)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{place}, {function['name']!r}, is no JSON: {error}") from None
    return tool


def _system(system: object) -> Iterator[dict[str, Any]]:
    """Return the message that a system text beside the messages is rendered as."""
    if system:
        yield {"role": "system", "content": _text(system, "system")}


def _messages(message: Mapping[str, Any], place: str, *, parses: bool) -> Iterator[dict[str, Any]]:
    """Return the messages that a template takes in place of `message`: one, and each result of Anthropic's one more."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, Mapping)] if _is_list(content) else []
    results = [part for part in parts if part.get("type") == "tool_result"]
    for part in results:
        told = _text(part.get("content"), place)
        yield {"role": "tool", "tool_call_id": part.get("tool_use_id", ""), "content": told}
    if results and len(results) == len(parts):
        return
    rest = [part for part in parts if part.get("type") not in _BESIDE]
    plain = {key: value for key, value in message.items() if key not in ("content", "tool_calls", *_REASONING, *_SENT)}
    reasoning = [str(message[key]) for key in _REASONING if message.get(key)]
    reasoning += [str(part.get("thinking", "")) for part in parts if part.get("type") == "thinking"]
    calls = [*(message.get("tool_calls") or ()), *map(_of_anthropic, _used(parts))]
    yield {
        **plain,
        "content": _text(rest if parts else content, place),
        **({"reasoning_content": "".join(reasoning)} if reasoning else {}),
        **({"tool_calls": _calls(calls, f"{place}.tool_calls", parses=parses)} if calls else {}),
    }


def _used(parts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [part for part in parts if part.get("type") == "tool_use"]


def _of_anthropic(part: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": part.get("name"), "arguments": part.get("input", {})}
    return {"id": part.get("id", ""), "type": "function", "function": function}


def _calls(calls: Sequence[object], place: str, *, parses: bool) -> list[dict[str, Any]]:
    return [_call(call, f"{place}[{index}]", parses=parses) for index, call in enumerate(calls)]


def _call(call: object, place: str, *, parses: bool) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise TypeError(f'{place} is {_shown(call)}; a call is {{"function": {{"name": …, "arguments": …}}}}')
    arguments = function.get("arguments", {})
    if parses and isinstance(arguments, str):
        with contextlib.suppress(ValueError):  # what is no JSON is told as it is
            arguments = json.loads(arguments)
    return {**call, "function": {**function, "arguments": arguments}}


def _text(content: object, place: str) -> str:
    """Return the text of a content: parts one under the other, as servers join them; of an image its digest."""
    if content is None or isinstance(content, str):
        return content or ""
    if not _is_list(content):
        raise TypeError(f"the content of {place} is {_shown(content)}; it is text, or a list of parts")
    return "\n".join(_part(part) for part in content)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    if isinstance(text, str):
        return text
    kind = part.get("type", "part") if isinstance(part, Mapping) else type(part).__name__
    return f"[{kind} sha256:{hashlib.sha256(canonical_json(part)).hexdigest()}]"
