"""How a template writes calls and their results, found by trying it. Part of the certificate."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.errors import TemplateFailed

from .base import AFTER_TEXT, SENTINEL, Base, Cut, call_base, result_message, text_base, unsupported
from .parse import CallSyntax, GivenIds
from .provenance import is_verbatim
from .template import Message, Template

__all__ = ["CallForm", "certify_calls"]

_ID, _NAME = "oasis0000", "oasis_probe"
_RESULT, _OTHER = "oasisRESULT81e4 \"a\" 'b' <i>&amp;</i> \\n {{ x }} é\n\n  two", "oasisOTHER7b2d"


@dataclass(frozen=True, slots=True)
class CallForm:
    """How calls and their results are written."""

    base: Base = Base.TEXT
    """What results are rendered after."""
    cut: Cut = AFTER_TEXT
    """Where a call of the base ends."""
    has_role: bool = False
    """Prints messages of role `tool`."""
    is_json: bool = False
    """Writes a call as `{"name": …, "arguments": …}` between the marks of its syntax."""
    is_parallel: bool = True
    """Prints every call of a message, and every result."""
    is_counted: bool = False
    """Numbers calls over the whole conversation, so the base must hold as many."""
    arguments_as_text: bool = False
    """Wants a call's arguments as a JSON string rather than an object."""
    given_ids: GivenIds = GivenIds.NONE
    """Which ids of the model's own it prints with their results."""

    def messages(self, calls: Sequence[tuple[str, str]], earlier: Sequence[int] = ()) -> list[Message]:
        """Return what must stand before the results of `calls` (id, name)."""
        if self.base is Base.TEXT:
            return text_base()
        some = calls if self.is_parallel else calls[-1:]
        return call_base(some, as_text=self.arguments_as_text, earlier=earlier if self.is_counted else ())


def certify_calls(template: Template, syntax: CallSyntax, closer: str, stops: Sequence[str]) -> CallForm:
    """Return how `template` writes calls, whose own syntax is `syntax`, and results.

    `closer` is what ends an answer; `stops` are the texts of the model's stop tokens.

    Raises:
        UnsupportedTemplate: It writes them in a way no delta can follow.
    """
    for as_text in (False, True):
        form = CallForm(Base.CALL, arguments_as_text=as_text, has_role=True)
        text = _answered(template, form)
        if text is not None and SENTINEL in text and "oasisRESULT" in text:
            return _certified(template, form, text, syntax, closer, stops)
    form = CallForm(is_json=_reads_json(syntax))
    text = _answered(template, form)
    if text is None or "oasisRESULT" not in text:
        return form
    _require_verbatim(text)
    form = replace(form, has_role=True)
    return replace(form, given_ids=_given_ids(template, form))


def _certified(
    template: Template, form: CallForm, text: str, syntax: CallSyntax, closer: str, stops: Sequence[str]
) -> CallForm:
    if text.count(SENTINEL) != 1:
        raise unsupported("it prints a call more than once")
    _require_verbatim(text)
    form = replace(form, cut=_cut(text, syntax, closer, stops), is_json=_is_json(text, syntax))
    _require_independence(template, form, text)
    form = replace(form, is_parallel=_is_parallel(template, form))
    return replace(form, is_counted=_is_counted(template, form), given_ids=_given_ids(template, form))


def _cut(text: str, syntax: CallSyntax, closer: str, stops: Sequence[str]) -> Cut:
    """Return where the call ends: at the first stop token, else after its own last mark, else where an answer would."""
    written = text.partition(SENTINEL)[2].partition("oasisRESULT")[0]
    found = [stop for stop in stops if stop and stop in written]
    if found:
        return Cut(closer=min(found, key=written.index))
    if syntax.closer and syntax.closer in written:
        return Cut(end=syntax.closer)
    if closer and closer in written:
        return Cut(closer=closer)
    raise unsupported("where a call ends in its history cannot be told")


def _require_independence(template: Template, form: CallForm, answered: str) -> None:
    """Refuse a template that writes a call otherwise once it is answered: its bytes were sampled before that."""
    own, delta = form.cut.split(answered)
    alone = _try(template, form.messages([(_ID, _NAME)]), generation_prompt=False)
    if alone is not None and not alone.partition(SENTINEL)[2].startswith(own):
        raise unsupported("what it writes for a call depends on whether a result follows")
    later = _answered(template, form, before=text_base(said="One."))
    if later is not None and form.cut.split(later)[1] != delta:
        raise unsupported("what it writes for a result depends on the turns before")


def _require_verbatim(text: str) -> None:
    if not is_verbatim(_RESULT, text):
        raise unsupported("it changes the text of a result")


def _is_json(text: str, syntax: CallSyntax) -> bool:
    if not syntax.opener or not syntax.closer:
        return False
    before, _, after = text.partition(SENTINEL)
    inside = before.rpartition(syntax.opener)[2] + SENTINEL + after.partition(syntax.closer)[0]
    return _is_call(inside, json.loads)


def _reads_json(syntax: CallSyntax) -> bool:
    """Say whether calls are JSON where the template never shows one: if the syntax's own parser takes it."""
    return _is_call(json.dumps({"name": _NAME, "arguments": {"oasis": ""}}), lambda text: syntax.parse(text, []))


def _is_call(text: str, parse: Any) -> bool:
    try:
        call = parse(text)
    except Exception:  # noqa: BLE001 - the parser is foreign code
        return False
    return isinstance(call, dict) and call.get("name") == _NAME and isinstance(call.get("arguments"), dict)


def _is_parallel(template: Template, form: CallForm) -> bool:
    results = [result_message("oasis0001", "oasis_other", _OTHER), result_message(_ID, _NAME, _RESULT)]
    text = _try(template, [*form.messages([("oasis0001", "oasis_other"), (_ID, _NAME)]), *results])
    return text is not None and text.count(SENTINEL) == 1 and _OTHER in text and "oasisRESULT" in text


def _is_counted(template: Template, form: CallForm) -> bool:
    """Say whether every earlier call changes the delta; a change only once is the template's own slip."""
    counted = replace(form, is_counted=True)
    texts = [_answered(template, counted, earlier=[1] * n) for n in range(3)]
    deltas = {form.cut.split(text)[1] for text in texts if text is not None and SENTINEL in text}
    return len(deltas) == 3


def _given_ids(template: Template, form: CallForm) -> GivenIds:
    for kind, call_id in ((GivenIds.ANY, "functions.oasis:7"), (GivenIds.NINE, "oasisID07")):
        text = _answered(template, form, call_id=call_id)
        if text is not None and call_id in form.cut.split(text)[1]:
            return kind
    return GivenIds.NONE


def _answered(
    template: Template,
    form: CallForm,
    *,
    call_id: str = _ID,
    earlier: Sequence[int] = (),
    before: Sequence[Message] = (),
) -> str | None:
    """Return the render of one call and its result, or None where the template refuses it."""
    base = form.messages([(call_id, _NAME)], earlier)
    return _try(template, [*before, *base, result_message(call_id, _NAME, _RESULT)])


def _try(template: Template, messages: Sequence[Message], *, generation_prompt: bool = True) -> str | None:
    try:
        return template.render(messages, generation_prompt=generation_prompt)
    except TemplateFailed:
        return None
