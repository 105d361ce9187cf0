"""Where a re-render breaks: what a certificate says of every conversation, against plain renders of random ones."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.certify import certify_template
from oasis_harness.certify.certificate import Anchor, BoundaryName, Offset
from oasis_harness.errors import TemplateFailed
from oasis_harness.templates import Template

from ..render.families import EXTENDING, KEPT, REWRITING, Family
from ..render.talk import dialect, for_every, often
from .grown import Grown, Plan, Step, Way, plans, variants

FAMILIES = EXTENDING + KEPT + REWRITING
BY_NAME = {repr(family): family for family in FAMILIES}
PLAN = Plan([1], 1, [1], ["a"])
LONG = Plan([2, 0], 2, [2, 1], ["<", "é", "{a", ""])
every_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


def predicted(offset: Offset, step: Step) -> int | None:
    """Return the byte an anchor names in this conversation, or None where it has no such anchor."""
    if offset.anchor not in step.places:
        return None
    return len(step.sent[: step.places[offset.anchor]()].encode()) + offset.n_bytes


def steps(family: Family, plan: Plan, name: BoundaryName) -> list[Step]:
    found: list[Step] = []
    for grown in variants(family, plan):
        with contextlib.suppress(*[TemplateFailed] if grown.way.calls_twice else []):  # some refuse a second call
            found += grown.step(name)
    return found


def breaks(family: Family, plan: Plan, name: BoundaryName) -> list[tuple[int | None, int | None]]:
    """Return (where a re-render really breaks, where the certificate says it may at the earliest) of every variant."""
    boundary = dialect(family).certificate.boundary(name)
    broken = boundary.broken
    assert broken is not None
    return [(step.broken(), predicted(broken.offset, step)) for step in steps(family, plan, name)]


@pytest.mark.slow
@for_every(FAMILIES, plan=PLAN)
@for_every(FAMILIES, plan=LONG)
@often(3)
@given(family=st.sampled_from(FAMILIES), plan=plans)
def test_no_conversation_breaks_where_the_certificate_says_that_it_holds(family: Family, plan: Plan) -> None:
    certificate = dialect(family).certificate
    for boundary in certificate.boundaries:
        if boundary.is_evaluated and boundary.broken is None:
            assert [step.broken() for step in steps(family, plan, boundary.name) if step.broken() is not None] == []


@pytest.mark.slow
@for_every(FAMILIES, plan=PLAN)
@for_every(FAMILIES, plan=LONG)
@often(3)
@given(family=st.sampled_from(FAMILIES), plan=plans)
def test_a_conversation_breaks_where_the_certificate_says_and_never_before(family: Family, plan: Plan) -> None:
    """Some variant of every conversation, or of the one that has no calls behind it, breaks exactly there.

    Without the anchor, none breaks.
    """
    for boundary in dialect(family).certificate.boundaries:
        if boundary.broken is not None:
            found = breaks(family, plan, boundary.name)
            assert all(at is None or (says is not None and says <= at) for at, says in found), boundary
            bare = breaks(family, replace(plan, n_rounds=0), boundary.name)
            assert any(at == says for at, says in [*found, *bare]), boundary


def test_the_comparison_can_fail() -> None:
    """An anchor that is one byte off is seen."""
    step = next(Grown(BY_NAME["keeping"], PLAN, Way(thinks=True, speaks=True)).step(BoundaryName.USER))
    assert step.broken() == predicted(Offset(Anchor.FIRST_REPLY, -8), step)
    assert step.broken() != predicted(Offset(Anchor.FIRST_REPLY, -7), step)


@every_family
def test_what_cannot_be_tried_is_not_tried(family: Family) -> None:
    """A template that refuses such a conversation says so; where it takes it, something is said of it."""
    for boundary in dialect(family).certificate.boundaries:
        assert boundary.is_evaluated or boundary.reason


TOOLLESS = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and "
    "loop.index0 < ns.last and '</think>' in m.content %}{{ m.content.split('</think>')[-1] }}{% else %}"
    "{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_that_prints_no_tools_breaks_at_no_tools() -> None:
    """What is lost is measured from the reply it stood in, not from a place that is not there."""
    found = certify_template(Template(TOOLLESS)).boundary(BoundaryName.USER).broken
    assert found is not None and found.what == "reasoning"
    assert found.offset == Offset(Anchor.FIRST_REPLY, 0)
