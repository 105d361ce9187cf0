r"""A chat as a request holds it, rendered whole: what a server reads that puts all messages through the template.

    {"role": "user", "content": "hi"}        <|im_start|>user\n    template               scaffold
                                             hi                    messages[0].content    exact
                                             <|im_end|>\n          template               scaffold

For agents that keep their own messages. What no one else's text is known to be stands under its message where that has
calls or reasoning, `messages[1]`, and is the template's own elsewhere.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from oasis_harness.errors import TemplateFailed, TemplateRunaway, UnsupportedTemplate
from oasis_harness.sequences import first_difference
from oasis_harness.templates import Message

from .dialect import Dialect
from .markers import Markers, placed
from .owned_text import joined, named
from .spans import Resolution, Span, tiled
from .trace import trace

__all__ = ["Chat", "chat_bytes", "render_chat"]

_BESIDE = frozenset({"role", "content"})
"""Keys of a message that are not looked for by themselves."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Messages and tools in the form that templates take."""

    messages: tuple[Mapping[str, Any], ...]
    """Each with a role, and a content that is text."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Each as `{"type": "function", "function": {"name": …}}`."""


def render_chat(chat: Chat, dialect: Dialect) -> tuple[bytes, tuple[Span, ...]]:
    """Return what a server would read of `chat` to answer it, and whose each byte of that is.

    Where the dialect prints no tools, they are listed in the system text, and calls and results travel as text, as in
    a session.

    Raises:
        TemplateFailed, TemplateRunaway: The template refuses it.
    """
    messages, tools = _spoken(chat, dialect)
    plain = _written(messages, tools, dialect)
    found = [*_texts(plain, dialect, messages, tools)]
    found = sorted([*found, *_more(plain, dialect, messages, tools, beside=found)], key=lambda span: span.start)
    data = plain.encode()
    spans = tiled(found, len(data))
    return data, tuple(_under_messages(spans, _regions(plain, dialect, messages, tools)))


def chat_bytes(chat: Chat, dialect: Dialect) -> bytes:
    """Return what a server would read of `chat` to answer it.

    Raises:
        TemplateFailed, TemplateRunaway: The template refuses it.
    """
    return _written(*_spoken(chat, dialect), dialect).encode()


def _written(messages: Sequence[Message], tools: Sequence[dict[str, Any]], dialect: Dialect) -> str:
    return dialect.template.render(_plain(messages), tools=tools, generation_prompt=True)


def _spoken(chat: Chat, dialect: Dialect) -> tuple[list[Message], list[dict[str, Any]]]:
    """Return messages and tools as the dialect takes them, contents as texts that know their owner."""
    messages: list[Message] = [
        {**message, "content": named(f"messages[{index}].content", message["content"])}
        for index, message in enumerate(chat.messages)
    ]
    tools = [dict(tool) for tool in chat.tools]
    if dialect.certificate.calls is None:
        messages = [_in_words(index, message) for index, message in enumerate(messages)]
        section, tools = dialect.tool_section(tools), []
        messages = _with_section(messages, section) if section else messages
    return messages, tools


def _in_words(index: int, message: Message) -> Message:
    """Return a message whose calls and results are text, for a template that knows none."""
    content = message["content"]
    if message["role"] == "tool":
        return {"role": "user", "content": joined("", ["<tool_response>\n", content, "\n</tool_response>"])}
    calls = message.get("tool_calls") or ()
    if not calls:
        return message
    owner = f"messages[{index}].tool_calls"
    words = [
        joined("", ["<tool_call>", named(f"{owner}[{n}]", json.dumps(_call(call), ensure_ascii=False)), "</tool_call>"])
        for n, call in enumerate(calls)
    ]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": joined("\n", filter(None, [content, *words]))}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"name": function["name"], "arguments": function.get("arguments", {})}


def _with_section(messages: list[Message], section: str) -> list[Message]:
    if messages and messages[0]["role"] == "system":
        return [
            {**messages[0], "content": joined("\n\n", filter(None, [messages[0]["content"], section]))},
            *messages[1:],
        ]
    return [{"role": "system", "content": section}, *messages]


def _plain(messages: Sequence[Message]) -> list[Message]:
    return [{**message, "content": str(message["content"])} for message in messages]


def _texts(
    plain: str, dialect: Dialect, messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> tuple[Span, ...]:
    """Return where contents and what tools say stand; none where the template rewrites one of them."""

    def render(some: Sequence[Message], others: Sequence[dict[str, Any]]) -> str:
        return dialect.template.render(some, tools=others, generation_prompt=True)

    try:
        return trace(plain, render, messages, tools).owned()[0]
    except (UnsupportedTemplate, TemplateFailed, TemplateRunaway):
        return ()


def _more(
    plain: str,
    dialect: Dialect,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    *,
    beside: Sequence[Span],
) -> list[Span]:
    """Return where the other texts of messages stand, each kind tried by itself: reasoning, names, arguments."""
    marks, found = Markers(plain), list[Span]()
    kinds = {_kind(path) for message in messages for path in _paths(message)}
    for kind in sorted(kinds):
        names: list[str] = []

        def mark(path: str, text: str, kind: str = kind, names: list[str] = names) -> str:
            if _kind(path) != kind or not text.strip():
                return text
            names.append(path)
            return marks.around(len(names) - 1, text)

        marked = [_marked(message, f"messages[{index}]", mark) for index, message in enumerate(messages)]
        try:
            chunks = list(marks.split(dialect.template.render(marked, tools=tools, generation_prompt=True)))
        except (TemplateFailed, TemplateRunaway):
            continue
        more = [Span(one.start, one.end, names[one.number], Resolution.EXACT) for one in placed(chunks)]
        both = sorted([*beside, *found, *more], key=lambda span: span.start)
        is_apart = all(one.end <= other.start for one, other in pairwise(both))
        if is_apart and "".join(text for _, text in chunks) == plain:
            found += more
    return found


def _paths(message: Message) -> Iterator[str]:
    paths: list[str] = []
    _marked(message, "", lambda path, text: paths.append(path) or text)  # type: ignore[func-returns-value]  # collects
    yield from paths


def _kind(path: str) -> str:
    """Return which texts stand or fall together: those under one key of a message, and of a call."""
    keys = [part.partition("[")[0] for part in path.split(".")[1:]]
    return ".".join(keys[:3])


def _marked(message: Message, place: str, mark: Callable[[str, str], str]) -> Message:
    return {
        key: str(value) if key in _BESIDE else _walk(value, f"{place}.{key}", mark) for key, value in message.items()
    }


def _walk(value: Any, place: str, mark: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return mark(place, value)
    if isinstance(value, Mapping):
        return {key: _walk(item, f"{place}.{key}", mark) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(item, f"{place}[{index}]", mark) for index, item in enumerate(value)]
    return value


def _regions(
    plain: str, dialect: Dialect, messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> list[tuple[int, int, str]]:
    """Return where each message stands that has more than a content, by rendering up to it and behind it."""

    def end(n: int) -> int:
        try:
            text = dialect.template.render(_plain(messages[:n]), tools=tools)
        except (TemplateFailed, TemplateRunaway):
            return -1
        return first_difference(text.encode(), plain.encode())

    some = [index for index, message in enumerate(messages) if message.keys() - _BESIDE]
    regions = [(end(index), end(index + 1), f"messages[{index}]") for index in some]
    return [(start, stop, name) for start, stop, name in regions if 0 <= start < stop]


def _under_messages(spans: Sequence[Span], regions: Sequence[tuple[int, int, str]]) -> Iterator[Span]:
    """Return `spans` with what is no one's own text inside a region put under the message of that region."""
    for span in spans:
        if span.resolution is not Resolution.SCAFFOLD:
            yield span
            continue
        at = span.start
        for start, stop, name in regions:
            start, stop = max(start, at), min(stop, span.end)
            if start < stop:
                if at < start:
                    yield Span(at, start, span.name, span.resolution)
                yield Span(start, stop, name, Resolution.CONTAINER)
                at = stop
        if at < span.end:
            yield Span(at, span.end, span.name, span.resolution)
