"""The facts a conversation is made of, and their JSON form.

Text is held as bytes: what a tool printed or a model sampled need not be UTF-8. In JSON it is a string when it is
strict UTF-8, else `{"base64": "..."}`. Nothing here is parsed out of a reply; a reply is its sampled bytes.
"""

import base64
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PlainValidator, TypeAdapter

from oasis_harness.canonical import canonical_json

from .epoch import Epoch

__all__ = [
    "Body",
    "Compaction",
    "Event",
    "Head",
    "Note",
    "Reply",
    "Text",
    "ToolResult",
    "ToolResults",
    "ToolsAdded",
    "User",
]


VERSION = 1
"""The form that this release writes. Each form that a release ever wrote is read, and its bytes stay as they are."""


def _to_json(value: object) -> object:
    """Return `value` as what JSON has a form for: dataclasses as objects, bytes as text."""
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if is_dataclass(value):
        return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    return value


def _text(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _from_json(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    raise ValueError('expected a string or {"base64": "..."}')


Text: TypeAlias = Annotated[bytes, PlainValidator(_from_json)]
"""Bytes that are a JSON string where they can be."""


@dataclass(frozen=True, slots=True)
class Head:
    """The prompt head: the first event, and the only one that names tools and skills up front.

    It sends no bytes of its own: many templates place tools or system text only once a user message is there, so the
    first user turn carries the head's bytes with its own.
    """

    kind: Literal["head"] = field(default="head", kw_only=True)
    epoch: Epoch
    system: Text
    tools: tuple[Text, ...] = ()
    """Canonical JSON of each tool's schema, in prompt order."""
    skills: tuple[Text, ...] = ()
    """One `name: description` line a skill."""
    version: int = VERSION
    """Of the form in which the events of this conversation are stored."""


@dataclass(frozen=True, slots=True)
class User:
    """A user turn."""

    kind: Literal["user"] = field(default="user", kw_only=True)
    text: Text


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model sampled; its ids are the node's ids."""

    kind: Literal["reply"] = field(default="reply", kw_only=True)
    data: Text
    """The raw bytes of the sampled tokens, without the stop token."""
    finish: str
    """Why sampling ended: `stop`, `length` or `cancelled`."""
    tool_choice: str
    n_pending: int
    """How many tokens at the end of what was sent and sampled the engine had not read when it stopped.

    0 after a stop token, 1 at a length limit, more when the prompt itself was cancelled half read.
    """


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call."""

    call_id: str
    name: str
    content: Text
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The results of all calls of one reply: one event, since half of the templates wrap them together."""

    kind: Literal["tool_results"] = field(default="tool_results", kw_only=True)
    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A word of the harness (a mode change, the date). It sends no bytes until the next turn carries it."""

    kind: Literal["note"] = field(default="note", kw_only=True)
    text: Text


@dataclass(frozen=True, slots=True)
class ToolsAdded:
    """Tools that arrived after the head was sent; shown with the next turn, in the head at the next epoch."""

    kind: Literal["tools_added"] = field(default="tools_added", kw_only=True)
    tools: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """The one sanctioned invalidation: everything up to `old_tip` is replaced by a summary, in a new epoch."""

    kind: Literal["compaction"] = field(default="compaction", kw_only=True)
    epoch: Epoch
    old_tip: str
    """Digest of the tip that was compacted away; it stays in the log."""
    summary: Text


@dataclass(frozen=True, slots=True)
class ReasoningDropped:
    """Opens a new epoch that says again what was said, without what the model thought. Explicit, never by itself.

    Its own bytes are the whole prompt so far: every token as it was sent or sampled, those of reasoning left out.
    """

    kind: Literal["thoughts_dropped"] = field(default="thoughts_dropped", kw_only=True)
    epoch: Epoch
    old_tip: str
    """Digest of the tip before; it stays in the log."""
    n_kept: int
    """Tokens that the old prompt and the new begin with, as far as an engine was expected to hold them."""
    n_dropped: int
    """Tokens of reasoning, with their marks, that were left out."""


Event: TypeAlias = Annotated[
    Head | User | Reply | ToolResults | Note | ToolsAdded | Compaction | ReasoningDropped, Field(discriminator="kind")
]

Opening: TypeAlias = Compaction | ReasoningDropped
"""What opens a new epoch."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a node's digest covers besides its parent: the fact, and what was really sent for it."""

    event: Event
    sent: Text
    """The bytes this event added to the prompt; for a reply, the bytes it sampled."""
    ids: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...]
    """The token ids of `sent`."""
    seam: str
    """How the ids meet those before them: `special`, canonical by construction; `plain`, kept as it is; or ``."""

    def to_json(self) -> bytes:
        """Return the canonical JSON of this body, the bytes that are hashed and stored.

        Raises:
            TypeError, ValueError: It holds a value that JSON has no form for.
        """
        event, sent = _to_json(self.event), _to_json(self.sent)
        return canonical_json({"event": event, "sent": sent, "ids": self.ids, "seam": self.seam})

    @classmethod
    def from_json(cls, data: bytes) -> "Body":
        """Read a body back, types as they were written.

        Raises:
            ValueError: It is not the JSON of a body.
        """
        return _ADAPTER.validate_json(data, strict=True)


_ADAPTER: TypeAdapter[Body] = TypeAdapter(Body)
