"""The bytes an event adds, found by the sentinel cut.

Render `[user, L] + new` with the generation prompt, where L says one unique word, and keep what follows that word: the
closer of the last reply as history wants it, the new messages, and the opener of the next reply. The cost is that of
the new messages, whatever the length of the conversation. After a call, L is the same call with the word as its last
argument, and what the template writes to end the call itself is the model's own and cut off too.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.conversation import Compaction, Event, Head, Node, Note, Reply, ToolResults, ToolsAdded, last_sent
from oasis_harness.errors import UnsupportedTemplate

from .certify import SENTINEL, Base, call_message, text_message
from .dialect import Dialect, added_tools_text
from .parse import ToolCall
from .template import Message

__all__ = ["Delta", "Renderer"]


@dataclass(frozen=True, slots=True)
class Delta:
    """What an event adds to the prompt."""

    data: bytes
    authored: tuple[tuple[int, int], ...] = ()
    """Byte ranges of `data`, in order, that a person, a tool or the harness wrote; the rest is template scaffold."""


class Renderer:
    """Renders one conversation's events in one dialect. Holds no state: a delta depends on the tip and the event."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def extend(self, tip: Node | None, event: Event) -> Delta:
        """Return the bytes that `event` adds after `tip`.

        Heads, notes and added tools add none of their own: the next turn carries them.

        Raises:
            TemplateFailed: The template refuses these messages.
            UnsupportedTemplate: It changes what it is given so that the text cannot be told from scaffold.
        """
        if isinstance(event, Head | Note | ToolsAdded):
            return Delta(b"")
        if isinstance(event, Compaction):
            return self._first(_head_of(tip), event.summary.decode())
        if isinstance(event, Reply) or tip is None:
            raise ValueError(f"a {event.kind} event is not rendered; its bytes are what was sampled")
        last, riders = _last_sent(tip)
        note = "\n\n".join(riders)
        if isinstance(event, ToolResults):
            return self._after(last, self.dialect.result_messages(event, note), self._call_base(last))
        text = "\n\n".join([*riders, event.text.decode()])
        if isinstance(last.event, Head):
            return self._first(last.event, text)
        return self._after(last, [{"role": "user", "content": text}], self._text_base())

    def head(self, head: Head) -> bytes:
        """Return the bytes of the first prompt up to the first user's own words, whatever they will be."""
        delta = self._first(head, SENTINEL)
        return delta.data[: delta.data.index(SENTINEL.encode())]

    def _first(self, head: Head, text: str) -> Delta:
        messages, tools = self.dialect.first_messages(head, text)
        plain = self._render(messages, tools)
        marks = _Marks(plain, [*(message["content"] for message in messages), *_descriptions(tools)])
        marked = self._render([marks.message(message) for message in messages], [marks.tool(tool) for tool in tools])
        return marks.read(plain, marked)

    def _after(self, last: Node, new: Sequence[Message], base: "_Base") -> Delta:
        plain = base.cut(self._render([*base.messages, *new], base.tools))
        marks = _Marks(plain, [message["content"] for message in new])
        marked = base.cut(self._render([*base.messages, *map(marks.message, new)], base.tools))
        return marks.read(plain, marked)

    def _render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        return self.dialect.template.render(messages, tools=tools, generation_prompt=True)

    def _text_base(self) -> "_Base":
        return _Base([_DUMMY, text_message(SENTINEL)], "")

    def _call_base(self, last: Node) -> "_Base":
        if self.dialect.certificate.result_base is Base.TEXT or not isinstance(last.event, Reply):
            return self._text_base()
        calls = self.dialect.parse(last.event.data, last.index).calls
        if not calls or any(call.error for call in calls):
            return self._text_base()
        messages = [_DUMMY, self._same_calls(calls)]
        closed = self.dialect.template.render(messages)
        tail = closed[closed.index(SENTINEL) + len(SENTINEL) :]
        return _Base(messages, tail.removesuffix(self.dialect.certificate.call_closer))

    def _same_calls(self, calls: Sequence[ToolCall]) -> Message:
        *others, last = calls
        arguments = [dict(call.arguments) for call in others] + [{**last.arguments, SENTINEL[:5]: SENTINEL}]
        as_text = self.dialect.certificate.arguments_as_text
        forms = [json.dumps(one, ensure_ascii=False) if as_text else one for one in arguments]
        return call_message([(call.id, call.name, form) for call, form in zip(calls, forms, strict=True)])


@dataclass(frozen=True, slots=True)
class _Base:
    """What stands before new messages, and where its own text ends."""

    messages: list[Message]
    tail: str
    """What the template writes between the sentinel and the end of the call."""
    tools: tuple[dict[str, Any], ...] = ()

    def cut(self, text: str) -> str:
        after = text[text.index(SENTINEL) + len(SENTINEL) :]
        if not after.startswith(self.tail):
            raise UnsupportedTemplate(
                f"the chat template ends a call with {after[: len(self.tail)]!r}, alone it wrote {self.tail!r}.",
                remedy="Its calls depend on what follows them; use another template for this model.",
            )
        return after[len(self.tail) :]


_DUMMY: Message = {"role": "user", "content": "dummy"}


class _Marks:
    """Private-use characters around authored text: a second render with them shows where that text went.

    They stand inside the text's leading and trailing white space, so that templates may trim it, and are believed only
    where taking them out gives exactly the unmarked render.
    """

    def __init__(self, plain: str, texts: Sequence[str]) -> None:
        self._texts = [text.strip() for text in texts if text.strip()]
        taken = set(plain).union(*texts)
        free = (chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in taken)
        self._opener, self._closer = next(free), next(free)

    def message(self, message: Message) -> Message:
        return {**message, "content": self._around(message["content"])}

    def tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        marked: dict[str, Any] = _map_descriptions(tool, self._around)
        return marked

    def read(self, plain: str, marked: str) -> Delta:
        """Return `plain` as bytes with the marked ranges."""
        if marked.replace(self._opener, "").replace(self._closer, "") != plain:
            raise UnsupportedTemplate(
                "the chat template changes the text it is given, so typed text cannot be told from its own marks.",
                remedy="Use another template for this model.",
            )
        ranges: list[tuple[int, int]] = []
        offset = 0
        for part in marked.split(self._opener):
            inside, closer, outside = part.partition(self._closer)
            if closer:
                start, offset = offset, offset + len(inside.encode())
                ranges.append((start, offset))
            offset += len((outside if closer else inside).encode())
        return Delta(plain.encode(), tuple(ranges))

    def _around(self, text: str) -> str:
        core = text.strip()
        if not core:
            return text
        start = text.index(core)
        return f"{text[:start]}{self._opener}{core}{self._closer}{text[start + len(core) :]}"


def _descriptions(value: Any) -> list[str]:
    found: list[str] = []
    _map_descriptions(value, lambda text: found.append(text) or text)  # type: ignore[func-returns-value]
    return found


def _map_descriptions(value: Any, change: Any) -> Any:
    """Return `value` with `change` applied to every text under a key `description`."""
    if isinstance(value, dict):
        return {
            key: change(item) if key == "description" and isinstance(item, str) else _map_descriptions(item, change)
            for key, item in value.items()
        }
    return [_map_descriptions(item, change) for item in value] if isinstance(value, list) else value


def _last_sent(tip: Node) -> tuple[Node, list[str]]:
    """Return the last node that spoke, and the words of the notes and added tools no turn has carried yet."""
    riders: list[str] = []
    node: Node | None = tip
    while node is not None and isinstance(node.event, Note | ToolsAdded | Reply):
        event = node.event
        if isinstance(event, Note):
            riders.append(event.text.decode())
        elif isinstance(event, ToolsAdded):
            riders.append(added_tools_text(event.tools))
        node = node.parent
    return last_sent(tip), riders[::-1]


def _head_of(tip: Node | None) -> Head:
    """Return the head a new epoch opens with: the first one, and the tools that arrived since. O(events)."""
    added: list[bytes] = []
    node = tip
    while node is not None and not isinstance(node.event, Head):
        if isinstance(node.event, ToolsAdded):
            added = [*node.event.tools, *added]
        node = node.parent
    if node is None or not isinstance(node.event, Head):
        raise ValueError("a conversation starts with its head")
    head = node.event
    return Head(head.epoch, head.system, (*head.tools, *added), head.skills)
