"""What a chat template does, found by trying it: a battery of renders of sentinel messages.

The certificate says how its deltas are found, what it cannot express, and where a client that re-renders would lose its
prefix. Idea: a template is foreign code whose source tells little, while a render of a unique string tells exactly
where that string goes (docs/decisions).
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from oasis_harness.canonical import canonical_json
from oasis_harness.replies import CallSyntax
from oasis_harness.templates import STEPS, Template

from .calls import Calls, certify_all_calls
from .certificate import Certificate
from .disguise import Disguise
from .message_handling import arguments_printed, none_content, prints_python, roles, trimmed_roles
from .modes import tried_in_all_modes
from .opened import Opened, fitting_shape
from .probes import NAME
from .reasoning import answer_opener, certify_reasoning

__all__ = ["certify_template"]

_STEPS = 4 * STEPS
"""For the whole battery; of 786 published templates the dearest takes a twentieth of it."""


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
    template = template.shaped(fitting_shape(template))
    opened = Opened.of(template)
    calls, template = certify_all_calls(template, opened, question.syntax, question.stops)
    return _full(template, opened, calls, uses_date)


def _full(template: Template, opened: Opened, calls: Calls, uses_date: bool) -> Certificate:
    native, has_system = calls.native, opened.has_system
    calling = native.messages([("oasis0000", NAME)]) if native is not None and native.writes_calls else ()
    reasoning_form = certify_reasoning(template, opened.generation_prompt, calling)
    found = tried_in_all_modes(template, opened, calls, reasoning_form)
    writes = native is not None and native.writes_calls
    return Certificate(
        digest=template.digest,
        arguments=template.arguments,
        has_parts=template.shape.has_parts,
        lists_no_tools=template.shape.lists_no_tools,
        needs_tools=bool(template.shape.tools),
        has_system=has_system,
        has_tools=opened.has_tools,
        tools_need_system=opened.needs_system,
        native=native,
        calls=calls.used,
        layout=calls.layout,
        generation_prompt=opened.generation_prompt,
        answer_opener=answer_opener(template, reasoning_form),
        closer=opened.closer,
        counts_turns=opened.counts_turns,
        uses_date=uses_date,
        roles=roles(template, native, has_system=has_system),
        trims=trimmed_roles(template, native, has_system=has_system),
        none_content=none_content(template, native),
        object_arguments=arguments_printed(template, as_text=False) if writes else None,
        text_arguments=arguments_printed(template, as_text=True) if writes else None,
        prints_python=writes and prints_python(template),
        reasoning_form=found.reasoning_form,
        boundaries=found.boundaries,
        letter=found.letter,
        letters=found.letters,
        remarks=calls.remarks,
    )
