"""The bytes an event adds, found by the sentinel cut.

Render `[user, L] + new` with the generation prompt, where L says one unique word, and keep what follows L's own text:
the closer of the last reply as history wants it, the new messages, and the opener of the next reply. The cost is that
of the new messages, whatever the length of the conversation and of what the model said.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

from oasis_harness.certify import AFTER_TEXT, SENTINEL, Cut, Disguise, after_past, text_base, with_sentinel
from oasis_harness.conversation import (
    Compaction,
    Event,
    Head,
    Node,
    Note,
    ReasoningDropped,
    Reply,
    ToolResults,
    ToolsAdded,
    User,
    last_sent,
)
from oasis_harness.errors import UnsupportedTemplate
from oasis_harness.templates import Message, text_of

from .dialect import Dialect
from .owned_text import OwnedText, joined, named
from .spans import Span, framed, tiled
from .trace import Traced, trace

__all__ = ["Delta", "Renderer"]


class _Owners(NamedTuple):
    spans: tuple[Span, ...] = ()
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Delta:
    """What an event adds to the prompt."""

    data: bytes
    authored: tuple[tuple[int, int], ...] = ()
    """Byte ranges of `data`, in order, that a person, a tool or the harness wrote; the rest is template scaffold."""
    _owners: Callable[[], _Owners] = field(default=_Owners, repr=False, compare=False)
    """Looked for when first asked for: most deltas are sent, and few are explained."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """Whose each byte of `data` is, in order, without gap or overlap.

        Not a part of equality: two deltas that say the same are equal, whichever event says it.
        """
        return self._owners().spans

    @property
    def share_of_authored(self) -> float:
        """Fraction of the bytes of contents, descriptions and names that have a span of their own."""
        return self._owners().share


class Renderer:
    """Renders one conversation's events in one dialect.

    A delta depends on the tip and the event alone; the last one is remembered, since its reply is read by its opener.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._last: tuple[Node | None, Event, Delta] | None = None
        self._sentinel: str = Disguise(dialect.template).hide(SENTINEL)
        self._openers = lru_cache(maxsize=4)(self._opener)

    def extend(self, tip: Node | None, event: Event) -> Delta:
        """Return the bytes that `event` adds after `tip`.

        Heads, notes and added tools add none of their own: the next turn carries them.

        Raises:
            TemplateFailed: The template refuses these messages.
            UnsupportedTemplate: It changes what it is given so that the text cannot be told from scaffold.
        """
        delta = self._extend(tip, event, closes=True)
        self._last = tip, event, delta
        return delta

    def opener(self, node: Node) -> bytes:
        """Return the scaffold that the bytes of `node` end with, which opens the reply: nothing that anybody typed."""
        return self._openers(node)

    def _opener(self, node: Node) -> bytes:
        known = self._last
        if known is not None and known[0] == node.parent and known[1] is node.event:
            delta = known[2]
        else:
            delta = self._extend(node.parent, node.event, closes=False)  # or one would ask for all before it
        opener = delta.data[max((end for _, end in delta.authored), default=0) :]
        if opener and node.sent.endswith(delta.data):
            return opener
        certified = self.dialect.certificate.generation_prompt.encode()
        return certified if node.sent.endswith(certified) else b""

    def _extend(self, tip: Node | None, event: Event, *, closes: bool) -> Delta:
        if isinstance(event, Head | Note | ToolsAdded):
            return Delta(b"")
        if tip is None or not isinstance(event, User | ToolResults | Compaction):
            raise ValueError(
                f"a {event.kind} event is not rendered here: its bytes are what was sampled or sent before"
            )
        last, riders = _last_sent(tip)
        index = tip.index + 1
        if isinstance(event, Compaction):
            notes = [rider for rider in riders if isinstance(rider.event, Note)]
            summary = named(f"event {index} summary", text_of(event.summary))
            return self._first(_head_of(tip), self._with_riders(notes, summary))
        if isinstance(event, ToolResults):
            if not event.results:
                raise ValueError("there are no results to render")
            new = self.dialect.result_messages(event, self._with_riders(riders), index=index)
            base, cut = self._result_base(last, event)
            return self._after(last, base, cut, new, closes=closes)
        text = self._with_riders(riders, named(f"event {index} text", text_of(event.text)))
        if isinstance(last.event, Head):
            return self._first(last.event, text)
        new = [{"role": "user", "content": text}]
        return self._after(last, self._text_base(last), AFTER_TEXT, new, closes=closes)

    def head(self, head: Head) -> bytes:
        """Return the bytes of the first prompt up to the first user's own words, whatever they will be."""
        word = "oasisFIRST"
        while any(word.encode() in text for text in (head.system, *head.tools, *head.skills)):
            word += "T"
        data = self._first(head, word).data
        return data[: data.index(word.encode())]

    def _with_riders(self, riders: Sequence[Node], *texts: str) -> OwnedText:
        return joined("\n\n", [*map(self._spoken, riders), *texts])

    def _spoken(self, rider: Node) -> OwnedText:
        if isinstance(rider.event, ToolsAdded):
            return self.dialect.added_tools_text(rider.event.tools, index=rider.index)
        assert isinstance(rider.event, Note), "nothing else rides"
        return named(f"event {rider.index} note", text_of(rider.event.text))

    def _first(self, head: Head, text: str) -> Delta:
        messages, tools = self.dialect.first_messages(head, text)
        plain = self._render(messages, tools)
        missing = [tool["function"]["name"] for tool in tools if tool["function"]["name"] not in plain]
        if missing:
            raise UnsupportedTemplate(
                f"the chat template leaves out the tools {missing}.", remedy="Use another template for this model."
            )
        return self._delta(plain, trace(plain, self._render, messages, tools))

    def _closing(self, last: Node) -> str:
        """Return what closes reasoning or a call that the last reply left open."""
        if not isinstance(last.event, Reply) or last.parent is None:
            return ""
        return self.dialect.closing(last.event.data, opener=self.opener(last_sent(last.parent))).decode()

    def _base_tools(self, last: Node) -> list[dict[str, Any]]:
        """Return the tools a base is given, where the template writes messages otherwise without them."""
        certificate = self.dialect.certificate
        if not certificate.needs_tools or certificate.calls is None:
            return []
        return [json.loads(tool) for tool in _head_of(last).tools]

    def _past(self, last: Node) -> list[int]:
        """Return the shape of the epoch before `last`, as `base.past` wants it: the calls of each earlier reply.

        A reply without calls was an answer, after which a user message came; results may travel as one. O(events).
        """
        form = self.dialect.certificate.calls
        has_role = form is not None and form.has_role
        counts: list[int] = []
        node: Node | None = last
        while node is not None and not isinstance(node.event, Head | Compaction):
            if isinstance(node.event, ToolResults):
                counts.append(len(node.event.results) if has_role else 0)
            elif isinstance(node.event, User):
                counts.append(0)
            node = node.parent
        is_first = node is None or isinstance(node.event, Head)
        return counts[-2::-1] if is_first else counts[::-1]  # the first user turn ended no answer

    def _after(self, last: Node, base: Sequence[Message], cut: Cut, new: Sequence[Message], *, closes: bool) -> Delta:
        closing, given = self._closing(last) if closes else "", self._base_tools(last)
        hidden = with_sentinel(base, self._sentinel)

        def render(messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str:
            text = self._render([*hidden, *messages], tools or given)
            return closing + cut.split(text.replace(self._sentinel, SENTINEL, 1))[1]

        plain = render(new)
        closers = (self.dialect.certificate.closer, cut.closer)
        return self._delta(plain, trace(plain, render, new), *closers, closing=closing)

    def _delta(self, plain: str, traced: Traced, *closers: str, closing: str = "") -> Delta:
        data, opener = plain.encode(), self.dialect.certificate.generation_prompt.encode()

        @cache
        def owners() -> _Owners:
            found, share = traced.owned()
            ends = framed(
                found, data, closers=[one.encode() for one in closers if one], opener=opener, closing=closing.encode()
            )
            return _Owners(tiled(ends, len(data)), share)

        return Delta(data, traced.authored, owners)

    def _render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str:
        return self.dialect.template.render(messages, tools=tools, generation_prompt=True)

    def _text_base(self, last: Node) -> list[Message]:
        return after_past(text_base(), self._past(last)) if self.dialect.certificate.counts_turns else text_base()

    def _result_base(self, last: Node, event: ToolResults) -> tuple[list[Message], Cut]:
        form = self.dialect.certificate.calls
        if form is None or not form.has_role:
            return self._text_base(last), AFTER_TEXT
        calls = [(result.call_id, result.name) for result in event.results]
        return form.messages(calls, self._past(last) if form.is_counted else ()), form.cut


def _last_sent(tip: Node) -> tuple[Node, list[Node]]:
    """Return the last node that spoke, and those of notes and added tools that no turn has carried yet.

    Some may stand before a reply: they came while the model was answering.
    """
    riders: list[Node] = []
    node: Node | None = tip
    while node is not None and isinstance(node.event, Note | ToolsAdded | Reply | ReasoningDropped):
        riders += [node] if isinstance(node.event, Note | ToolsAdded) else []
        node = node.parent
    return last_sent(tip), riders[::-1]


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
