"""The bytes an event adds, found by the sentinel cut.

Render `[user, L] + new` with the generation prompt, where L says one unique word, and keep what follows L's own text:
the closer of the last reply as history wants it, the new messages, and the opener of the next reply. The cost is that
of the new messages, whatever the length of the conversation and of what the model said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.conversation import Compaction, Event, Head, Node, Note, Reply, ToolResults, ToolsAdded, last_sent
from oasis_harness.errors import UnsupportedTemplate

from .base import AFTER_TEXT, Cut, text_base
from .dialect import Dialect
from .provenance import Marks
from .template import Message, text_of

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
        if tip is None or isinstance(event, Reply):
            raise ValueError(f"a {event.kind} event is not rendered here: a reply's bytes are what was sampled")
        last, riders = _last_sent(tip)
        if isinstance(event, Compaction):
            notes = [rider for rider in riders if isinstance(rider, Note)]
            return self._first(_head_of(tip), self._with_riders(notes, event.summary))
        if isinstance(event, ToolResults):
            if not event.results:
                raise ValueError("there are no results to render")
            new = self.dialect.result_messages(event, self._with_riders(riders))
            return self._after(*self._result_base(last, event), new)
        text = self._with_riders(riders, event.text)
        if isinstance(last.event, Head):
            return self._first(last.event, text)
        return self._after(text_base(), AFTER_TEXT, [{"role": "user", "content": text}])

    def head(self, head: Head) -> bytes:
        """Return the bytes of the first prompt up to the first user's own words, whatever they will be."""
        word = "oasisFIRST"
        while any(word.encode() in text for text in (head.system, *head.tools, *head.skills)):
            word += "T"
        data = self._first(head, word).data
        return data[: data.index(word.encode())]

    def _with_riders(self, riders: Sequence[Note | ToolsAdded], *texts: bytes) -> str:
        spoken = [
            text_of(rider.text) if isinstance(rider, Note) else self.dialect.added_tools_text(rider.tools)
            for rider in riders
        ]
        return "\n\n".join([*spoken, *map(text_of, texts)])

    def _first(self, head: Head, text: str) -> Delta:
        messages, tools = self.dialect.first_messages(head, text)
        plain = self._render(messages, tools)
        missing = [tool["function"]["name"] for tool in tools if tool["function"]["name"] not in plain]
        if missing:
            raise UnsupportedTemplate(
                f"the chat template leaves out the tools {missing}.", remedy="Use another template for this model."
            )
        marks = Marks(plain, [message["content"] for message in messages])
        marked = self._render([marks.message(message) for message in messages], [marks.tool(tool) for tool in tools])
        return Delta(plain.encode(), marks.ranges(marked))

    def _after(self, base: Sequence[Message], cut: Cut, new: Sequence[Message]) -> Delta:
        _, plain = cut.split(self._render([*base, *new]))
        marks = Marks(plain, [message["content"] for message in new])
        _, marked = cut.split(self._render([*base, *map(marks.message, new)]))
        return Delta(plain.encode(), marks.ranges(marked))

    def _render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str:
        return self.dialect.template.render(messages, tools=tools, generation_prompt=True)

    def _result_base(self, last: Node, event: ToolResults) -> tuple[list[Message], Cut]:
        form = self.dialect.certificate.calls
        if form is None or not form.has_role:
            return text_base(), AFTER_TEXT
        calls = [(result.call_id, result.name) for result in event.results]
        return form.messages(calls, _answered_before(last) if form.is_counted else ()), form.cut


def _last_sent(tip: Node) -> tuple[Node, list[Note | ToolsAdded]]:
    """Return the last node that spoke, and the notes and added tools that no turn has carried yet.

    Some may stand before a reply: they came while the model was answering.
    """
    riders: list[Note | ToolsAdded] = []
    node: Node | None = tip
    while node is not None and isinstance(node.event, Note | ToolsAdded | Reply):
        riders += [node.event] if not isinstance(node.event, Reply) else []
        node = node.parent
    return last_sent(tip), riders[::-1]


def _answered_before(last: Node) -> list[int]:
    """Return how many calls each event of results of this epoch answered. O(events)."""
    counts: list[int] = []
    node: Node | None = last
    while node is not None and not isinstance(node.event, Head | Compaction):
        counts += [len(node.event.results)] if isinstance(node.event, ToolResults) else []
        node = node.parent
    return counts[::-1]


def _head_of(tip: Node) -> Head:
    """Return the head a new epoch opens with: the first one, and the tools that arrived since. O(events)."""
    added: list[bytes] = []
    node: Node | None = tip
    while node is not None and not isinstance(node.event, Head):
        if isinstance(node.event, ToolsAdded):
            added = [*node.event.tools, *added]
        node = node.parent
    if node is None or not isinstance(node.event, Head):
        raise ValueError("a conversation starts with its head")
    head = node.event
    return Head(head.epoch, head.system, (*head.tools, *added), head.skills)
