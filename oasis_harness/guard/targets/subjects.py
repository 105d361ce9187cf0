"""What a prompt can be taken of: a session or agent, a conversation, a head or what it is made of, a request body."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from oasis_harness.canonical import canonical_json, text_bytes
from oasis_harness.conversation import Conversation, Epoch, Head, Opening, Reply
from oasis_harness.errors import BadDialect
from oasis_harness.registry import Skills, Tools, frozen_tools
from oasis_harness.render import Chat, Renderer, sources_of

from .bodies import chat_of, tool_objects
from .dialects import Spoken

__all__ = ["Subject"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A prompt before a dialect is chosen for it."""

    spoken: Callable[[Spoken], Conversation | Head | Chat]
    """Returns it in a dialect."""
    arguments: Mapping[str, object] = field(default_factory=dict)
    """Switches the template is given."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where tools and skills were registered."""

    @classmethod
    def of(cls, given: object) -> Self:
        """Return the prompt of a session, an agent, a conversation or a head, or of a request body.

        Raises:
            TypeError: `given` is none of them.
        """
        session: Any = getattr(given, "session", given)
        at: Any = getattr(session, "conversation", session)
        if isinstance(given, Mapping):
            chat = chat_of(given)
            return cls(lambda spoken: _chat(chat, spoken))
        if not isinstance(at, Conversation | Head):
            raise TypeError(
                "a prompt is that of a session, agent, conversation or head, or of a request body, a dict with "
                f"messages; not of {given!r:.80} ({type(given).__name__})"
            )
        epoch = at.epoch
        if isinstance(at, Head):
            return cls(lambda spoken: _head(at, spoken), epoch.switches())
        tools = session.tools.values() if session is not at else ()
        return cls(lambda spoken: _in_dialect(at, spoken), epoch.switches(), sources_of(tools))

    @classmethod
    def of_head(
        cls,
        system: str,
        tools: Tools | Sequence[Mapping[str, Any]] | None,
        skills: Skills | None,
        arguments: Mapping[str, object],
    ) -> Self:
        """Return the prompt head that a session opens with; `tools` may be the list that goes to an API.

        Raises:
            TypeError: One of the parts is something else.
        """
        for what, part, kind in (("system", system, str), ("skills", skills, Skills | None)):
            if not isinstance(part, kind):
                raise TypeError(
                    f"{what} is {part!r:.80}, a {type(part).__name__}; {getattr(kind, '__name__', 'Skills')} is wanted"
                )
        ours = tools if isinstance(tools, Tools) else None
        objects = () if tools is None or ours is not None else tool_objects(tools)
        frozen = frozen_tools(ours, skills)
        schemas = (*map(canonical_json, objects), *(tool.schema for tool in frozen))
        lines = skills.lines() if skills is not None else ()
        epoch = Epoch("", canonical_json(dict(arguments)).decode(), "")

        head = Head(epoch, text_bytes(system), schemas, lines)
        return cls(lambda spoken: _head(head, spoken), arguments, sources_of(frozen, skills or ()))


def _head(head: Head, spoken: Spoken) -> Head:
    """Return the head as a session in that dialect records it."""
    if head.tools:
        spoken.require_tools()
    return replace(head, system=spoken.tokenizer.escape(head.system)) if spoken.tokenizer else head


def _chat(chat: Chat, spoken: Spoken) -> Chat:
    if chat.tools:
        spoken.require_tools()
    return chat


def _in_dialect(conversation: Conversation, spoken: Spoken) -> Conversation | Head:
    """Return the conversation as it was sent, or where that was in another dialect, as it would be sent in this one."""
    epoch, tokenizer = conversation.epoch, spoken.tokenizer
    own = spoken.dialect.epoch(tokenizer.digest if tokenizer else epoch.tokenizer)
    head = _head(conversation.head, spoken)
    if conversation.tip.n_bytes == 0:
        return head
    return conversation if own == epoch else _replayed(conversation, replace(head, epoch=own), spoken)


def _replayed(conversation: Conversation, head: Head, spoken: Spoken) -> Conversation:
    log, renderer, tokenizer = Conversation(head), Renderer(spoken.dialect), spoken.tokenizer
    for event in [node.event for node in conversation.nodes()][1:]:
        if isinstance(event, Opening):
            raise BadDialect(
                "a compacted conversation, or one that dropped reasoning, is rendered in its own dialect only.",
                remedy="Compare it in the dialect it was sent in, or compare a head.",
            )
        if isinstance(event, Reply):
            ids = tokenizer.encode(event.data) if tokenizer else ()
            log.append(replace(event, n_pending=0), event.data, ids)
        else:
            delta = renderer.extend(log.tip, event)
            log.append(event, delta.data, tokenizer.encode(delta.data, delta.authored) if tokenizer else ())
    return log
