"""Request bodies and tools as they go to an API become what a chat template takes, or are refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.guard.snapshots import snapshot_of
from oasis_harness.guard.targets import Dialects, Spoken, Subject, subject_of
from oasis_harness.guard.targets.bodies import chat_of, tool_objects

FIXTURES = Path(__file__).parents[3] / "fixtures" / "dialects"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "default": 1.0}}, "required": ["path"]}
OPENAI: dict[str, Any] = {
    "type": "function",
    "function": {"name": "read", "description": "Read.", "parameters": SCHEMA},
}
ANTHROPIC = {"name": "read", "description": "Read.", "input_schema": SCHEMA}
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


def spoken(name: str) -> Spoken:
    (found,) = Dialects(FIXTURES, FIXTURES).find(name)
    return found


def prompt(subject: Subject, name: str = "chatml-tools") -> bytes:
    one = spoken(name)
    return snapshot_of(subject.spoken(one), one.dialect, name="x", dialect_name=name).data


def body(content: object = "hi", arguments: object = '{"path": "a", "n": 1.0}') -> dict[str, object]:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
    ]
    return {"model": "m", "messages": messages, "tools": [OPENAI]}


def test_a_body_of_anthropic_is_the_prompt_of_the_same_body_of_openai() -> None:
    """System text, parts, calls, results and tools, in both forms."""
    other = {
        "model": "m",
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a", "n": 1.0}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x = 1"}]},
        ],
        "tools": [ANTHROPIC],
    }
    for name in ("chatml", "chatml-tools", "glm", "llama"):
        assert prompt(Subject.of(other), name) == prompt(Subject.of(body()), name)
    assert b'{"path": "a", "n": 1.0}' in prompt(Subject.of(body()))


def test_tools_as_json_are_the_head_of_the_same_tools() -> None:
    """In either form, in the order and with the keys they were given."""
    heads = {prompt(Subject.of_head("s", tools, None, {})) for tools in ([OPENAI], [ANTHROPIC], (OPENAI["function"],))}
    assert len(heads) == 1 and b'"default": 1.0' in heads.pop()
    assert prompt(subject_of(("s", [OPENAI]))) == prompt(Subject.of_head("s", [OPENAI], None, {}))


EDITS: dict[str, Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]] = {
    "tool order": lambda one, two: [two, one],
    "key order": lambda one, two: [{**dict(reversed(one.items()))}, two],
    "float": lambda one, two: [json.loads(json.dumps(one).replace("1.0", "1")), two],
    "dropped": lambda one, two: [one],
    "word": lambda one, two: [json.loads(json.dumps(one).replace("Read.", "Read!")), two],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["chatml", "chatml-tools", "glm", "llama"])
def test_an_edit_of_a_list_of_tools_moves_the_prompt(edit: str, name: str) -> None:
    """Also one that only JSON shows, in a template that prints no tools as in one that does."""
    one, two = dict(OPENAI["function"]), {"name": "now", "parameters": {"type": "object"}}
    before, after = [one, two], EDITS[edit](one, two)
    talk = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
    bodies = [prompt(Subject.of({"messages": talk, "tools": tools}), name) for tools in (before, after)]
    heads = [prompt(Subject.of_head("s", tools, None, {}), name) for tools in (before, after)]
    assert bodies[0] != bodies[1] and heads[0] != heads[1]


@pytest.mark.parametrize("name", ["chatml", "chatml-tools", "glm"])
@given(content=WORDS, path=WORDS)
def test_spans_tile_the_prompt_and_own_what_they_say(name: str, content: str, path: str) -> None:
    one = spoken(name)
    found = snapshot_of(Subject.of(body(content, {"path": path})).spoken(one), one.dialect, name="x", dialect_name=name)
    assert [span.start for span in found.spans] == [0, *(span.end for span in found.spans)][:-1]
    assert found.spans[-1].end == len(found.data)
    own = [found.data[span.start : span.end] for span in found.spans if span.name == "messages[1].content"]
    assert own == ([content.strip().encode()] if content.strip() else [])
    if name != "chatml" and path.strip():
        calls = [span for span in found.spans if span.name.startswith("messages[2]")]
        assert path.strip().encode() in found.data[calls[0].start : calls[-1].end] or '"' in path or "\\" in path


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("text", "'text' (str)"),
        ({"prompt": "x"}, "one with prompt"),
        ({}, "one with nothing"),
        ({"messages": "x"}, "'x' (str)"),
        ({"messages": [{"role": "user", "content": "a"}, 3]}, "messages[1] is 3 (int)"),
        ({"messages": [{"content": "a"}]}, "messages[0] is"),
        ({"messages": [{"role": "user", "content": 7}]}, "the content of messages[0] is 7 (int)"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]}, "messages[0].tool_calls[0] is"),
        ({"messages": [], "tools": [OPENAI, 3]}, "tools[1] is 3 (int)"),
        ({"messages": [], "tools": 3}, "tools are 3 (int)"),
    ],
    ids=str,
)
def test_what_is_no_body_is_named(given: object, told: str) -> None:
    """What was given, where, and what is wanted."""
    with pytest.raises(TypeError) as error:
        chat_of(given)
    assert told in str(error.value) and ("messages" in str(error.value) or "tool" in str(error.value))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("text", "tools are 'text' (str); give Tools, or a list of JSON objects"),
        ([print], "tools[0] is <built-in function print>"),
        ([OPENAI, {"description": "x"}], "tools[1] is {'description': 'x'} (dict), which has no name"),
        ([{"name": "x", "parameters": {1: 2}}], "tools[0], 'x', is no JSON: a JSON key must be a string"),
        ([{"name": "x", "parameters": {"default": float("nan")}}], "tools[0], 'x', is no JSON"),
    ],
    ids=str,
)
def test_what_is_no_tool_is_named(given: object, told: str) -> None:
    with pytest.raises(TypeError) as error:
        tool_objects(given)
    assert told in str(error.value)


def test_an_image_is_seen_to_change_and_parts_are_lines() -> None:
    """A server caches by what the image is."""

    def image(data: str) -> bytes:
        parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": data}}]
        return prompt(Subject.of({"messages": [{"role": "user", "content": parts}]}), "chatml")

    assert image("a") != image("b") and b"see\n[image_url sha256:" in image("a")
