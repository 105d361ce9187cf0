"""What a chat template does, found by trying it: a battery of renders of sentinel messages.

The certificate says how its deltas are found and what it cannot express. Idea: a template is foreign code whose source
tells little, while a render of a unique string tells exactly where that string goes (docs/decisions).
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.errors import TemplateFailed, UnsupportedTemplate

from .base import AFTER_TEXT, SENTINEL, text_base, unsupported
from .calls import CallForm, certify_calls
from .parse import JSON_CALLS, CallSyntax
from .provenance import is_verbatim
from .template import Message, Template

__all__ = ["Certificate", "certify"]

_WORD = "oasisUSER5c27"
_USER = _WORD + " \"a\" 'b' <i>&amp;</i> \\n {{ x }} é\n\n  two"
"""What a person may type; a template that changes any of it is not used."""
_SYSTEM = _USER.replace("USER", "SYSTEM")
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "oasis_probe",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"oasis": {"type": "string"}}, "required": ["oasis"]},
    },
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a template was seen to do."""

    digest: str
    has_system: bool
    """Prints a system message."""
    has_tools: bool
    """Prints the tools it is given."""
    calls: CallForm | None
    """How it writes calls and results; None where it does not, or in a syntax that nobody here can read."""
    generation_prompt: str
    """What opens a reply after a user turn."""
    closer: str
    """What ends an answer in history; empty where nothing does, or where it depends on what follows."""
    uses_date: bool
    """Asks for the date somewhere."""


def certify(template: Template, syntax: CallSyntax | None = None, *, stops: Sequence[str] = ()) -> Certificate:
    """Try `template` and say how it can be driven append-only.

    `syntax` is how the model itself writes calls, where that is known; `stops` are the texts of its stop tokens, which
    tell where a call ends when its syntax has no mark for that.

    Raises:
        UnsupportedTemplate: It cannot; the message names the first reason.
    """
    uses_date = "strftime_now" in template.source
    if uses_date and template.date is None:
        template = template.at(datetime.date(2000, 1, 1))
    generation_prompt = _generation_prompt(template)
    closer = _closer(template, _user_turn(template))
    tool_prompt = _render_or_nothing(template, [_user()], tools=[_TOOL])
    has_tools = _TOOL["function"]["name"] in tool_prompt
    return Certificate(
        digest=template.digest,
        has_system=_prints_system(template),
        has_tools=has_tools,
        calls=_calls(template, syntax, closer, stops, tool_prompt) if has_tools else None,
        generation_prompt=generation_prompt,
        closer=closer,
        uses_date=uses_date,
    )


def _user(content: str = _USER) -> Message:
    return {"role": "user", "content": content}


def _generation_prompt(template: Template) -> str:
    try:
        opened = template.render([_user()], generation_prompt=True)
    except TemplateFailed as error:
        raise unsupported(f"it refuses a single user turn ({error.values['reason']})") from None
    if not is_verbatim(_USER, opened):
        raise unsupported("it changes or drops what a user types")
    closed = _render_or_nothing(template, [_user()], generation_prompt=False)
    return opened[len(closed) :] if opened.startswith(closed) else opened.rpartition(_USER)[2]


def _user_turn(template: Template) -> str:
    """Return the delta of a user turn after an answer, having proved that it can be found and depends on nothing."""
    histories = (text_base(), [*text_base(user="another?\n", said="One."), *text_base(said=f"Two. {SENTINEL}")])
    deltas = []
    for history in histories:
        try:
            text = template.render([*history, _user()], generation_prompt=True)
        except TemplateFailed as error:
            raise unsupported(f"it refuses a second user turn ({error.values['reason']})") from None
        if text.count(SENTINEL) != 1 or text.count(_WORD) != 1:
            raise unsupported("it does not print an answer and the next user turn once each")
        deltas.append(AFTER_TEXT.split(text)[1])
    if deltas[0] != deltas[1] or _WORD not in deltas[0]:
        raise unsupported("what it writes for a user turn depends on the turns before")
    return deltas[0]


def _closer(template: Template, user_turn: str) -> str:
    alone = _render_or_nothing(template, text_base(), generation_prompt=False)
    closer = alone.partition(SENTINEL)[2]
    return closer if user_turn.startswith(closer) else ""


def _prints_system(template: Template) -> bool:
    text = _render_or_nothing(template, [{"role": "system", "content": _SYSTEM}, _user()])
    return is_verbatim(_SYSTEM, text) and is_verbatim(_USER, text)


def _calls(
    template: Template, syntax: CallSyntax | None, closer: str, stops: Sequence[str], tool_prompt: str
) -> CallForm | None:
    """Return how calls are written in the model's own syntax, or in the plain one if the template speaks of that."""
    if syntax is not None:
        return certify_calls(template, syntax, closer, stops)
    if JSON_CALLS.opener not in tool_prompt:
        return None
    try:
        form = certify_calls(template, JSON_CALLS, closer, stops)
    except UnsupportedTemplate:
        return None
    return form if form.is_json else None


def _render_or_nothing(
    template: Template, messages: Sequence[Message], *, tools: Sequence[Any] = (), generation_prompt: bool = True
) -> str:
    try:
        return template.render(messages, tools=tools, generation_prompt=generation_prompt)
    except TemplateFailed:
        return ""
