"""What a chat template does, found by trying it: a battery of renders of sentinel messages.

The certificate says how its deltas are found, what it cannot express, and where a client that re-renders would lose its
prefix. Idea: a template is foreign code whose source tells little, while a render of a unique string tells exactly
where that string goes (docs/decisions).
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from oasis_harness.canonical import canonical_json
from oasis_harness.errors import TemplateFailed, UnsupportedTemplate
from oasis_harness.replies import JSON_CALLS, CallSyntax
from oasis_harness.templates import STEPS, Message, Shape, Template, is_verbatim

from .call_form import CallForm, certify_calls
from .certificate import BoundaryName, Certificate, Kept, ReasoningForm, Switch
from .disguise import Disguise
from .message_handling import arguments_printed, none_content, prints_python, roles, trimmed_roles
from .reasoning import certify_reasoning, switch_candidates
from .rerender import Rerender, letter_of
from .sentinels import AFTER_TEXT, SENTINEL, after_past, message, result_message, text_base, tried, unsupported

__all__ = ["certify_template"]

_WORD = "oasisUSER5c27"
_USER = _WORD + " \"a\" 'b' <i>&amp;</i> \\n {{ x }} é\n\n  two"
"""What a person may type; a template that changes any of it is not used."""
_SYSTEM = _USER.replace("USER", "SYSTEM")
_STEPS = 4 * STEPS
"""For the whole battery; of 786 published templates the dearest takes a twentieth of it."""
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "oasis_probe",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"oasis": {"type": "string"}}, "required": ["oasis"]},
    },
}


def certify_template(template: Template, syntax: CallSyntax | None = None, *, stops: Sequence[str] = ()) -> Certificate:
    """Try `template` and say how it can be driven append-only.

    `syntax` is how the model itself writes calls, where that is known; `stops` are the texts of its stop tokens, which
    tell where a call ends when its syntax has no mark for that. What was certified once in this process is not tried
    again.

    Raises:
        UnsupportedTemplate: It cannot; the message names the first reason.
        TemplateFailed: It needs a variable that was not given.
        TemplateRunaway: One render of it, or all together, take more steps than any template should.
    """
    arguments = canonical_json(dict(template.arguments))
    date = template.date if "strftime_now" in template.source else None
    return _certified(_Question(template.digest, arguments, date, syntax, tuple(stops), template))


@dataclass(frozen=True, slots=True)
class _Question:
    """What a certificate depends on; the template itself is named by its digest and its arguments."""

    digest: str
    arguments: bytes
    date: datetime.date | None
    syntax: CallSyntax | None
    stops: tuple[str, ...]
    template: Template = field(compare=False)


@lru_cache(maxsize=256)
def _certified(question: _Question) -> Certificate:
    template = question.template
    uses_date = "strftime_now" in template.source
    if uses_date and template.date is None:
        template = template.at(datetime.date(2000, 1, 1))
    template = template.disguised(Disguise(template)).rationed(_STEPS)
    template = template.shaped(_fitting_shape(template))
    opened = _Opened.of(template)
    calls = _Calls.of(template, opened, question.syntax, question.stops)
    given = template.shaped(template.shape._replace(tools=(_TOOL,)))
    if opened.has_tools and _needs_tools(template, given, calls.native):
        template = given
        calls = _Calls.of(given, opened, question.syntax, question.stops)
    return _full(template, opened, calls, uses_date)


def _fitting_shape(template: Template) -> Shape:
    """Return the first form in which `template` prints what a user types; the usual one if none does.

    Raises:
        TemplateFailed: It needs a variable that was not given.
    """
    for shape in (Shape(), Shape(lists_no_tools=True), Shape(has_parts=True)):
        try:
            if is_verbatim(_USER, template.shaped(shape).render([_user()], generation_prompt=True)):
                return shape
        except TemplateFailed as error:
            if error.reason.endswith("is undefined"):
                raise  # a variable that only its user knows; nothing can be said of the template
    return Shape()


def _needs_tools(plain: Template, given: Template, native: CallForm | None) -> bool:
    """Say whether deltas differ where tools are given, without holding them."""
    found = [_deltas(template, native) for template in (plain, given)]
    return found[0] != found[1] and None not in found[1] and not any("oasis_probe" in str(delta) for delta in found[1])


def _deltas(template: Template, native: CallForm | None) -> list[str | None]:
    """Return the deltas of a user turn and of a result, or None where there is none."""
    deltas = [AFTER_TEXT.delta(tried(template, [*text_base(), _user()]) or "")]
    if native is not None and native.has_role:
        call = ("oasis0000", "oasis_other")
        messages = [*native.messages([call]), result_message(*call, _USER)]
        deltas.append(native.cut.delta(tried(template, messages) or ""))
    return deltas


def _full(template: Template, opened: "_Opened", calls: "_Calls", uses_date: bool) -> Certificate:
    native, has_system = calls.native, opened.has_system
    calling = native.messages([("oasis0000", "oasis_probe")]) if native is not None and native.writes_calls else ()
    found = certify_reasoning(template, opened.generation_prompt, calling)
    rerender = _rerender(template, opened, native, found)
    reasoning_form = _judged(template, opened, native, found, rerender=rerender) if found is not None else None
    boundaries = rerender.boundaries()
    writes = native is not None and native.writes_calls
    return Certificate(
        digest=template.digest,
        arguments=template.arguments,
        has_parts=template.shape.has_parts,
        lists_no_tools=template.shape.lists_no_tools,
        needs_tools=bool(template.shape.tools),
        has_system=has_system,
        has_tools=opened.has_tools,
        native=native,
        calls=calls.driven,
        generation_prompt=opened.generation_prompt,
        closer=opened.closer,
        counts_turns=opened.counts_turns,
        uses_date=uses_date,
        roles=roles(template, native, has_system=has_system),
        trims=trimmed_roles(template, native, has_system=has_system),
        none_content=none_content(template, native),
        object_arguments=arguments_printed(template, as_text=False) if writes else None,
        text_arguments=arguments_printed(template, as_text=True) if writes else None,
        prints_python=writes and prints_python(template),
        reasoning_form=reasoning_form,
        boundaries=boundaries,
        letter=letter_of(boundaries, is_closed_otherwise=rerender.closing()),
        remarks=calls.remarks,
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a template does without calls."""

    generation_prompt: str
    closer: str
    has_system: bool
    has_tools: bool
    counts_turns: bool
    tool_prompt: str
    """A prompt with a tool in it."""

    @classmethod
    def of(cls, template: Template) -> "_Opened":
        generation_prompt = _generation_prompt(template)
        user_turn, counts_turns = _user_turn(template)
        tool_prompt = tried(template, [_user()], tools=[_TOOL]) or ""
        return cls(
            generation_prompt=generation_prompt,
            closer=_closer(template, user_turn),
            has_system=_prints_system(template),
            has_tools=_TOOL["function"]["name"] in tool_prompt,
            counts_turns=counts_turns,
            tool_prompt=tool_prompt,
        )


@dataclass(frozen=True, slots=True)
class _Calls:
    """How a template writes calls, and what of that is used."""

    native: CallForm | None
    driven: CallForm | None
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, template: Template, opened: _Opened, syntax: CallSyntax | None, stops: Sequence[str]) -> "_Calls":
        """Take calls in the model's own syntax, or in the plain one if the template speaks of that; else as text."""
        known = syntax or (JSON_CALLS if JSON_CALLS.opener in opened.tool_prompt else None)
        try:
            native = certify_calls(template, known, opened.closer, stops)
        except UnsupportedTemplate as error:
            return cls(None, None, (_degraded(error.reason),) if opened.has_tools else ())
        if not opened.has_tools:
            return cls(native if native.has_role else None, None, ())
        if known is None or (syntax is None and not native.is_json):
            return cls(native, None, (_degraded("nobody here can read the syntax of its calls"),))
        return cls(native, native, ())


def _degraded(reason: str) -> str:
    return f"Tools are listed in the system text, calls and results travel as text: {reason}."


def _judged(
    template: Template, opened: _Opened, native: CallForm | None, reasoning_form: ReasoningForm, *, rerender: Rerender
) -> ReasoningForm:
    """Say how long reasoning is kept, and where it is dropped and there is a switch that keeps it, which."""
    kept = _kept(rerender, native, reasoning_form)
    switch = _keep_switch(template, opened, native, reasoning_form) if kept is not Kept.ALWAYS else None
    return replace(reasoning_form, kept=kept, switch=switch)


def _rerender(
    template: Template, opened: _Opened, native: CallForm | None, reasoning_form: ReasoningForm | None
) -> Rerender:
    bare = template.shaped(template.shape._replace(tools=()))  # it is given tools where the conversation has some
    return Rerender(bare, _tools(opened), native, reasoning_form, has_system=opened.has_system)


def _kept(rerender: Rerender, native: CallForm | None, reasoning_form: ReasoningForm) -> Kept:
    if reasoning_form.is_skipped:  # nothing is thought: what can be lost is the empty reasoning of the prompt
        if rerender.is_broken(BoundaryName.RESULT):
            return Kept.NEVER
        return Kept.WITHIN_TURN if rerender.is_broken(BoundaryName.USER) else Kept.ALWAYS
    if rerender.keeps_reasoning(BoundaryName.USER):
        return Kept.ALWAYS
    has_results = native is not None and native.has_role
    return Kept.WITHIN_TURN if has_results and rerender.keeps_reasoning(BoundaryName.RESULT) else Kept.NEVER


def _keep_switch(
    template: Template, opened: _Opened, native: CallForm | None, reasoning_form: ReasoningForm
) -> Switch | None:
    """Return the first setting under which the same first prompt goes on to keep what was thought, everywhere."""
    first = _first_prompts(template, opened)
    for switch in switch_candidates(template):
        switched = template.under({switch.name: switch.value})
        rerender = _rerender(switched, opened, native, reasoning_form)
        if _first_prompts(switched, opened) == first and _kept(rerender, native, reasoning_form) is Kept.ALWAYS:
            return switch
    return None


def _first_prompts(template: Template, opened: _Opened) -> list[str | None]:
    """Return the first prompt with a system text and tools, with one of them, and with none."""
    heads: list[list[Message]] = [[], [message("system", _SYSTEM)]] if opened.has_system else [[]]
    tools: list[list[dict[str, Any]]] = [[], _tools(opened)] if opened.has_tools else [[]]
    return [tried(template, [*head, _user()], tools=some) for head in heads for some in tools]


def _tools(opened: _Opened) -> list[dict[str, Any]]:
    return [_TOOL] if opened.has_tools else []


def _user() -> Message:
    return message("user", _USER)


def _generation_prompt(template: Template) -> str:
    try:
        opened = template.render([_user()], generation_prompt=True)
    except TemplateFailed as error:
        raise unsupported(f"it refuses a single user turn ({error.reason})") from None
    if not is_verbatim(_USER, opened):
        raise unsupported("it changes or drops what a user types")
    closed = tried(template, [_user()], generation_prompt=False) or ""
    return opened[len(closed) :] if opened.startswith(closed) else opened.rpartition(_USER)[2]


def _user_turn(template: Template) -> tuple[str, bool]:
    """Return the delta of a user turn after an answer, and whether its base must have the shape of the past.

    It is proved that it can be found, and that it depends on no more than that.
    """
    short, spoken, shaped = _user_turns(template)
    if short != spoken and shaped != spoken:
        raise unsupported("what it writes for a user turn depends on what was said before")
    return short, short != spoken


def _user_turns(template: Template) -> Iterator[str]:
    """Yield the delta of a user turn after nothing, after a turn with other words, and after one in dummy words."""
    histories = (
        text_base(),
        [*text_base(user="another?\n", said="One."), *text_base(said=f"Two. {SENTINEL}")],
        after_past(text_base(), (0,)),
    )
    for history in histories:
        try:
            text = template.render([*history, _user()], generation_prompt=True)
        except TemplateFailed as error:
            raise unsupported(f"it refuses a second user turn ({error.reason})") from None
        delta = AFTER_TEXT.split(text)[1] if text.count(SENTINEL) == 1 else ""
        if text.count(_WORD) != 1 or _WORD not in delta:
            raise unsupported("it does not print an answer and the next user turn once each, one after the other")
        yield delta


def _closer(template: Template, user_turn: str) -> str:
    alone = tried(template, text_base(), generation_prompt=False) or ""
    closer = alone.partition(SENTINEL)[2]
    return closer if user_turn.startswith(closer) else ""


def _prints_system(template: Template) -> bool:
    text = tried(template, [message("system", _SYSTEM), _user()]) or ""
    return is_verbatim(_SYSTEM, text) and is_verbatim(_USER, text)
