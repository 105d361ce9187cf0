"""What stands before new messages so that a template writes them as history wants it, and where to cut.

A base is `[user, reply]`, where the reply says one unique word, the sentinel: as its text, or as the only argument of
the call that is answered. What the template writes after that word is first the end of the model's own bytes (after
a call: quotes, braces and the call's last mark), then the delta.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oasis_harness.errors import TemplateFailed, UnsupportedTemplate
from oasis_harness.templates import Message, Template

__all__ = [
    "AFTER_TEXT",
    "SENTINEL",
    "Base",
    "Cut",
    "DeltaBase",
    "after_past",
    "call_base",
    "message",
    "plain_name",
    "result_message",
    "text_base",
    "tried",
    "unsupported",
    "with_sentinel",
]

SENTINEL = "oasisSENTINEL0f9d1b"
"""Stands for what the model said. Letters and digits: no template escapes it."""


class Base(StrEnum):
    """What is put before results."""

    TEXT = "text"
    """Any answer."""
    CALL = "call"
    """Calls of the same names and ids."""


class DeltaBase(StrEnum):
    """What must stand before results for a template to write them as it does in the real conversation."""

    FREE = "free"
    """Any answer."""
    ANY_CALL = "any-call"
    """Some call."""
    SAME_CALL = "same-call"
    """A call of the same name and id."""
    COUNTER = "counter"
    """As many calls as were made before."""
    NONE = "none"
    """Nothing small: the shape of the whole conversation."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where, after the sentinel, the model's own bytes end and a delta begins; right there if neither is set."""

    end: str = ""
    """A mark that is the model's own: the delta begins after it."""
    closer: str = ""
    """A mark that is the template's: the delta begins with it."""

    def split(self, text: str) -> tuple[str, str]:
        """Return (the model's own bytes after the sentinel, the delta).

        Raises:
            UnsupportedTemplate: The sentinel or the mark is not there.
        """
        _, sentinel, after = text.partition(SENTINEL)
        at = after.find(self.end or self.closer)
        if not sentinel or at < 0:
            raise unsupported(f"it does not write {self.end or self.closer or 'an answer'!r} where it did before")
        at += len(self.end)
        return after[:at], after[at:]

    def delta(self, text: str) -> str | None:
        """Return the delta, or None where the sentinel or the mark is not there."""
        try:
            return self.split(text)[1]
        except UnsupportedTemplate:
            return None


def with_sentinel(base: Any, word: str) -> Any:
    """Return the messages of a base with `word` in place of the sentinel."""
    if isinstance(base, str):
        return base.replace(SENTINEL, word)
    if isinstance(base, dict):
        return {key: with_sentinel(value, word) for key, value in base.items()}
    return [with_sentinel(item, word) for item in base] if isinstance(base, list | tuple) else base


AFTER_TEXT = Cut()
"""The cut of an answer: everything after the sentinel is the delta."""


def text_base(*, user: str = "dummy", said: str = SENTINEL) -> list[Message]:
    """Return a user turn and its answer."""
    return [message("user", user), message("assistant", said)]


def call_base(
    calls: Sequence[tuple[str, str]], *, first: str = "dummy", said: str = SENTINEL, as_text: bool = False
) -> list[Message]:
    """Return a user turn and a reply that made `calls` (id, name), with `said` in the last one's argument.

    `first` is the argument of those before it.
    """
    return [text_base()[0], _calls(calls, said, as_text, first)]


def past(earlier: Sequence[int], *, as_text: bool = False) -> list[Message]:
    """Return the shape of a past, in dummy words, up to the user turn that a base begins with.

    `earlier` has the number of calls of each reply, oldest first; a reply without calls was an answer, and a user turn
    followed. For templates that count.
    """
    messages: list[Message] = []
    for number, n_calls in enumerate(earlier):
        messages += [] if messages and messages[-1]["role"] == "tool" else [text_base()[0]]
        if n_calls == 0:
            messages.append(text_base(said="dummy")[1])
            continue
        made = [(f"e{number % 10000:04d}{one % 10000:04d}", "earlier") for one in range(n_calls)]
        messages += [_calls(made, "dummy", as_text), *(result_message(*call, "dummy") for call in made)]
    return messages


def after_past(base: Sequence[Message], earlier: Sequence[int], *, as_text: bool = False) -> list[Message]:
    """Return `base` with a past of that shape before it."""
    before = past(earlier, as_text=as_text)
    goes_on = bool(before) and before[-1]["role"] == "tool"  # the base's own user turn is the one before the results
    return [*before, *base[1 if goes_on else 0 :]]


def result_message(call_id: str, name: str, content: str) -> Message:
    """Return the message that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "name": plain_name(name), "content": content}


def message(role: str, content: str) -> Message:
    """Return a message of plain text."""
    return {"role": role, "content": content}


def plain_name(name: str) -> str:
    """Return `name` if a template may print it as scaffold: what a model calls a tool is its own free text."""
    return name if re.fullmatch(r"[\w.:/-]{1,100}", name) else "unknown"


def tried(
    template: Template,
    messages: Sequence[Message],
    *,
    tools: Sequence[dict[str, Any]] = (),
    generation_prompt: bool = True,
) -> str | None:
    """Return what `template` makes of `messages`, or None where it refuses them."""
    try:
        return template.render(messages, tools=tools, generation_prompt=generation_prompt)
    except TemplateFailed:
        return None


def unsupported(reason: str) -> UnsupportedTemplate:
    """Return the error that says why a template cannot be used."""
    return UnsupportedTemplate(
        f"this chat template cannot be driven append-only: {reason}.",
        remedy="Use another model, or another template for it.",
        reason=reason,
    )


def _calls(calls: Sequence[tuple[str, str]], last: str, as_text: bool, first: str = "dummy") -> Message:
    arguments: list[dict[str, str]] = [{"oasis": first} for _ in calls[1:]] + [{"oasis": last}]
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": plain_name(name), "arguments": form}}
            for (call_id, name), form in zip(calls, [_form(one, as_text) for one in arguments], strict=True)
        ],
    }


def _form(arguments: dict[str, str], as_text: bool) -> Any:
    return json.dumps(arguments) if as_text else arguments
