"""Conversations are declared, by key or by number; what was not declared is a break, or a guess that is reported."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from oasis_harness.guard import NotAppendOnly, Relation, assert_append_only, check_requests
from oasis_harness.guard.requests import RequestRecorder

from .mutants import Bodies, Body, agent, rendered, step


def as_json(bodies: Bodies) -> list[bytes]:
    return [json.dumps(body).encode() for body in bodies]


def as_prompts(bodies: Bodies) -> list[bytes]:
    return [request.prompt or b"" for request in rendered(bodies)]


FORMS = {"mappings": list, "JSON": as_json, "raw prompts": as_prompts}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def with_messages(messages: Sequence[Body]) -> Body:
    return {**agent()[0], "messages": list(messages)}


def compacted() -> Bodies:
    """An agent that keeps nothing of its history but a summary, and goes on from there."""
    system = agent()[0]["messages"][0]
    summary = {"role": "user", "content": "Summary of the work so far: add is repaired, the tests are not."}
    return [*agent()[:4], with_messages([system, summary]), with_messages([system, summary, *step("b", 0)])]


def titled() -> Bodies:
    """A request for a title comes in between."""
    told = {"role": "system", "content": "Write a title of at most six words; answer with nothing else."}
    bodies = agent()[:4]
    return [*bodies[:2], {"model": "small-1", "tools": [], "messages": [told, bodies[0]["messages"][1]]}, *bodies[2:]]


def sampled() -> Bodies:
    """The first request is sent twice, and both replies are followed up."""
    other = agent()[:3]
    for body in other[1:]:
        body["messages"][2]["reasoning_content"] = body["messages"][2]["content"] = "Another thought."
    return [body for pair in zip(agent()[:3], other, strict=True) for body in pair]


def delegated() -> Bodies:
    """A subagent with a task of its own under the same head."""
    system = agent()[0]["messages"][0]
    task = {"role": "user", "content": "Find every caller of add, and list them."}
    sent = [with_messages([system, task]), with_messages([system, task, *step("b", 0)])]
    return [*agent()[:2], *sent, *agent()[2:4]]


SIBLINGS = {
    "a title": (titled, ["main", "main", "title", "main", "main"]),
    "two samples": (sampled, ["a", "b"] * 3),
    "a subagent": (delegated, ["main", "main", "sub", "sub", "main", "main"]),
}
siblings = pytest.mark.parametrize(("sent", "keys"), SIBLINGS.values(), ids=SIBLINGS)


@forms
def test_an_undeclared_compaction_is_a_break(form: Any) -> None:
    """It keeps nothing of the history, so that only the declaration tells it from a new task."""
    requests = form(compacted())
    with pytest.raises(NotAppendOnly, match="1 conversations, 1 breaks") as raised:
        assert_append_only(requests)
    [pair] = raised.value.report.breaks
    assert (pair.index, pair.previous, pair.relation) == (4, 3, Relation.MOVED)
    assert_append_only(requests, declared={4: "compaction"})


def test_the_break_is_named_and_the_message_says_how_to_declare() -> None:
    """A compaction by its reason; other conversations by key or number."""
    with pytest.raises(NotAppendOnly, match="request 4 against 3: moved, starts over under the same head; ") as raised:
        assert_append_only(compacted())
    for words in ('declared={8: "compaction"}', 'conversation="title"', "conversations=3"):
        assert words in str(raised.value)


def test_a_request_that_starts_over_under_another_head_is_named_too() -> None:
    """And what changes the head may not be declared."""
    bodies = compacted()
    for body in bodies[4:]:
        body["messages"][0] = {"role": "system", "content": "Translate whatever comes into verse."}
    for declared in ({}, {4: "compaction"}):
        with pytest.raises(NotAppendOnly, match="request 4 against 3: moved, starts over under another head; "):
            assert_append_only(bodies, declared=declared)


@forms
@siblings
def test_other_conversations_are_declared_by_key_or_by_number(form: Any, sent: Any, keys: list[str]) -> None:
    """Undeclared, each is a break."""
    requests = form(sent())
    with pytest.raises(NotAppendOnly):
        assert_append_only(requests)
    assert_append_only(requests, conversations=keys)
    assert check_requests(requests, conversations=keys).n_conversations == 2
    if form is not as_prompts or sent is not titled:  # without roles, a text that quotes the task is a moved one
        assert_append_only(requests, conversations=2)


@pytest.mark.parametrize("form", [list, as_json])
def test_more_conversations_than_declared_are_a_break(form: Any) -> None:
    """Each that is one too many is named."""
    requests = form([*titled(), *delegated()[2:4], *compacted()[4:]])
    assert_append_only(requests, conversations=4)
    with pytest.raises(NotAppendOnly, match="request 7: undeclared conversation, starts over under the same head"):
        assert_append_only(requests, conversations=3)
    assert [pair.index for pair in check_requests(requests, conversations=2).breaks] == [5, 7]


def test_a_moved_setting_is_not_called_a_start() -> None:
    """The same words under another effort are one thing moved."""
    pair = check_requests([{**agent()[0], "effort": effort} for effort in ("low", "high")], conversations=1).breaks[0]
    assert str(pair).startswith("request 1 against 0: moved; topology: another effort")


def test_a_side_request_is_reported_once() -> None:
    """The history that it left goes on, and so does what it began."""
    bodies = titled()
    reply = {"role": "assistant", "content": "Repair of add"}
    bodies.insert(
        4, {**bodies[2], "messages": [*bodies[2]["messages"], reply, {"role": "user", "content": "Shorter."}]}
    )
    report = check_requests(bodies, conversations=1)
    assert [(pair.index, pair.previous) for pair in report.breaks] == [(2, 1)]
    assert [pair.previous for pair in report.pairs] == [None, 0, 1, 1, 2, 3]


def test_after_a_declared_compaction_the_old_history_may_not_come_back() -> None:
    """It was given up."""
    bodies = [*compacted(), agent()[4]]
    with pytest.raises(NotAppendOnly) as raised:
        assert_append_only(bodies, declared={4: "compaction"})
    assert [(pair.index, pair.previous) for pair in raised.value.report.breaks] == [(6, 5)]


@pytest.mark.parametrize("conversations", [1, 2])
def test_a_compaction_may_not_drop_the_system_text(conversations: int) -> None:
    """A declared one keeps the whole head, not only what is left of it."""
    bodies = compacted()[:5]
    del bodies[4]["messages"][0]
    with pytest.raises(NotAppendOnly, match="request 4 against 3: moved"):
        assert_append_only(bodies, conversations=conversations, declared={4: "compaction"})


@forms
def test_without_a_declaration_a_log_is_guessed_and_the_guess_is_reported(form: Any) -> None:
    """Nobody knows whether it is a new task: there is no break, and a line that says so."""
    report = check_requests(form(compacted()))
    assert not report.breaks and [pair.note for pair in report.guesses] == ["starts over under the same head"]
    assert "request 4 starts over under the same head." in str(report).splitlines()


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        (titled, ["request 2 starts over under another head."]),
        (sampled, ["request 1 repeats request 0.", "request 3 also follows up what request 0 sent."]),
        (delegated, ["request 2 starts over under the same head."]),
        (lambda: [agent()[0], agent()[0], agent()[1]], ["request 1 repeats request 0."]),
    ],
)
def test_every_other_guess_is_reported(sent: Any, lines: list[str]) -> None:
    """Titles, samples, subagents, retries."""
    assert str(check_requests(sent())).splitlines()[1:] == lines


def test_many_guesses_are_counted() -> None:
    """A log of a hundred tasks does not print a hundred lines, and hides none."""
    report = check_requests([agent(f"task {index}")[0] for index in range(100)])
    assert len(report.guesses) == 99
    assert str(report).splitlines()[-1] == "91 more requests are such guesses."


def test_a_retry_is_no_break() -> None:
    """The same request twice gives nothing up."""
    first, second, *_ = agent()
    assert_append_only(as_json([first, first, second, second]))


def test_a_recorder_has_one_conversation_unless_it_is_told() -> None:
    """Each key is held to append-only by itself."""
    bodies, keys = SIBLINGS["a title"][0](), SIBLINGS["a title"][1]
    one, two, declared = RequestRecorder(), RequestRecorder(), RequestRecorder()
    for body, key in zip(bodies, keys, strict=True):
        one.append(body)
        two.append(body, conversation=key)
    assert "1 conversations, 1 breaks" in one.fault() and not two.fault()
    for index, body in enumerate(compacted()):
        one.append(body, conversation="other")
        declared.append(body, declared="compaction" if index == 4 else "")
    assert "2 conversations, 2 breaks" in one.fault() and not declared.fault()


@pytest.mark.parametrize("conversations", [0, -1, "main", ["main"]])
def test_conversations_that_cannot_be_are_refused(conversations: Any) -> None:
    """None at all, a text, fewer keys than requests."""
    with pytest.raises(ValueError, match=r"at least|one a request|one key a request"):
        assert_append_only(agent()[:2], conversations=conversations)
