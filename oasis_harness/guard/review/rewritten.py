"""What a request that rewrote its past costs: it and the one before, rendered in a dialect, up to the first difference.

    before   {"role": "assistant", "content": "4", "reasoning_content": "2 + 2"}
    after    {"role": "assistant", "content": "4"}

    in a dialect that prints reasoning       byte 61 of the prompt moved, token 20 of 31: 11 are lost.
    that drops it behind the next question   no byte of the prompt moves in qwen3, which prints reasoning.
    that prints none                         not known: chatml prints no reasoning, where …

That nothing moves is said only of bytes that were compared, in a dialect that prints such a thing: another dialect
would lose the cache there. Arguments of a call are rendered parsed, as servers mostly do, and where that shows nothing,
as they were sent.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.errors import RenderError
from oasis_harness.render import Chat, chat_bytes
from oasis_harness.sequences import common_prefix, first_difference

from ..requests import Body
from ..targets import Spoken, chat_of

__all__ = ["Loss", "loss_of"]

_PROBE = "oasisPROBE4c1d"
_FORMS = "difference between null, text and parts"
_KINDS = {"reasoning_content": "reasoning", "tool_calls": "calls", "content": "text"}


@dataclass(frozen=True, slots=True)
class Loss:
    """Where two prompts part."""

    n_bytes: int | None
    """Offset of the first byte that differs; None where the new prompt extends the old."""
    n_tokens: int | None = None
    """Offset of the first token that does; None where tokens are not counted."""
    n_lost: int | None = None
    """Tokens of the old prompt from there on: what was read of them is lost."""
    dialect: str = ""
    printed: tuple[str, ...] = ()
    """What was changed without moving a byte although the dialect prints such: reasoning of an earlier turn."""
    unseen: tuple[str, ...] = ()
    """What was changed and the dialect never prints: no byte that moves, and no proof that none does."""
    is_as_sent: bool = False
    """It shows only where arguments are printed as they were sent, not parsed."""

    def __str__(self) -> str:
        if self.n_bytes is None:
            return self._told_of_nothing()
        if self.n_tokens is None or self.n_lost is None:
            return f"byte {self.n_bytes:,} of the prompt moved."
        token = f"token {self.n_tokens:,} of {self.n_tokens + self.n_lost:,}"
        return f"byte {self.n_bytes:,} of the prompt moved, {token}: {self.n_lost:,} are lost."

    @property
    def remark(self) -> str:
        """What has to be known beside; empty where nothing has."""
        return "where a server prints arguments as they were sent; parsed, none moves" if self.is_as_sent else ""

    def _told_of_nothing(self) -> str:
        if self.unseen:
            where = f"{self.dialect} prints no {' and no '.join(self.unseen)}, where the requests differ"
            return f"not known: {where}. Compare in the model's own dialect: `oasis dialect add MODEL`."
        which = f", which prints {' and '.join(self.printed)}" if self.printed else ""
        return f"no byte of the prompt moves in {self.dialect}{which}."


def loss_of(before: Body, after: Body, spoken: Spoken) -> Loss:
    """Render both requests and find the first byte and token that differ.

    Raises:
        TemplateFailed: The template refuses one of them.
        TypeError: A body has no messages.
    """
    old, new = chat_of(before), chat_of(after)
    lost = _parted(old, new, spoken)
    if lost.n_bytes is not None:
        return lost
    changed = list(dict.fromkeys(_changed(old, new)))
    if not changed and (as_sent := _as_sent(before, after, spoken)) is not None:
        return as_sent
    if _forms(before) != _forms(after)[: len(_forms(before))]:
        return replace(lost, unseen=(_FORMS,))
    seen = [_is_printed(old, new, path, spoken) for path in changed]
    kinds = [_kind(path) for path in changed]
    return replace(
        lost,
        printed=tuple(dict.fromkeys(kind for kind, is_seen in zip(kinds, seen, strict=True) if is_seen)),
        unseen=tuple(dict.fromkeys(kind for kind, is_seen in zip(kinds, seen, strict=True) if not is_seen)),
    )


def _parted(old: Chat, new: Chat, spoken: Spoken) -> Loss:
    texts = [chat_bytes(chat, spoken.dialect) for chat in (old, new)]
    at = first_difference(*texts)
    if at == len(texts[0]):
        return Loss(None, dialect=spoken.name)
    if spoken.tokenizer is None:
        return Loss(at, dialect=spoken.name)
    a, b = (spoken.tokenizer.encode(text) for text in texts)
    n_same = common_prefix(a, b)
    return Loss(at, n_same, len(a) - n_same, dialect=spoken.name)


def _as_sent(before: Body, after: Body, spoken: Spoken) -> Loss | None:
    """Return where the prompts part that hold arguments as their JSON text; None where they do not, or cannot."""
    try:
        lost = _parted(chat_of(before, parses=False), chat_of(after, parses=False), spoken)
    except RenderError:  # a template that goes through the arguments has them parsed everywhere
        return None
    return replace(lost, is_as_sent=True) if lost.n_bytes is not None else None


Path = tuple[str | int, ...]


def _changed(old: Chat, new: Chat) -> Iterator[Path]:
    """Return the places at which `new` does not say what `old` did; what it adds behind is none."""
    if old.tools != new.tools:
        yield ("tools",)
    for index, message in enumerate(old.messages):
        other: Mapping[str, Any] = new.messages[index] if index < len(new.messages) else {}
        for key in dict.fromkeys([*message, *other]):
            if json.dumps(message.get(key)) != json.dumps(other.get(key)):
                yield ("messages", index, key)


def _forms(body: Body) -> list[type]:
    """Return how each content is given: some servers write a null out, or the list that parts are."""
    fields: Any = body if isinstance(body, Mapping) else json.loads(body)
    return [type(message.get("content")) for message in fields["messages"]]


def _kind(path: Path) -> str:
    return _KINDS.get(str(path[-1]), str(path[-1]))


def _is_printed(old: Chat, new: Chat, path: Path, spoken: Spoken) -> bool:
    """Say whether the dialect prints such a thing: there, or of reasoning in a reply that is still under way."""
    if path[0] == "tools":
        return True  # what a template does not print of tools is listed in the system text
    if _kind(path) == "reasoning" and spoken.dialect.certificate.reasoning_form is not None:
        return True
    chat = old if path[1] < len(old.messages) else new  # type: ignore[operator]  # a place in a message has its index
    return _moves(chat, path, spoken)


def _moves(chat: Chat, path: Path, spoken: Spoken) -> bool:
    messages = [dict(message) for message in chat.messages]
    index, key = int(path[1]), str(path[2])
    held = messages[index].get(key)
    messages[index][key] = _probed(held) if held is not None else _PROBE
    try:
        return chat_bytes(chat, spoken.dialect) != chat_bytes(replace(chat, messages=tuple(messages)), spoken.dialect)
    except (RenderError, TypeError, KeyError, AttributeError):
        return False


def _probed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _probed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_probed(item) for item in value]
    return _PROBE if not isinstance(value, str) else value + _PROBE
