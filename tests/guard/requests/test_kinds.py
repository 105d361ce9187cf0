"""Every kind of break is caught, named, and named by one check only."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.guard import Relation
from oasis_harness.guard.requests import RequestReport, check_requests
from oasis_harness.guard.requests.blocks import Reader, Request
from oasis_harness.guard.requests.changes import change_of
from oasis_harness.guard.requests.kinds import CHECKS, Diagnosis, Kind, classify, findings

from .mutants import DRAWN, Bodies, Body, Mutant, agent, by_hand, clean, interleaved

KINDS = [kind for kind in Kind if kind is not Kind.UNKNOWN]


def said(report: RequestReport, mutant: Mutant) -> list[list[Diagnosis]]:
    """Return what every check says of each break."""
    reader = Reader(is_exact=not isinstance(mutant.requests[0].body, dict))
    reads = [reader.read(request) for request in mutant.requests]
    pairs = [(reads[pair.previous], reads[pair.index]) for pair in report.breaks if pair.previous is not None]
    return [list(findings(change_of(before, after))) for before, after in pairs]


def assert_named(mutant: Mutant) -> None:
    report = check_requests(mutant.requests)
    kinds = {pair.diagnosis.kind for pair in report.breaks if pair.diagnosis}
    assert kinds == {mutant.kind}, f"{mutant.name}: {report}"
    assert report.n_conversations == 1 + (mutant.name == "evicted by a side request")
    for diagnoses in said(report, mutant):
        assert [diagnosis.kind for diagnosis in diagnoses] == [mutant.kind], mutant.name


@pytest.mark.parametrize("mutant", by_hand(), ids=lambda mutant: str(mutant.kind))
def test_a_break_is_named_and_every_other_check_is_silent(mutant: Mutant) -> None:
    """One of each kind, as it is met in the field."""
    assert_named(mutant)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_drawn_break_is_named_and_every_other_check_is_silent(kind: Kind, data: st.DataObject) -> None:
    """Hypothesis draws the position and the values."""
    assert_named(data.draw(DRAWN[kind]))


@pytest.mark.parametrize("requests", [clean(), interleaved()], ids=["one conversation", "several, interleaved"])
def test_a_sound_agent_is_not_accused(requests: list[Request]) -> None:
    """Controls: nothing is a break where nothing moved."""
    report = check_requests(requests)
    assert not report.breaks, report
    assert {pair.relation for pair in report.pairs} == {Relation.NEW, Relation.EXTENDED}


def test_every_kind_has_a_check_and_mutants() -> None:
    """A kind nobody looks for, or that was never provoked, would be a promise."""
    assert [kind for kind in Kind if kind in dict(CHECKS)] == KINDS
    assert [mutant.kind for mutant in by_hand()] == KINDS == list(DRAWN)


@pytest.mark.parametrize("kind", KINDS)
def test_without_its_check_a_kind_goes_by_another_name(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table tests the checks: take one away, and its mutant is no longer named."""
    monkeypatch.setattr(
        "oasis_harness.guard.requests.kinds.CHECKS", tuple(item for item in CHECKS if item[0] is not kind)
    )
    mutant = next(mutant for mutant in by_hand() if mutant.kind is kind)
    with pytest.raises(AssertionError):
        assert_named(mutant)


# Any edit at all.

leaves = st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["", "10:00", "a b", "b a", "/tmp/x", "[x]"])
values = leaves | st.lists(leaves, max_size=2) | st.dictionaries(st.sampled_from(["id", "text"]), leaves, max_size=2)


def containers(value: Any) -> list[Any]:
    """Return every object and list in `value` that is not empty."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return ([value] if inner else []) + [each for item in inner for each in containers(item)]


@st.composite
def edited(draw: st.DrawFn) -> Bodies:
    """Draw an agent's bodies, the last of which had one thing replaced, removed or put in."""
    bodies = agent()[: draw(st.integers(2, 5))]
    body = copy.deepcopy(bodies[-1])
    target = draw(st.sampled_from(containers({"tools": body["tools"], "messages": body["messages"]})[3:]))
    key = draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
    if draw(st.booleans()):
        target[key] = draw(values)
    elif isinstance(target, dict) or draw(st.booleans()):
        del target[key]
    else:
        target.insert(key, draw(st.sampled_from(target) | values))
    return [*bodies[:-1], body]


@pytest.mark.slow
@settings(max_examples=200)  # many ways to edit, and a check costs two milliseconds
@given(edited())
def test_an_edit_is_exactly_one_thing(bodies: Bodies) -> None:
    """One relation; where it moved, one kind, and no second check has an opinion."""
    pair = check_requests(bodies).pairs[-1]
    assert (pair.relation is Relation.MOVED) == (pair.diagnosis is not None)
    reader = Reader()
    previous = len(bodies) - 2
    found = list(findings(change_of(reader.read(Request(bodies[previous])), reader.read(Request(bodies[-1])))))
    assert len(found) <= 1, found
    assert (classify(bodies[previous], bodies[-1]) is None) == stands(bodies[previous], bodies[-1])


def stands(before: Body, after: Body) -> bool:
    """The slow twin: compare what json.dumps makes of all of it."""
    n_messages = len(before["messages"])
    old = json.dumps([before["tools"], before["messages"]])
    return old == json.dumps([after["tools"], after["messages"][:n_messages]])


def test_what_nobody_can_name_is_still_a_break() -> None:
    """A system text of other words."""
    bodies = agent()[:2]
    bodies[1]["messages"][0]["content"] = "Translate whatever comes, into verse if you can."
    found = classify(*bodies)
    assert found == Diagnosis(Kind.UNKNOWN, "changed", "messages[0].content")
    assert check_requests(bodies).breaks
