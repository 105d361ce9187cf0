"""How a template writes calls is learned from it: what it writes is read back, and nothing else is a call."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.conversation import Head
from oasis_harness.render import Dialect
from oasis_harness.replies import CallSyntax, Parsed, ToolCall, parse_reply, with_stand_ins

from ..render.families import VARIABLES
from ..render.talk import DATE, EPOCH
from ..render.templates import COMMAND, HARMONY, LLAMA, MISTRAL
from .call_templates import SHAPES, Shape

STOPS = ("<|end|>",)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)

MARKS = [
    "<|call|>",
    "</tool_call>",
    "</seed:call>",
    "<function=f>",
    "]",
    "}",
    '"',
    "\\",
    "\n",
    "'",
    "(",
    ")",
    ", ",
    "a=",
]
MARKS += ["```", "<|/calls|>", "</function_calls>"]
texts = st.lists(st.sampled_from(MARKS) | st.text(max_size=4), max_size=6).map("".join)
json_values = st.recursive(
    texts | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["read_file", "shell", "a-b.c"])
calls = st.tuples(names, st.dictionaries(st.sampled_from(["path", "n", "zeta"]), json_values, max_size=3))


def spoken(shape: Shape) -> Dialect:
    return Dialect.compose(shape.source, stops=STOPS)


def schemas(made: list[tuple[str, dict[str, Any]]]) -> list[bytes]:
    """Return tools whose parameters have the types that they are called with."""
    properties: dict[str, dict[str, Any]] = {}
    for name, arguments in made:
        for key, value in arguments.items():
            properties.setdefault(name, {})[key] = {"type": "string"} if isinstance(value, str) else {}
    return [
        json.dumps({"type": "function", "function": {"name": name, "parameters": {"properties": some}}}).encode()
        for name, some in properties.items()
    ]


def written(dialect: Dialect, made: list[tuple[str, dict[str, Any]]]) -> str:
    """Return the model's own bytes, as the template writes them."""
    user = {"role": "user", "content": "Hi"}
    tool_calls = [
        {"id": f"call0000{n}", "type": "function", "function": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(made)
    ]
    reply = {"role": "assistant", "content": "", "tool_calls": tool_calls}
    before = dialect.template.render([user], generation_prompt=True)
    return dialect.template.render([user, reply])[len(before) :].removesuffix("<|end|>")


def found(parsed: Parsed) -> list[tuple[str, str]]:
    return [(call.name, json.dumps(dict(call.arguments))) for call in parsed.calls if not call.error]


def wanted(made: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(name, json.dumps(arguments)) for name, arguments in made]


def without(made: list[tuple[str, dict[str, Any]]], mark: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, json.loads(json.dumps(given).replace(mark, "-"))) for name, given in made]


@every_shape
def test_every_shape_is_learned(shape: Shape) -> None:
    dialect = spoken(shape)
    assert dialect.certificate.layout is not None and dialect.certificate.calls is not None
    assert dialect.certificate.remarks == () and dialect.syntax == CallSyntax.of_layout(dialect.certificate.layout)
    json.dumps(dialect.certificate.to_json())


@every_shape
def test_tools_are_handed_to_a_template_whose_calls_were_learned(shape: Shape) -> None:
    tool = schemas([("shell", {"path": ""})])[0]
    messages, tools = spoken(shape).first_messages(Head(EPOCH, b"", (tool,)), "Hi")
    assert tools == [json.loads(tool)] and messages == [{"role": "user", "content": "Hi"}]


@every_shape
@given(made=st.lists(calls, min_size=1, max_size=2))
def test_what_it_writes_for_calls_is_read_back(shape: Shape, made: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever the arguments hold. Where values are bare text, it is that which ends one that they cannot hold."""
    dialect, made = spoken(shape), made[: shape.n_calls]
    if not shape.is_exact:
        for mark in ("</parameter>", "</D_parameter>"):
            made = without(made, mark)
        kinds = {name: {key: isinstance(value, str) for key, value in arguments.items()} for name, arguments in made}
        if any(
            key in kinds[name] and kinds[name][key] != isinstance(value, str)
            for name, given in made
            for key, value in given.items()
        ):
            made = made[:1]  # one parameter is text in one call and not in the other: no schema says so
    parsed = dialect.parse(written(dialect, made).encode(), 1, schemas(made))
    assert found(parsed) == wanted(made) and len(parsed.calls) == len(made)
    assert parsed.text == ""


@every_shape
@given(made=calls, share=st.floats(0, 1))
def test_a_call_that_was_cut_off_is_none(shape: Shape, made: tuple[str, dict[str, Any]], share: float) -> None:
    dialect = spoken(shape)
    whole = written(dialect, [made]).strip()
    cut = whole[: min(int(share * len(whole)), len(whole) - 1)]
    assert found(dialect.parse(cut.encode(), 1, schemas([made]))) == []


@every_shape
@given(text=st.lists(st.sampled_from(MARKS) | st.text(max_size=9), max_size=12).map("".join))
def test_garbage_is_no_call(shape: Shape, text: str) -> None:
    """With the opener or without; whatever is found has an error, and nothing raises."""
    syntax = spoken(shape).syntax
    for reply in (text, syntax.opener + text, text + syntax.opener + text + syntax.closer):
        parsed = parse_reply(reply.encode(), syntax, index=1)
        assert found(parsed) == []


def test_marks_that_are_spelled_only_are_no_marks() -> None:
    """A model that explains how calls are written, letter by letter, makes none."""
    dialect = spoken(next(one for one in SHAPES if one.name == "an object after an id and a name"))
    specials = ["<|calls|>", "<|/calls|>", "<|c:begin|>", "<|c:name|>", "<|end|>"]
    assert set(dialect.marks_among(specials)) == set(specials[:-1])
    data = written(dialect, [("shell", {})]).encode()
    assert len(dialect.parse(data, 1).calls) == 1
    assert dialect.parse(with_stand_ins(data, [(0, len(b"<|calls|>"))]), 1).calls == ()


@pytest.mark.parametrize(
    "reply, calls",
    [
        ('{"name": "shell", "parameters": {"path": "a"}}', ["shell"]),
        (' {"parameters": {}, "name": "shell"}\n', ["shell"]),
        ('{"name": "Bob", "age": 3}', []),
        ('{"name": "Bob", "parameters": {}, "age": 3}', []),
        ('{"name": "Bob"}', []),
        ('{"name": "shell", "parameters": "a"}', []),
        ('You can say {"name": "shell", "parameters": {}}', []),
        ('{"name": "shell", "parameters": {}} calls it.', ["error"]),
        ('{"name": "shell", "parameters": {"pa', ["error"]),
        ('{"name": "other", "parameters": {"pa', []),
    ],
)
def test_a_call_without_marks_is_the_whole_reply(reply: str, calls: list[str]) -> None:
    parsed = spoken(SHAPES[0]).parse(reply.encode(), 1, schemas([("shell", {"path": ""})]))
    assert ["error" if call.error else call.name for call in parsed.calls] == calls
    assert bool(parsed.text) == (not calls)


@pytest.mark.parametrize(
    "reply",
    [
        ' to=functions.shell<|channel|>commentary json<|message|>{"path": "a"}',
        '<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{"path": "a"}',
        '<|channel|>commentary to=functions.shell<|message|>{"path": "a"}',
        '<|start|>assistant<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{"path": "a"}',
    ],
)
def test_harmony_is_read_as_its_models_sample_it(reply: str) -> None:
    dialect = spoken(next(one for one in SHAPES if one.name == "harmony"))
    assert dialect.parse(reply.encode(), 1) == Parsed("", "", (ToolCall("c00001000", "shell", {"path": "a"}),))
    assert dialect.parse(b"Write it to=functions.shell, I said.", 1).calls == ()


@pytest.mark.parametrize("source", [LLAMA, MISTRAL, HARMONY, COMMAND])
def test_the_families_are_learned_where_nobody_knows_their_syntax(source: str) -> None:
    layout = Dialect.compose(source, variables=VARIABLES, date=DATE).certificate.layout
    assert layout is not None and not layout.is_whole


UNREADABLE = SHAPES[-3].source.replace("k + '=' + v | tojson", "k + '=' + v | string")


@pytest.mark.parametrize(
    "source, reason",
    [
        (UNREADABLE, "what it writes for a call does not say what the call said"),
        (SHAPES[1].source.replace("f.arguments | tojson", "f.arguments | string"), "arguments is not known"),
        (SHAPES[3].source.replace("<|call|>", "<|end|>\\n<|call|>"), "a call is a message of its own"),
        (SHAPES[6].source.replace("'<function=' + f.name + '>' +", "'<call>' +"), "the name of a call once"),
    ],
    ids=["unquoted", "python", "own message", "no name"],
)
def test_a_template_whose_calls_do_not_come_back_has_them_as_text(source: str, reason: str) -> None:
    """The template's own tools would be called in a way the harness does not see; as text they are."""
    found = Dialect.compose(source, stops=STOPS).certificate
    assert found.has_tools and found.native is not None and found.calls is None and found.layout is None
    assert len(found.remarks) == 1 and reason in found.remarks[0]
