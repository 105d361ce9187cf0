"""Requests without ids: which conversation each belongs to, and whether it only appends."""

import copy
import json
import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.guard import NotAppendOnly, Relation, assert_append_only, assert_prefix_stable, check_requests
from oasis_harness.templates import Template
from tests.render.templates import CHATML_TOOLS
from tests.render.thinkers import THINKING

from .mutants import AT, Bodies, agent, from_here, in_system, rendered, respelled, step, versions

NEW, SAME, MORE, MOVED, LESS = Relation.NEW, Relation.SAME, Relation.EXTENDED, Relation.MOVED, Relation.SHRUNK


def relations(requests: Sequence[Any], declared: Mapping[int, str] | None = None) -> list[Relation]:
    return [pair.relation for pair in check_requests(requests, declared=declared).pairs]


def as_json(bodies: Bodies) -> list[bytes]:
    return [json.dumps(body).encode() for body in bodies]


def as_prompts(bodies: Bodies) -> list[bytes]:
    return [request.prompt or b"" for request in rendered(bodies)]


FORMS = {"mappings": copy.deepcopy, "JSON": as_json, "raw prompts": as_prompts}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@forms
def test_a_conversation_extends_itself(form: Any) -> None:
    """Whatever form its requests are given in."""
    assert relations(form(agent())) == [NEW, *[MORE] * 5]


@forms
def test_a_retry_is_identical_and_a_rewind_is_shrunk(form: Any) -> None:
    """A request sent twice, and a history that lost its end."""
    first, second, third = form(agent()[:3])
    assert relations([first, second, third, third, second]) == [NEW, MORE, MORE, SAME, LESS]


@forms
def test_two_samples_of_one_task_are_two_conversations(form: Any) -> None:
    """The same first request sent twice may be followed up twice, by different replies."""
    other = agent()
    for body in other[1:]:
        body["messages"][2]["reasoning_content"] = body["messages"][2]["content"] = "Another thought."
    turns = [each for pair in zip(form(agent()), form(other), strict=True) for each in pair]
    assert not check_requests(turns).breaks


@forms
@pytest.mark.slow
@given(data=st.data())
def test_interleaved_conversations_are_told_apart(form: Any, data: st.DataObject) -> None:
    """Any number of them, in any order that keeps each one's own."""
    names = "abc"[: data.draw(st.integers(1, 3))]
    order = data.draw(st.permutations([name for name in names for _ in range(4)]))
    waiting = {name: iter(form(agent(name, 4))) for name in names}
    report = check_requests([next(waiting[name]) for name in order])
    assert not report.breaks and report.n_conversations == len(names), report
    numbers = [pair.conversation for pair in report.pairs]
    assert len(set(zip(order, numbers, strict=True))) == len(names)


def test_the_report_names_block_byte_and_both_texts() -> None:
    """The offset is one in the block's own JSON."""
    pair = check_requests(from_here(respelled(100))).breaks[0]
    assert (pair.index, pair.previous, pair.relation) == (AT, AT - 1, MOVED)
    assert pair.where == "tools[1].function.parameters.properties.limit.default"
    text = json.dumps(agent()[0]["tools"][1], separators=(",", ":"))
    assert pair.offset == text.index("200")
    assert '"default":200}' in pair.before and '"default":100}' in pair.after


def test_what_is_not_ascii_is_escaped_in_the_report() -> None:
    """Both texts look alike on a screen, and differ."""
    pair = check_requests(versions(in_system, "caf\u00e9", "cafe\u0301")).breaks[0]
    assert "caf\\xe9" in pair.before and "cafe\\u0301" in pair.after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('{"a": 1.0}', '{"a": 1}'),
        ('{"a": 1000}', '{"a": 1e3}'),
        ('{"a": "é"}', '{"a": "\\u00e9"}'),
        ('{"a": null}', "{}"),
        ('{"a": ""}', '{"a": null}'),
        ('{"a": 1}', '{"a": 1, "a": 1}'),
    ],
)
def test_json_is_compared_to_the_byte(before: str, after: str) -> None:
    """Each of these is the same to some JSON library, and another prompt."""
    tool = '{"model": "m", "tools": [{"name": "f", "parameters": %s}], "messages": [{"role": "user", "content": "x"}]}'
    assert relations([(tool % text).encode() for text in (before, after)]) == [NEW, MOVED]


def test_settings_of_sampling_do_not_count_and_others_do() -> None:
    """The temperature never reaches the prompt; a field nobody knows might."""
    body = agent()[0]
    assert relations([body, {**body, "temperature": 1, "stream": True, "request_id": "7f"}]) == [NEW, SAME]
    assert relations([body, {**body, "effort": "high"}]) == [NEW, MOVED]
    assert not check_requests([body, {**body, "trace": "b"}], ignore=["trace"]).breaks


def test_a_mark_for_the_providers_cache_may_wander() -> None:
    """`cache_control` is no part of the prompt."""
    bodies = agent()[:3]
    for body in bodies:
        body["messages"][-1]["cache_control"] = {"type": "ephemeral"}
    assert relations(bodies) == relations(as_json(bodies)) == [NEW, MORE, MORE]


def compacted() -> Bodies:
    bodies = agent()
    head = bodies[0]["messages"]
    summary = {"role": "user", "content": "Summary: add is repaired."}
    return [*bodies, {**bodies[0], "messages": [*head, summary]}]


def test_a_compaction_has_to_be_declared_and_to_keep_the_head() -> None:
    """Undeclared it moves the past; declared it may not move the tools besides."""
    bodies = compacted()
    assert check_requests(bodies).breaks[0].index == 6
    assert_append_only(bodies, declared={6: "compaction"})
    bodies[6]["tools"] = bodies[6]["tools"][:2]
    with pytest.raises(NotAppendOnly, match=r"topology: tools came or went, at tools\[2\]"):
        assert_append_only(bodies, declared={6: "compaction"})


def test_a_declaration_says_why() -> None:
    """An empty reason is none."""
    with pytest.raises(ValueError, match="request 6 is declared without a reason"):
        check_requests(compacted(), declared={6: " "})


TRANSCRIPT = "".join(f"user: step {n}?\nassistant: {'done ' * n}\n" for n in range(40))
UNPROVED: dict[str, tuple[Bodies, dict[str, Any], str]] = {
    "none": ([], {}, "nothing was compared"),
    "one": (agent()[:1], {}, "nothing was compared"),
    "one each": (agent()[:3], {"conversations": ["a", "b", "c"]}, "nothing was compared"),
    "a transcript behind a clock": (
        [{"messages": [{"role": "user", "content": f"[12:0{n}] {TRANSCRIPT[: 9 * 8**n]}"}]} for n in range(4)],
        {"conversations": 4},
        "4 requests, 4 conversations, 0 breaks.\nnothing was compared",
    ),
    "all declared": (agent()[:3], {"declared": dict.fromkeys(range(3), "why")}, "request 0 is declared 'why', and"),
    "declared where nothing broke": (agent(), {"declared": {2: "why"}}, "request 2 is declared 'why', and nothing"),
    "declared and not sent": (agent(), {"declared": {9: "why"}}, "request 9 is declared, and there is none"),
}


@pytest.mark.parametrize("how", UNPROVED)
def test_a_check_that_proves_nothing_fails(how: str) -> None:
    """It says what was not compared, or not needed."""
    bodies, options, said = UNPROVED[how]
    with pytest.raises(NotAppendOnly) as failed:
        assert_append_only(bodies, **options)
    assert said in str(failed.value)


def test_a_render_function_that_was_never_compared_proves_nothing() -> None:
    """No conversation, and one of a single prompt."""
    for conversations in ([], [agent()[0]["messages"]]):
        with pytest.raises(NotAppendOnly, match="nothing was compared"):
            assert_prefix_stable(rendering(CHATML_TOOLS), conversations)


def test_a_recorder_that_keeps_references_proves_nothing() -> None:
    """All requests share the one list that grew under them, so all look alike."""
    messages = agent()[0]["messages"]
    requests = []
    for turn in range(3):
        requests.append({"model": "m", "messages": messages})
        messages += step("a", turn)
    for bodies in (requests, [Odd(request) for request in requests]):
        with pytest.raises(NotAppendOnly, match="share one list of messages; record copies"):
            assert_append_only(bodies)


@forms
def test_conversations_may_share_their_first_messages(form: Any) -> None:
    """An environment, a long context, worked examples: what differs is the task behind them."""
    system, *_ = agent()[0]["messages"]
    shared = [system, {"role": "user", "content": "<environment> os=linux, shell=bash </environment>\n" * 3}]
    replied = [*shared, {"role": "assistant", "content": "Understood."}]
    for opening in (shared, replied):
        tasks = [[*opening, {"role": "user", "content": text}] for text in ("Mend the parser.", "Write a poem.")]
        grown = [[*task, {"role": "assistant", "content": f"I do {task[-1]}."}, task[1]] for task in tasks]
        bodies = [{**agent()[0], "messages": messages} for messages in (*tasks, *grown)]
        assert relations(form(bodies)) == [NEW, NEW, MORE, MORE]


@pytest.mark.parametrize("has_tools", [True, False])
def test_a_request_for_a_title_is_no_break(has_tools: bool) -> None:
    """It quotes the task under a system text of its own and without tools, before the conversation or beside it."""
    bodies = agent()
    if not has_tools:
        bodies = [{name: value for name, value in body.items() if name != "tools"} for body in bodies]
    told = {"role": "system", "content": "Write a title of at most six words; answer with nothing else."}
    title = {"model": "m", "messages": [told, bodies[0]["messages"][1]]}
    for at in range(3):
        assert relations([*bodies[:at], title, *bodies[at:]]).count(MOVED) == 0
    changed = [{**title, "messages": [{**told, "content": told["content"] + " 12:31"}, title["messages"][1]]}]
    assert relations([title, *changed]) == [NEW, MOVED]  # but a clock in such a text is


def test_a_break_is_reported_once_and_the_conversation_goes_on() -> None:
    """What moved at one request stands from there on."""
    assert relations([request.body for request in from_here(respelled(100))]) == [NEW, MORE, MORE, MOVED, MORE, MORE]


@forms
def test_a_clock_in_the_head_breaks_every_request(form: Any) -> None:
    """Nothing of the beginning is shared, and they are still known for one conversation."""
    bodies = agent()
    for minute, body in enumerate(bodies):
        in_system(body, f"It is 10:0{minute}.")
    report = check_requests(form(bodies))
    assert [pair.relation for pair in report.pairs] == [NEW, *[MOVED] * 5]
    assert {str(pair.diagnosis.kind) for pair in report.breaks if pair.diagnosis} == {"clock"}


@given(st.lists(st.sampled_from(["mappings", "JSON"]), min_size=4, max_size=4))
def test_bodies_and_their_json_may_be_mixed(kinds: list[str]) -> None:
    """Then they are compared as what they mean, in the order they have."""
    bodies = agent()[:4]
    mixed = [body if kind == "mappings" else json.dumps(body) for body, kind in zip(bodies, kinds, strict=True)]
    assert relations(mixed) == [NEW, MORE, MORE, MORE]


class Odd(dict[str, Any]):
    """A mapping that marshal does not know."""


def test_messages_of_other_mappings_are_read_too() -> None:
    """What is no plain dict is read as JSON, and compared all the same."""
    bodies = agent()
    for body in bodies:
        body["messages"] = [Odd(message) for message in body["messages"]]
    assert relations(bodies) == [NEW, *[MORE] * 5]
    bodies[4]["messages"][3]["content"] = "another result"
    assert relations(bodies)[4:] == [MOVED, MORE]  # the last one extends what was sent before the edit


@pytest.mark.parametrize("body", [{"model": "m"}, {"messages": [{"role": "user", "content": {1, 2}}]}])
def test_what_is_no_request_is_refused(body: Any) -> None:
    """With an error that names what was given."""
    with pytest.raises((ValueError, TypeError), match=r"chat body|JSON form"):
        check_requests([body])


@settings(max_examples=200)  # any bytes at all, and a check costs a millisecond
@given(st.lists(st.text('{}[]":,\\ messages\n<think>1', max_size=120) | st.binary(max_size=80), max_size=4))
def test_any_text_is_a_raw_prompt(prompts: list[str | bytes]) -> None:
    """Broken JSON is one too; no input makes the check fail, and one alone is never a break."""
    assert len(check_requests(prompts).pairs) == len(prompts)
    assert not check_requests(prompts[:1]).breaks


# Render functions.


def rendering(source: str) -> Any:
    template = Template(source)
    return lambda messages: template.render(messages, generation_prompt=True)


def test_a_template_that_only_appends_is_stable() -> None:
    """At every boundary where a prompt is sent."""
    assert_prefix_stable(rendering(CHATML_TOOLS), [body["messages"] for body in agent()])


def test_a_template_that_drops_reasoning_is_caught_although_the_messages_only_grew() -> None:
    """The one that everyone misses: a user speaks, and the thoughts of the loop before are gone."""
    with pytest.raises(NotAppendOnly, match="template: reasoning dropped, at the rendered prompt, byte "):
        assert_prefix_stable(rendering(THINKING), [agent()[-1]["messages"]])


def test_a_render_function_may_return_bytes() -> None:
    """And what it raises goes through."""
    assert_prefix_stable(lambda messages: json.dumps(messages).encode()[:-1], [agent()[-1]["messages"]])
    with pytest.raises(ZeroDivisionError):
        assert_prefix_stable(lambda messages: f"{1 // 0}", [agent()[-1]["messages"]])


@pytest.mark.slow
def test_the_cost_is_linear_in_what_is_sent() -> None:
    """Four times the requests of a length cost about four times as much, whatever form they have."""

    def cost_s(n: int) -> float:
        bodies = [as_json(agent(f"{i}", 12)) for i in range(n)]
        turns = [body for turn in zip_longest(*bodies) for body in turn]
        started = time.process_time()
        assert not check_requests(turns).breaks
        return time.process_time() - started

    cost_s(10)
    assert min(cost_s(160) for _ in range(2)) < 4 * 3 * min(cost_s(40) for _ in range(2))
