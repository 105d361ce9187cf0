"""Authored ranges: what a person, a tool or a schema says is told apart from scaffold, byte by byte."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.conversation import Conversation, Head, User
from oasis_harness.errors import UnsupportedTemplate
from oasis_harness.render import Delta, Dialect, Renderer

from .families import EXTENDING, REWRITING, VARIABLES
from .talk import EPOCH, Driver, Played, Step, Talk, dialect, in_every, often, plays, texts, tool
from .templates import CHATML, CHATML_TOOLS

EVERY = EXTENDING + REWRITING
words = texts.map(str.strip).filter(bool)


def pieces(delta: Delta) -> tuple[list[str], list[str]]:
    """Return (authored, scaffold) pieces of a delta, having checked that its ranges are in order and inside."""
    authored, scaffold, done = [], [], 0
    for start, end in delta.authored:
        assert done <= start < end <= len(delta.data)
        scaffold.append(delta.data[done:start].decode())
        authored.append(delta.data[start:end].decode())
        done = end
    return authored, [*scaffold, delta.data[done:].decode()]


def silenced(talk: Talk) -> Talk:
    """Return `talk` with every authored text replaced by an x; what the model said stays."""
    steps = [replace(step, back=["x"] * len(step.back), notes=["x"] * len(step.notes)) for step in talk.steps]
    return Talk("x", [tool(one["function"]["name"], "x") for one in talk.tools], "x", steps)


def first(source: str, text: str, *, system: str = "", tools: tuple[bytes, ...] = ()) -> Delta:
    renderer = Renderer(Dialect.compose(source, variables=VARIABLES))
    return renderer.extend(Conversation(Head(EPOCH, system.encode(), tools)).tip, User(text.encode()))


@pytest.mark.slow
@in_every(EVERY)
@often(5)
@given(played=plays(EVERY, words))
def test_no_byte_of_the_scaffold_depends_on_what_anyone_wrote(played: Played) -> None:
    """So no mark that a person types or a tool prints can ever pass for the template's own."""
    family, talk = played
    spoken = dialect(family)
    noisy, silent = Driver(spoken, family, talk), Driver(spoken, family, silenced(talk))
    assert [pieces(delta)[1] for delta, _ in noisy.turns] == [pieces(delta)[1] for delta, _ in silent.turns]


@pytest.mark.slow
@in_every(EVERY)
@given(played=plays(EVERY))
def test_every_range_is_a_text_that_was_written(played: Played) -> None:
    """As it was written, its ends trimmed, or as it stands inside a JSON string."""
    driver = Driver.of(played)
    for delta, written in driver.turns:
        forms = [{text.strip(), json.dumps(text.strip(), ensure_ascii=False)[1:-1]} for text in written if text.strip()]
        found = set(pieces(delta)[0])
        assert found <= set().union(*forms)
        assert not any(form.isdisjoint(found) for form in forms)


@pytest.mark.parametrize("mark", ["<|im_start|>", "<|im_end|>", "<tool_call>", "</think>"])
def test_a_mark_typed_by_anyone_lies_in_a_range(mark: str) -> None:
    family = EXTENDING[1]
    talk = Talk(mark, [tool("shell", mark)], mark, [Step("", [("shell", {})], [mark], [mark])])
    driver = Driver(dialect(family), family, talk)
    authored = [piece for delta, _ in driver.turns for piece in pieces(delta)[0]]
    assert len([piece for piece in authored if mark in piece]) == 5  # system, two descriptions, user, result with note


def test_the_check_can_fail() -> None:
    """A delta that forgot its ranges has what was typed in its scaffold."""
    delta = first(CHATML, "<|im_end|>")
    assert "<|im_end|>" in pieces(delta)[0]
    assert pieces(Delta(delta.data))[1] == ["<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"]


def test_every_free_text_of_a_schema_is_a_range_and_no_name_is() -> None:
    schema = {
        "type": "object",
        "title": "Title",
        "properties": {
            "description": {"type": "string", "enum": ["one", "two"], "default": "one", "examples": ["three"]},
            "default": {"type": "string", "pattern": "^a$", "const": "four"},
        },
        "required": ["description"],
    }
    spec = {"type": "function", "function": {"name": "read_file", "description": "Does it.", "parameters": schema}}
    delta = first(CHATML_TOOLS, "Hi", tools=(json.dumps(spec).encode(),))
    assert pieces(delta)[0] == ["Does it.", "Title", "one", "two", "one", "three", "^a$", "four", "Hi"]


@pytest.mark.parametrize("print_", ["tools | tojson", "tools", "tools | tojson(ensure_ascii=true)", "tools | string"])
def test_a_description_is_found_however_the_tools_are_printed(print_: str) -> None:
    """As JSON, as ASCII JSON or as Python's own words, the marks survive."""
    source = CHATML_TOOLS.replace("tool | tojson", print_)
    delta = first(source, "Hi", tools=(json.dumps(tool("shell", 'it\'s "é"\n')).encode(),))
    assert len(pieces(delta)[0]) == 3 and "shell" in pieces(delta)[1][0]


@pytest.mark.parametrize(
    "rewriting",
    [
        "message.content.replace('<|im_end|>', '')",
        "message.content[:100]",
        "message.content.split('STOP')[0]",
        "message.content.split('START')[-1]",
        "('' if 'secret' in message.content else message.content)",
        "('!' if message.content.startswith('<|') else '') + message.content",
        "(message.content | length | string if message.content | length > 100 else message.content)",
        "message.content | wordwrap(90)",
        "message.content + (message.content.replace('secret', '') if 'secret' in message.content else '')",
    ],
)
def test_a_text_that_the_template_changes_or_drops_is_refused(rewriting: str) -> None:
    """These change so rare a text that the certificate did not see it."""
    source = CHATML.replace("message.content", f"({rewriting})")
    assert first(source, "Hi").authored
    with pytest.raises(UnsupportedTemplate, match="changes or drops"):
        first(source, "<|im_end|> secret START of it STOP now " + "and more words " * 10)


def test_white_space_at_the_ends_belongs_to_no_range() -> None:
    """Templates trim it; inside it stays."""
    delta = first(CHATML, "\n two  words\t ")
    assert pieces(delta) == (["two  words"], ["<|im_start|>user\n\n ", "\t <|im_end|>\n<|im_start|>assistant\n"])


def test_a_text_that_is_printed_twice_has_two_ranges() -> None:
    source = CHATML.replace(
        "{% if add", "{% if messages | length == 1 %}{{ messages[0].content }}\n{% endif %}{% if add"
    )
    assert pieces(first(source, "Hi"))[0] == ["Hi", "Hi"]


@given(st.lists(st.integers(0, 30), unique=True, max_size=20))
def test_marks_step_aside_for_texts_that_hold_them(numbers: list[int]) -> None:
    text = " ".join(f"Z{number}oasis" for number in numbers) or "Z"
    assert pieces(first(CHATML, text))[0] == [text]
