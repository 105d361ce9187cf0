r"""Which calls a template writes, which of them are used, and why not the others.

    it writes   <tool_call>\n{"name": "oasis_probe", "arguments": {"oasis": "…"}}\n</tool_call>   used: the plain syntax
    it writes   call:oasis_probe{oasis:<escape>…<escape>}                 used where its model's syntax is known
    it writes   <calls>oasis_probe(oasis="…")</calls>                     used: what it writes for others is read back
    it writes   [{"tool_name": "oasis_probe", …}] and nothing tells where a call ends       not used, and said so

What is not used is re-rendered all the same: a client that uses it must know where it breaks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oasis_harness.errors import TemplateFailed, UnsupportedTemplate
from oasis_harness.replies import JSON_CALLS, CallLayout, CallSyntax
from oasis_harness.templates import Template

from .call_form import CallForm, certify_calls
from .call_layout import learn_layout
from .opened import PROBE_TOOL, Opened, probe_user
from .probes import NAME
from .sentinels import AFTER_TEXT, SENTINEL, Base, Cut, result_message, text_base, tried

__all__ = ["Calls", "certify_all_calls"]

_CALL = ("oasis0000", NAME)
_RESULT = "oasisRESULT81e4"
NO_RESULTS = "the template prints no results"


@dataclass(frozen=True, slots=True)
class Calls:
    """How a template writes calls, and what of that is used."""

    native: CallForm | None
    """As deltas can follow it."""
    used: CallForm | None
    layout: CallLayout | None
    """Where the parts of a call stand, where that was learned, and is used."""
    rerendered: CallForm | None
    """As a client that re-renders uses it; no delta need be able to follow. None where there are no results."""
    no_results: str
    """Why there are none."""
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, template: Template, opened: Opened, syntax: CallSyntax | None, stops: Sequence[str]) -> "Calls":
        """Take calls in the model's own syntax, or in the plain one if the template speaks of that.

        Else as the template is seen to write them, where that can be read back; else as text.
        """
        known = syntax or (JSON_CALLS if JSON_CALLS.opener in opened.tool_prompt else None)
        try:
            native = certify_calls(template, known, opened.closer, stops)
        except UnsupportedTemplate as error:
            found, reason = _written(template)
            return cls(None, None, None, found, reason, (_degraded(error.reason),) if opened.has_tools else ())
        found, reason = (native, "") if native.has_role else _written(template)
        if not opened.has_tools:
            return cls(native if native.has_role else None, None, None, found, reason, ())
        if known is not None and (syntax is not None or native.is_json):
            return cls(native, native, None, found, reason, ())
        layout, unlike = learn_layout(template, native, [opened.closer, *stops])
        remarks = () if layout is not None else (_degraded(unlike),)
        return cls(native, native if layout is not None else None, layout, found, reason, remarks)


def certify_all_calls(
    template: Template, opened: Opened, syntax: CallSyntax | None, stops: Sequence[str]
) -> tuple[Calls, Template]:
    """Return how `template` writes calls, and the template, given tools where it writes otherwise without them."""
    calls = Calls.of(template, opened, syntax, stops)
    if not opened.has_tools:
        return calls, template
    given = template.shaped(template.shape._replace(tools=(PROBE_TOOL,)))
    if calls.rerendered is None:
        with_tools = Calls.of(given, opened, syntax, stops)
        return (calls, template) if with_tools.rerendered is None else (with_tools, given)
    if _needs_tools(template, given, calls.native):
        return Calls.of(given, opened, syntax, stops), given
    return calls, template


def _needs_tools(plain: Template, given: Template, native: CallForm | None) -> bool:
    """Say whether deltas differ where tools are given, without holding them."""
    found = [_deltas(template, native) for template in (plain, given)]
    return found[0] != found[1] and None not in found[1] and not any(NAME in str(delta) for delta in found[1])


def _deltas(template: Template, native: CallForm | None) -> list[str | None]:
    """Return the deltas of a user turn and of a result, or None where there is none."""
    deltas = [AFTER_TEXT.delta(tried(template, [*text_base(), probe_user()]) or "")]
    if native is not None and native.has_role:
        call = ("oasis0000", "oasis_other")
        messages = [*native.messages([call]), result_message(*call, str(probe_user()["content"]))]
        deltas.append(native.cut.delta(tried(template, messages) or ""))
    return deltas


def _written(template: Template) -> tuple[CallForm | None, str]:
    """Return how calls and results are given to a template that prints results, else the reason why it prints none."""
    forms = [CallForm(Base.CALL, Cut(), has_role=True, arguments_as_text=as_text) for as_text in (False, True)]
    reason = ""
    for form in [*forms, CallForm(has_role=True)]:
        try:
            text = template.render([*form.messages([_CALL]), result_message(*_CALL, _RESULT)], generation_prompt=True)
        except TemplateFailed as error:
            reason = reason or error.reason
            continue
        if _RESULT in text:
            return form if SENTINEL in text else replace(forms[-1], base=Base.TEXT, arguments_as_text=False), ""
    return None, reason or NO_RESULTS


def _degraded(reason: str) -> str:
    return f"Tools are listed in the system text, calls and results travel as text: {reason}."
