"""Replies: text, reasoning and calls are found in whatever a model sampled, and nothing in it raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.replies import JSON_CALLS, CallSyntax, GivenIds, Parsed, ToolCall, parse_reply

from ..render.families import (
    COMMAND_CALLS,
    EXTENDING,
    GLM_CALLS,
    HARMONY_CALLS,
    LLAMA_CALLS,
    MISTRAL_CALLS,
    REWRITING,
    XML_CALLS,
    Family,
)
from ..render.talk import NASTY, arguments, dialect, for_every, names, often, texts

SYNTAXES = [JSON_CALLS, XML_CALLS, GLM_CALLS, MISTRAL_CALLS, COMMAND_CALLS, LLAMA_CALLS, HARMONY_CALLS]
READABLE = [
    one
    for one in EXTENDING + REWRITING
    if one.has_calls
    and one.syntax in (JSON_CALLS, MISTRAL_CALLS, COMMAND_CALLS, LLAMA_CALLS, HARMONY_CALLS)
    and not (one.takes_text or (one.thought is not None and one.thought.is_prompted))
]
"""Families that write JSON, in which any argument can be told."""
FORGIVING = CallSyntax("<tool_call>", "</tool_call>", lambda text, tools: {"name": "f", "arguments": {"text": text}})
"""A parser that takes anything, as some of mlx-lm's do."""


def read(text: str | bytes, syntax: CallSyntax = JSON_CALLS, **options: Any) -> Parsed:
    return parse_reply(text if isinstance(text, bytes) else text.encode(), syntax, index=5, **options)


def spoken(name: str = "f", **given: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': given}, ensure_ascii=False)}</tool_call>"


def named(parsed: Parsed) -> list[tuple[str, Any]]:
    return [(call.name, dict(call.arguments)) for call in parsed.calls if not call.error]


def errors(parsed: Parsed) -> list[str]:
    return [call.error for call in parsed.calls]


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.opener)
@given(st.data())
def test_parse_never_raises(syntax: CallSyntax, data: st.DataObject) -> None:
    """Not on any bytes, nor on any soup of marks; and every id it gives is unique."""
    marks = [syntax.opener, syntax.closer, "<think>", "</think>", '{"name": "f"}', '{"name": "\\ud800", "id": 1}', "[]"]
    soup = st.lists(st.binary(max_size=4) | st.sampled_from(marks).map(str.encode), max_size=12).map(b"".join)
    parsed = read(data.draw(soup), syntax, generation_prompt=data.draw(st.sampled_from(["", "<think>\n"])))
    ids = [call.id for call in parsed.calls]
    assert len(set(ids)) == len(ids)
    assert all(call.error or call.name for call in parsed.calls)
    json.dumps([parsed.text, parsed.reasoning, *((call.name, call.error) for call in parsed.calls)]).encode()
    "".join(call.name + call.error for call in parsed.calls).encode()


@for_every(READABLE, made=[("shell", {"text": NASTY, "n": 3}), ("a", {})])
@often(3)
@given(family=st.sampled_from(READABLE), made=st.lists(st.tuples(names, arguments), min_size=1, max_size=3))
def test_what_a_template_prints_for_calls_is_read_back(family: Family, made: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever the arguments hold: the marks of calls too, their openers, closers, and whole calls."""
    calls = made[: family.n_calls]
    tool_calls = [
        {"id": f"call0000{n}", "type": "function", "function": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(calls)
    ]
    user = {"role": "user", "content": "Hi"}
    template = dialect(family).template
    before = template.render([user], generation_prompt=True)
    whole = template.render([user, {"role": "assistant", "content": "", "tool_calls": tool_calls}])
    sampled = next((whole.removesuffix(closer) for closer in family.closers if whole.endswith(closer)), whole)
    assert named(dialect(family).parse(sampled[len(before) :].encode(), 1)) == calls


@given(st.lists(st.tuples(names, st.dictionaries(texts, texts, max_size=3)), max_size=4), st.text("ab \n", max_size=5))
def test_calls_and_the_text_around_them_are_told_apart(calls: list[tuple[str, dict[str, str]]], around: str) -> None:
    parsed = read(around + around.join(spoken(name, **given) for name, given in calls) + around)
    assert named(parsed) == calls
    assert parsed.text == (around * (len(calls) + 1 if calls else 2)).strip()


@pytest.mark.parametrize(
    "prompt, reply, reasoning, text",
    [
        ("", "Hello", "", "Hello"),
        ("", "<think>\nwhy\n</think>\n\nHello", "why", "Hello"),
        ("", "\n<think>why</think>Hello", "why", "Hello"),
        ("assistant\n<think>\n", "why\n</think>\n\nHello", "why", "Hello"),
        ("assistant\n<think>\n", "<think>why</think>Hello", "why", "Hello"),
        ("assistant\n<think>\n", "it says <think> here</think>Hello", "it says <think> here", "Hello"),
        ("assistant\n<think>\n\n</think>\n\n", "Hello", "", "Hello"),
        ("", "<think>never closed", "never closed", ""),
        ("<think>", "never closed", "never closed", ""),
        ("<think>", "", "", ""),
        ("", "Hello <think> is a mark", "", "Hello <think> is a mark"),
        ("", "<|channel>thought\nwhy<channel|>Hello", "why", "Hello"),
        ("", "[THINK]why[/THINK]Hello", "why", "Hello"),
    ],
)
def test_reasoning_is_what_stands_between_its_marks(prompt: str, reply: str, reasoning: str, text: str) -> None:
    assert read(reply, generation_prompt=prompt) == Parsed(text, reasoning)


def test_a_call_inside_the_reasoning_is_a_thought() -> None:
    parsed = read(f"<think>maybe {spoken('g')}</think>{spoken('f')}")
    assert [name for name, _ in named(parsed)] == ["f"] and "maybe" in parsed.reasoning


def test_a_call_that_was_required_of_a_thinker_is_a_call() -> None:
    """The tool choice may hold the reply to a call although the prompt has opened the reasoning."""
    parsed = read(spoken("f", a=1), generation_prompt="<think>\n")
    assert named(parsed) == [("f", {"a": 1})] and not parsed.reasoning
    thought = read(f"{spoken('f')} no.</think>Hello", generation_prompt="<think>\n")
    assert not thought.calls and thought.text == "Hello"


@pytest.mark.parametrize(
    "body, given",
    [
        ('{"name": "f"}', {}),
        ('{"name": "f", "arguments": {}}', {}),
        ('{"name": "f", "arguments": null}', {}),
        ('{"name": "f", "arguments": ""}', {}),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', {"a": 1}),
        ('{"name": "f", "parameters": {"a": 1}}', {"a": 1}),
        ('\n  {"arguments": {"a": "é🙂"}, "name": "f"}\n', {"a": "é🙂"}),
        ('[{"name": "f", "arguments": {"a": 1}}]', {"a": 1}),
    ],
)
def test_arguments_are_found_in_every_form_models_write(body: str, given: dict[str, Any]) -> None:
    assert named(read(f"<tool_call>{body}</tool_call>")) == [("f", given)]


def test_a_list_between_the_marks_is_several_calls() -> None:
    parsed = read('<tool_call>[{"name": "f"}, {"name": "g", "arguments": {"a": 1}}]</tool_call> and')
    assert named(parsed) == [("f", {}), ("g", {"a": 1})] and parsed.text == "and"


@pytest.mark.parametrize(
    "reply, error",
    [
        ("<tool_call>", "cut off before </tool_call>"),
        ('<tool_call>{"name": "f", "argum', "cut off before </tool_call>"),
        ('<tool_call>{"name": "f", "arguments": {}}', "cut off before </tool_call>"),
        ("<tool_call>f(1)</tool_call>", "does not parse: Expecting value"),
        ("<tool_call></tool_call>", "does not parse"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "does not parse: maximum recursion"),
        ('<tool_call>{"arguments": {}}</tool_call>', 'an object with "name"'),
        ('<tool_call>{"name": " "}</tool_call>', 'an object with "name"'),
        ('<tool_call>{"name": 7}</tool_call>', 'an object with "name"'),
        ("<tool_call>[]</tool_call>", 'an object with "name"'),
        ('<tool_call>"f"</tool_call>', 'an object with "name"'),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', '"arguments" must be an object'),
        ('<tool_call>{"name": "f", "arguments": "not json"}</tool_call>', '"arguments" must be an object'),
        ('<tool_call>{"name": "f", "arguments": false}</tool_call>', '"arguments" must be an object'),
    ],
)
def test_a_call_that_is_wrong_says_how(reply: str, error: str) -> None:
    parsed = read(reply)
    assert len(parsed.calls) == 1 and error in parsed.calls[0].error
    assert parsed.calls[0].id == "c00005000"


def test_a_wrong_call_spoils_no_other() -> None:
    parsed = read(f"{spoken('f')}\n<tool_call>{{</tool_call>\n{spoken('g')}")
    assert [bool(error) for error in errors(parsed)] == [False, True, False]
    assert [call.id for call in parsed.calls] == ["c00005000", "c00005001", "c00005002"]


def test_a_parser_that_says_everything_is_quoted_in_short() -> None:
    def parse_(text: str, tools: object) -> object:
        raise ValueError(f"could not parse {text}\ud800")

    (error,) = errors(read(f"<tool_call>{'x' * 9000}</tool_call>", JSON_CALLS._replace(parse=parse_)))
    assert len(error) < 300 and error.encode()


@pytest.mark.parametrize("syntax", [XML_CALLS, GLM_CALLS], ids=["xml", "glm"])
@pytest.mark.parametrize(
    "value",
    [
        "ends with </tool_call> and goes on",
        "opens <tool_call> and goes on",
        "opens <tool_call>",
        "a whole <tool_call>\n<function=shell>\n</function>\n</tool_call> inside",
        "two <tool_call>a</tool_call>\n<tool_call>b</tool_call> inside",
    ],
)
def test_marks_inside_arguments_that_are_not_json_are_arguments(syntax: CallSyntax, value: str) -> None:
    """As when a model edits a page about calls."""
    bodies = {
        XML_CALLS: f"\n<function=write>\n<parameter=text>\n{value}\n</parameter>\n</function>\n",
        GLM_CALLS: f"write\n<arg_key>text</arg_key>\n<arg_value>{value}</arg_value>\n",
    }
    parsed = read(f"Now: <tool_call>{bodies[syntax]}</tool_call>\n", syntax)
    assert named(parsed) == [("write", {"text": value})] and parsed.text == "Now:"


@pytest.mark.parametrize("syntax", [XML_CALLS, FORGIVING], ids=["strict", "forgiving"])
def test_a_call_inside_the_text_of_one_that_was_cut_off_never_runs(syntax: CallSyntax) -> None:
    """A page about calls that hits the token limit must not delete anything."""
    example = "<tool_call>\n<function=delete_all>\n</function>\n</tool_call>"
    parsed = read(f"<tool_call>\n<function=write>\n<parameter=text>\nCall it so: {example} and th", syntax)
    assert len(parsed.calls) == 1 and "cut off" in parsed.calls[0].error
    strange = f"<tool_call>\n<function=write>\n<parameter=text>\nends with </tool_call>, as in {example} and th"
    assert len(read(strange, XML_CALLS).calls) == 1 and errors(read(strange, XML_CALLS)) != [""]


def test_a_broken_call_is_not_mended_with_the_next_one() -> None:
    body = "<function=f>\n<parameter=a>\n1\n</parameter>\n"
    parsed = read(f"<tool_call>{body}</tool_call>\n<tool_call>{body}</function></tool_call>", XML_CALLS)
    assert [bool(error) for error in errors(parsed)] == [True, False]


def test_a_syntax_without_a_closer_ends_where_the_next_call_opens() -> None:
    parsed = read('So: [TOOL_CALLS][{"name": "f"}, {"name": "g"}][TOOL_CALLS] {"name": "h"} then', MISTRAL_CALLS)
    assert [name for name, _ in named(parsed)] == ["f", "g", "h"] and parsed.text == "So:  then"
    inside = read('[TOOL_CALLS][{"name": "f", "arguments": {"a": "[TOOL_CALLS] [/x"}}]', MISTRAL_CALLS)
    assert named(inside) == [("f", {"a": "[TOOL_CALLS] [/x"})]


def test_a_model_without_a_call_syntax_only_talks() -> None:
    assert read("<tool_call>{}</tool_call>", CallSyntax("", "", JSON_CALLS.parse)).calls == ()


@given(st.integers(0, 60_000_000), st.integers(1, 120))
def test_our_ids_are_unique_deterministic_and_nine_letters_long(index: int, n_calls: int) -> None:
    data = (spoken() * n_calls).encode()
    ids, again = ([call.id for call in parse_reply(data, JSON_CALLS, index=index).calls] for _ in range(2))
    other = {call.id for call in parse_reply(data, JSON_CALLS, index=index + 1).calls}
    assert ids == again and len(set(ids)) == n_calls and other.isdisjoint(ids)
    assert all(len(one) == 9 and one.isalnum() and one.isascii() for one in ids)


def test_two_calls_of_one_id_are_kept_apart() -> None:
    body = '<tool_call>{"name": "f", "id": "same"}</tool_call>'
    assert [call.id for call in read(body * 3).calls] == ["same", "c00005001", "c00005002"]


def test_an_id_of_ours_that_the_model_took_is_given_once() -> None:
    body = '<tool_call>{"name": "f", "id": "c00005001"}</tool_call>'
    assert [call.id for call in read(body + spoken() + spoken()).calls] == ["c00005001", "c00005002", "c00005003"]


@pytest.mark.parametrize("given", ["", "a b", "<|im_end|>", "x" * 101, "é" * 3 + "\n"])
def test_an_id_that_could_be_taken_for_scaffold_is_replaced(given: str) -> None:
    body = json.dumps({"name": "f", "id": given})
    assert [call.id for call in read(f"<tool_call>{body}</tool_call>").calls] == ["c00005000"]


@pytest.mark.parametrize("kind, kept", [(GivenIds.NONE, 0), (GivenIds.NINE, 1), (GivenIds.ANY, 2)])
def test_only_ids_the_template_takes_are_kept(kind: GivenIds, kept: int) -> None:
    ids = ["AbCdEf123", "functions.f:0"]
    text = "".join(f"<tool_call>{json.dumps({'name': 'f', 'id': one})}</tool_call>" for one in ids)
    assert len({call.id for call in read(text, given_ids=kind).calls} & set(ids)) == kept


def test_a_name_with_half_a_surrogate_pair_is_written_out() -> None:
    """JSON can say it, a conversation file cannot."""
    (call,) = read('<tool_call>{"name": "f\\ud800"}</tool_call>').calls
    assert call == ToolCall("c00005000", "f\\ud800")


@pytest.mark.slow
def test_a_reply_full_of_marks_is_read_in_time() -> None:
    """Marks are looked at a limited way ahead, so the time grows with the length and not with its square."""
    for mark in ("<tool_call>", "</tool_call>", "<tool_call>{", "<tool_call></tool_call>x"):
        read(mark * 5_000, FORGIVING)
        read(mark * 5_000)
