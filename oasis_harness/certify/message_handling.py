"""Small facts about a template, each found by one or two renders: roles, white space, missing content, arguments."""

import json
from collections.abc import Mapping, Sequence

from oasis_harness.templates import Message, Template

from .call_form import CallForm
from .certificate import Arguments, Handling, NoneContent
from .sentinels import SENTINEL, message, result_message, text_base, tried

__all__ = ["arguments_printed", "none_content", "prints_python", "roles", "trimmed_roles"]

_WORD = "oasisWORD1c9e"
_CALL = ("oasis0000", "oasis_probe")
_ARGUMENTS: dict[str, object] = {"oasis": SENTINEL, "limit": 3}


def roles(template: Template, form: CallForm | None, *, has_system: bool) -> Mapping[str, Handling]:
    """Return what becomes of messages that not every template expects in mid-conversation."""
    head = [message("system", "dummy")] if has_system else []
    opened = [*head, *text_base()]
    found = {
        "system": _handling(template, [*opened, message("system", _WORD)]),
        "developer": _handling(template, [*opened, message("developer", _WORD)]),
        "user after user": _handling(template, [*head, message("user", SENTINEL), message("user", _WORD)]),
    }
    if form is not None and form.has_role:
        answered = [*head, *form.messages([_CALL]), result_message(*_CALL, "dummy")]
        found["user after result"] = _handling(template, [*answered, message("user", _WORD)])
    return found


def trimmed_roles(template: Template, form: CallForm | None, *, has_system: bool) -> tuple[str, ...]:
    """Return the roles whose text loses its outer white space."""
    spaced = f"  {_WORD}  \n"
    user = message("user", "dummy")
    tries = {
        "system": [message("system", spaced), user],
        "user": [message("user", spaced)],
        "assistant": [user, message("assistant", spaced), user],
    }
    if not has_system:
        del tries["system"]
    if form is not None and form.has_role:
        tries["tool"] = [*form.messages([_CALL]), result_message(*_CALL, spaced)]
    return tuple(role for role, messages in tries.items() if _is_trimmed(tried(template, messages), spaced))


def none_content(template: Template, form: CallForm | None) -> NoneContent:
    """Return what becomes of an assistant message without content, beside a call where there are calls."""
    empty = form.messages([_CALL]) if form is not None and form.writes_calls else text_base(said="")
    texts = [
        tried(template, [*empty[:-1], {**empty[-1], "content": content}, message("user", "dummy")])
        for content in ("", None)
    ]
    if form is not None and form.writes_calls and texts[1] is None:  # it may be the user turn that is refused
        texts = [tried(template, [*empty[:-1], {**empty[-1], "content": content}]) for content in ("", None)]
    if texts[1] is None:
        return NoneContent.REFUSED
    if texts[0] == texts[1]:
        return NoneContent.EMPTY
    grown = len(texts[1]) - len(texts[0] or "")
    return NoneContent.WORD if "None" in texts[1] and grown <= len("None") + 2 else NoneContent.OTHER


def arguments_printed(template: Template, *, as_text: bool) -> Arguments:
    """Return how arguments are printed that are given as an object, or as JSON text."""
    text = _called(template, json.dumps(_ARGUMENTS) if as_text else _ARGUMENTS)
    if text is None:
        return Arguments.REFUSED
    if SENTINEL not in text:
        return Arguments.LOST
    if any(quote(json.dumps(_ARGUMENTS)) in text for quote in (json.dumps, repr)):
        return Arguments.DOUBLE
    if str(_ARGUMENTS) in text:
        return Arguments.PYTHON
    # Spacing is the template's; the quotes and the order are JSON's.
    squeezed = "".join(text.split())
    return Arguments.JSON if json.dumps(_ARGUMENTS, separators=(",", ":"))[1:-1] in squeezed else Arguments.OWN


def prints_python(template: Template) -> bool:
    """Say whether a call's booleans or null are printed as Python's words."""
    text = _called(template, {"oasis": SENTINEL, "flag": False, "none": None}) or ""
    after = text.partition(SENTINEL)[2]
    return "False" in after or "None" in after


def _called(template: Template, arguments: object) -> str | None:
    function = {"name": "oasis_probe", "arguments": arguments}
    call = {"id": "oasis0000", "type": "function", "function": function}
    reply = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = result_message("oasis0000", "oasis_probe", "dummy")
    texts = [
        tried(template, [message("user", "dummy"), reply, *after], generation_prompt=bool(after))
        for after in ([result], [])
    ]
    return next((text for text in texts if text is not None), None)


def _handling(template: Template, messages: Sequence[Message]) -> Handling:
    """Return what becomes of the last message, which says the word, after one that says the sentinel."""
    text = tried(template, messages)
    if text is None:
        return Handling.REFUSED
    if _WORD not in text:
        return Handling.DROPPED
    return Handling.MOVED if text.find(_WORD) < text.find(SENTINEL) else Handling.IN_PLACE


def _is_trimmed(text: str | None, spaced: str) -> bool:
    forms = (spaced, json.dumps(spaced)[1:-1], repr(spaced)[1:-1])
    return text is not None and _WORD in text and not any(form in text for form in forms)
