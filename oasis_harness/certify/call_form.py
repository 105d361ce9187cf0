"""How a template writes calls and their results, found by trying it. Part of the certificate."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.replies import CallSyntax, GivenIds
from oasis_harness.templates import Message, Template, is_verbatim

from .sentinels import (
    AFTER_TEXT,
    SENTINEL,
    Base,
    Cut,
    DeltaBase,
    after_past,
    call_base,
    result_message,
    text_base,
    tried,
    unsupported,
)

__all__ = ["CallForm", "certify_calls"]

_ID, _NAME = "oasis0000", "oasis_probe"
_RESULT = "oasisRESULT81e4 \"a\" 'b' <i>&amp;</i> \\n {{ x }} é\n\n  two"
_FIRST, _OTHER = "oasisFIRST5a60", "oasisOTHER7b2d"


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
    """Numbers calls or turns over the whole conversation, so the base must have its shape."""
    arguments_as_text: bool = False
    """Wants a call's arguments as a JSON string rather than an object."""
    given_ids: GivenIds = GivenIds.NONE
    """Which ids of the model's own it prints with their results."""

    delta_base: DeltaBase = DeltaBase.FREE
    """What must stand before results; `base` is never less than that."""
    closer: str = ""
    """What ends a call in history; empty where nothing does, or where it depends on what follows."""

    @property
    def writes_calls(self) -> bool:
        """Whether the template prints calls; where it does not, they are the assistant's own text."""
        return self.base is Base.CALL

    def messages(self, calls: Sequence[tuple[str, str]], earlier: Sequence[int] = ()) -> list[Message]:
        """Return what must stand before the results of `calls` (id, name), after the `earlier` rounds (`past`)."""
        if self.base is Base.TEXT:
            return after_past(text_base(), earlier) if self.is_counted else text_base()
        some = calls if self.is_parallel else calls[-1:]
        base = call_base(some, as_text=self.arguments_as_text)
        return after_past(base, earlier, as_text=self.arguments_as_text) if self.is_counted else base


def certify_calls(template: Template, syntax: CallSyntax | None, closer: str, stops: Sequence[str]) -> CallForm:
    """Return how `template` writes calls, whose own syntax is `syntax`, and results.

    `closer` is what ends an answer; `stops` are the texts of the model's stop tokens. Without a syntax, where a call
    ends is taken from what the template itself writes for one that has no result yet.

    Raises:
        UnsupportedTemplate: It writes them in a way no delta can follow.
    """
    for as_text in (False, True):
        form = CallForm(Base.CALL, arguments_as_text=as_text, has_role=True)
        text = _answered(template, form)
        if text is not None and SENTINEL in text and "oasisRESULT" in text:
            return _certified(template, form, text, syntax, closer, stops)
    form = CallForm(is_json=syntax is not None and _reads_json(syntax))
    text = _answered(template, form)
    if text is None or "oasisRESULT" not in text:
        return form
    _require_verbatim(text)
    form = replace(form, has_role=True, closer=closer)
    return replace(form, given_ids=_given_ids(template, form))


def _certified(
    template: Template, form: CallForm, text: str, syntax: CallSyntax | None, closer: str, stops: Sequence[str]
) -> CallForm:
    if text.count(SENTINEL) != 1:
        raise unsupported("it prints a call more than once")
    _require_verbatim(text)
    alone = tried(template, form.messages([(_ID, _NAME)]), generation_prompt=False) or ""
    form = replace(form, cut=_cut(text, alone, syntax, closer, stops), is_json=_is_json(text, syntax))
    form = replace(form, is_parallel=_is_parallel(template, form), closer=_closer(form, alone, text))
    delta_base = _delta_base(template, form, form.cut.split(text)[1])
    form = replace(form, delta_base=delta_base, is_counted=delta_base in (DeltaBase.COUNTER, DeltaBase.NONE))
    if delta_base is DeltaBase.NONE:
        _require_shape(template, form)
    return replace(form, given_ids=_given_ids(template, form))


def _cut(text: str, alone: str, syntax: CallSyntax | None, closer: str, stops: Sequence[str]) -> Cut:
    """Return where the call ends: at the first stop token, else after its own last mark, else where an answer would."""
    written = text.partition(SENTINEL)[2].partition("oasisRESULT")[0]
    found = [stop for stop in stops if stop and stop in written]
    if found:
        return Cut(closer=min(found, key=written.index))
    if syntax is not None and syntax.closer and syntax.closer in written:
        return Cut(end=syntax.closer)
    if closer and closer in written:
        return Cut(closer=closer)
    tail = alone.partition(SENTINEL)[2]
    if (syntax is None or any(stops)) and tail.strip() and written.startswith(tail):
        return Cut(end=tail)
    mark = re.search(r"</[^<>\s]+>", written) if syntax is None else None
    if mark is not None:
        return Cut(end=mark.group())
    raise unsupported("where a call ends in its history cannot be told")


def _closer(form: CallForm, alone: str, answered: str) -> str:
    """Return what ends a call both without a result and before one."""
    closer, delta = form.cut.delta(alone), form.cut.delta(answered)
    return closer if closer is not None and delta is not None and delta.startswith(closer) else ""


def _delta_base(template: Template, form: CallForm, delta: str) -> DeltaBase:
    """Return the least that must stand before a result for `delta` to follow."""
    if not _is_alike(template, form, [(0,)], delta):
        return DeltaBase.NONE
    if _is_counted(template, form):
        return DeltaBase.COUNTER
    result = result_message(_ID, _NAME, _RESULT)
    free = tried(template, [*text_base(), result])
    if free is not None and AFTER_TEXT.delta(free) == delta:
        return DeltaBase.FREE
    other = tried(template, [*call_base([("oasis0009", "oasis_other")], as_text=form.arguments_as_text), result])
    if other is not None and form.cut.delta(other) == delta:
        return DeltaBase.ANY_CALL
    return DeltaBase.SAME_CALL


def _require_shape(template: Template, form: CallForm) -> None:
    """Refuse a template whose results depend on more of the past than its shape."""
    shaped = _answered(template, form, earlier=(0,))
    said = _answered(template, replace(form, is_counted=False), before=text_base(user="another?", said="One."))
    if shaped is None or said is None or form.cut.split(shaped)[1] != form.cut.split(said)[1]:
        raise unsupported("what it writes for a result depends on what was said before")


def _is_alike(template: Template, form: CallForm, pasts: Sequence[Sequence[int]], delta: str) -> bool:
    """Say whether `delta` follows after each past, too; where the template refuses one, that says nothing."""
    counted = replace(form, is_counted=True)
    texts = [_answered(template, counted, earlier=earlier) for earlier in pasts]
    return all(form.cut.delta(text) == delta for text in texts if text is not None)


def _require_verbatim(text: str) -> None:
    if not is_verbatim(_RESULT, text):
        raise unsupported("it changes the text of a result")


def _is_json(text: str, syntax: CallSyntax | None) -> bool:
    if syntax is None or not syntax.opener or not syntax.closer:
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
    calls = [("oasis0001", "oasis_other"), (_ID, _NAME)]
    results = [result_message(*call, said) for call, said in zip(calls, (_OTHER, _RESULT), strict=True)]
    base = call_base(calls, first=_FIRST, as_text=form.arguments_as_text)
    text = tried(template, [*base, *results]) or ""
    return text.count(SENTINEL) == 1 and all(word in text for word in (_FIRST, _OTHER, "oasisRESULT"))


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
    return tried(template, [*before, *base, result_message(call_id, _NAME, _RESULT)])
