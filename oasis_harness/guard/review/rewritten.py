"""What a request that rewrote its past costs: it and the one before, rendered in a dialect, up to the first difference.

A system text beside the messages is rendered as the first of them. Messages are rendered as they were sent; a server
that reads them otherwise (arguments parsed, a field dropped) may see less of the difference.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oasis_harness.sequences import common_prefix, first_difference

from ..requests import Body
from ..targets import Spoken

__all__ = ["Loss", "loss_of"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Where two prompts part."""

    n_bytes: int | None
    """Offset of the first byte that differs; None where the new prompt extends the old."""
    n_tokens: int | None = None
    """Offset of the first token that does; None where tokens are not counted."""
    n_lost: int | None = None
    """Tokens of the old prompt from there on: what was read of them is lost."""

    def __str__(self) -> str:
        if self.n_bytes is None:
            return "no byte of the prompt moves: the template prints nothing of it."
        if self.n_tokens is None or self.n_lost is None:
            return f"byte {self.n_bytes:,} of the prompt moved."
        token = f"token {self.n_tokens:,} of {self.n_tokens + self.n_lost:,}"
        return f"byte {self.n_bytes:,} of the prompt moved, {token}: {self.n_lost:,} are lost."


def loss_of(before: Body, after: Body, spoken: Spoken) -> Loss:
    """Render both requests and find the first byte and token that differ.

    Raises:
        TemplateFailed: The template refuses one of them.
        ValueError: A body has no messages.
    """
    old, new = _prompt(before, spoken), _prompt(after, spoken)
    at = first_difference(old, new)
    if at == len(old):
        return Loss(None)
    if spoken.tokenizer is None:
        return Loss(at)
    a, b = spoken.tokenizer.encode(old), spoken.tokenizer.encode(new)
    n_same = common_prefix(a, b)
    return Loss(at, n_same, len(a) - n_same)


def _prompt(given: Body, spoken: Spoken) -> bytes:
    body: Any = given if isinstance(given, Mapping) else json.loads(given)
    given_messages = body.get("messages") if isinstance(body, Mapping) else None
    if not isinstance(given_messages, list | tuple) or not all(isinstance(one, Mapping) for one in given_messages):
        raise ValueError(f"a body with messages is rendered, not {body!r:.60}.")
    messages = [{**message, "content": message.get("content") or ""} for message in given_messages]
    if body.get("system"):
        messages.insert(0, {"role": "system", "content": _text_of(body["system"])})
    return spoken.dialect.template.render(messages, tools=body.get("tools") or (), generation_prompt=True).encode()


def _text_of(system: Any) -> str:
    parts = [system] if isinstance(system, str) else system
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in parts)
