"""What a chat template does, found by trying it: a battery of renders of sentinel messages.

The certificate says how its deltas are found and what it cannot express. Idea: a template is foreign code whose source
tells little, while a render of a unique string tells exactly where that string goes (docs/decisions).
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oasis_harness.errors import TemplateFailed, UnsupportedTemplate

from .template import Message, Template

__all__ = ["SENTINEL", "Base", "Certificate", "call_message", "certify", "text_message"]

SENTINEL = "oasisSENTINEL0f9d1b"
"""Stands for what the model said, in the base a delta is rendered on. Letters and digits: no template escapes it."""

_USER, _RESULT, _SYSTEM = "oasisUSER5c27", "oasisRESULT81e4", "oasisSYSTEM3a60"
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "oasis_probe",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}


class Base(StrEnum):
    """What must stand before new messages so that the template writes the delta as history wants it."""

    TEXT = "text"
    """Any answer."""
    CALL = "call"
    """The same call, with the sentinel as its last argument."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a template was seen to do."""

    digest: str
    has_system: bool
    """Prints a system message."""
    has_tools: bool
    """Prints the tools it is given."""
    has_tool_role: bool
    """Prints messages of role `tool`."""
    result_base: Base
    """What tool results are rendered after."""
    arguments_as_text: bool
    """Wants a call's arguments as a JSON string rather than an object."""
    generation_prompt: str
    """What opens a reply after a user turn."""
    closer: str
    """What ends an answer in history, up to where a user turn begins its own bytes."""
    call_closer: str
    """What ends a call in history, after the call's own last mark."""
    uses_date: bool


def certify(template: Template, call_end: str = "") -> Certificate:
    """Try `template` and say how it can be driven append-only.

    `call_end` is the mark that ends a call in the model's own syntax, where it has one.

    Raises:
        UnsupportedTemplate: It cannot; the message names the first reason.
    """
    uses_date = _uses_date(template)
    if uses_date and template.date is None:
        template = template.at(datetime.date(2000, 1, 1))
    user_turn = _user_turn(template)
    closer = _common_start(_after(SENTINEL, template.render([_dummy(), text_message(SENTINEL)])), user_turn)
    has_tools = _prints(template, [_user()], _TOOL["function"]["name"], tools=[_TOOL])
    base, as_text = _result_base(template) if has_tools else (Base.TEXT, False)
    return Certificate(
        digest=template.digest,
        has_system=_prints(template, [{"role": "system", "content": _SYSTEM}, _user()], _SYSTEM),
        has_tools=has_tools,
        has_tool_role=has_tools and _prints(template, _called(base, as_text), _RESULT, tools=[_TOOL]),
        result_base=base,
        arguments_as_text=as_text,
        generation_prompt=_generation_prompt(template),
        closer=closer,
        call_closer=_call_closer(template, as_text, call_end, closer) if base is Base.CALL else closer,
        uses_date=uses_date,
    )


def text_message(content: str) -> Message:
    """Return an assistant message that answered with `content`."""
    return {"role": "assistant", "content": content}


def call_message(calls: Sequence[tuple[str, str, Any]]) -> Message:
    """Return an assistant message that made `calls`: (id, name, arguments) each."""
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }


def _user(content: str = _USER) -> Message:
    return {"role": "user", "content": content}


def _dummy() -> Message:
    return _user("dummy")


def _user_turn(template: Template) -> str:
    """Return the delta of a user turn after an answer, having proved that it can be found and depends on nothing."""
    deltas = []
    for dummy, sentinel in (("dummy", SENTINEL), ("another dummy?\n", f"Answer. {SENTINEL}")):
        try:
            text = template.render([_user(dummy), text_message(sentinel), _user()], generation_prompt=True)
        except TemplateFailed as error:
            raise _unsupported(f"it refuses a second user turn ({error.values['reason']})") from None
        if text.count(SENTINEL) != 1 or text.count(_USER) != 1:
            raise _unsupported("it does not print an answer and the next user turn once each")
        deltas.append(_after(SENTINEL, text))
    if deltas[0] != deltas[1] or _USER not in deltas[0]:
        raise _unsupported("what it writes for a user turn depends on the turns before")
    return deltas[0]


def _result_base(template: Template) -> tuple[Base, bool]:
    """Return how results follow a call: after the same call where the template prints calls, else after any text."""
    for as_text in (False, True):
        try:
            text = template.render(_called(Base.CALL, as_text)[:2], tools=[_TOOL])
        except TemplateFailed:
            continue
        if text.count(SENTINEL) == 1:
            return Base.CALL, as_text
        if SENTINEL not in text:
            return Base.TEXT, False
    return Base.TEXT, False


def _called(base: Base, as_text: bool) -> list[Message]:
    """Return a conversation in which a call was made and answered."""
    call = call_message([_probe_call(as_text)]) if base is Base.CALL else text_message(SENTINEL)
    return [_dummy(), call, {"role": "tool", "tool_call_id": "c00000000", "name": "oasis_probe", "content": _RESULT}]


def _call_closer(template: Template, as_text: bool, call_end: str, closer: str) -> str:
    """Return what the template writes after a call, having proved that a result changes nothing before it."""
    alone = _after(SENTINEL, template.render(_called(Base.CALL, as_text)[:2]))
    if call_end and call_end in alone:
        found = alone[alone.rindex(call_end) + len(call_end) :]
    elif alone.endswith(closer):
        found = closer
    else:
        raise _unsupported("where a call ends in its history cannot be told")
    try:
        answered = _after(SENTINEL, template.render(_called(Base.CALL, as_text), generation_prompt=True))
    except TemplateFailed:
        return found
    if not answered.startswith(alone.removesuffix(found)):
        raise _unsupported("what it writes for a call depends on whether a result follows")
    return found


def _probe_call(as_text: bool) -> tuple[str, str, Any]:
    return ("c00000000", "oasis_probe", '{"text": "' + SENTINEL + '"}' if as_text else {"text": SENTINEL})


def _generation_prompt(template: Template) -> str:
    opened = template.render([_user()], generation_prompt=True)
    closed = template.render([_user()])
    return opened[len(closed) :] if opened.startswith(closed) else _after(_USER, opened)


def _prints(template: Template, messages: Sequence[Message], text: str, *, tools: Sequence[Any] = ()) -> bool:
    try:
        return text in template.render(messages, tools=tools, generation_prompt=True)
    except TemplateFailed:
        return False


def _uses_date(template: Template) -> bool:
    """Say whether two days render differently; day, month, year and weekday all differ between them."""
    days = (datetime.date(2001, 2, 3), datetime.date(2014, 11, 26))
    texts = set()
    for day in days:
        try:
            texts.add(template.at(day).render([_user()], tools=[_TOOL], generation_prompt=True))
        except TemplateFailed as error:
            raise _unsupported(f"it refuses a single user turn ({error.values['reason']})") from None
    return len(texts) > 1


def _after(mark: str, text: str) -> str:
    return text[text.index(mark) + len(mark) :]


def _common_start(one: str, other: str) -> str:
    n = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:n]


def _unsupported(reason: str) -> UnsupportedTemplate:
    return UnsupportedTemplate(
        f"this chat template cannot be driven append-only: {reason}.",
        remedy="Use another model, or another template for it.",
        reason=reason,
    )
