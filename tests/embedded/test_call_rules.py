"""Every syntax that was learned from a template can be asked for: what is sampled under its grammar is such a call."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness import Sampling, ToolChoice, Tools
from oasis_harness.embedded.call_rules import layout_of
from oasis_harness.embedded.grammar import CallConstraint, grammar_tokenizer
from oasis_harness.errors import ToolChoiceUnsupported
from oasis_harness.replies import JSON_CALLS, CallSyntax, parse_reply
from oasis_harness.tokens import Tokenizer, byte_tokenizer

from ..certify.call_templates import SHAPES, Shape
from ..certify.test_call_layout import spoken, written

MARKS = ["<|im_end|>", "<|calls|>", "<|c:begin|>", "<|channel|>", "<|message|>", "<|call|>"]
MARKS += ["<seed:call>", "</seed:call>"]
PLAIN, NATIVE = byte_tokenizer(["<|im_end|>"]), byte_tokenizer(MARKS)
GRAMMARS = {id(tokenizer): grammar_tokenizer(tokenizer, len(tokenizer.pieces), 256) for tokenizer in (PLAIN, NATIVE)}
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
each_tokenizer = pytest.mark.parametrize("tokenizer", [PLAIN, NATIVE], ids=["bytes", "marks"])


def tools() -> Tools:
    tools = Tools()

    @tools.add
    def add(a: int, b: int = 0, exact: bool = False) -> int:
        """Add."""
        return a + b

    @tools.add
    def write(path: str, text: str = "", lines: list[int] | None = None) -> str:
        """Write."""
        return path

    @tools.add
    def clock(zone: str = "UTC") -> str:
        """Tell."""
        return zone

    @tools.add
    def stop() -> str:
        """Stop."""
        return ""

    return tools


SCHEMAS = tuple(tool.schema for tool in tools())
READ = [json.loads(schema) for schema in SCHEMAS]


def constraint(choice: ToolChoice, tokenizer: Tokenizer, syntax: CallSyntax, **options: Any) -> CallConstraint:
    sampling = Sampling(tool_choice=choice, tools=SCHEMAS, syntax=syntax, max_string=6, **options)
    return CallConstraint(sampling, tokenizer, GRAMMARS[id(tokenizer)])


def sampled(opened: CallConstraint, tokenizer: Tokenizer, seed: int) -> str:
    """Sample at random among what the constraint allows."""
    random = np.random.default_rng(seed)
    ids: list[int] = []
    while len(ids) < 4000 and not opened.is_done:
        logits = opened.mask(random.normal(size=len(tokenizer.pieces)).astype(np.float32))
        ids.append(int(np.argmax(logits)))
        opened.accept(ids[-1])
    return tokenizer.decode(ids).decode(errors="replace")


def allows(opened: CallConstraint, tokenizer: Tokenizer, text: str) -> bool:
    for token in tokenizer.encode(text.encode()):
        if not np.isfinite(opened.mask(np.zeros(len(tokenizer.pieces), dtype=np.float32))[token]):
            return False
        opened.accept(token)
    return True


@each_tokenizer
@every_shape
@given(seed=st.integers(0, 10_000))
def test_a_required_reply_is_a_call_that_is_read(shape: Shape, tokenizer: Tokenizer, seed: int) -> None:
    """A known name, and arguments that fit their schema, whatever the model would like to say."""
    syntax = spoken(shape).syntax
    opened = constraint(ToolChoice.REQUIRED, tokenizer, syntax)
    reply = sampled(opened, tokenizer, seed)
    if not opened.is_done:
        return  # a list may run on
    parsed = parse_reply(reply.encode(), syntax, index=1, tools=READ)
    assert parsed.text == "" and parsed.calls
    for call in parsed.calls:
        assert not call.error
        schema = next(one["function"]["parameters"] for one in READ if one["function"]["name"] == call.name)
        assert set(schema.get("required", ())) <= set(call.arguments) <= set(schema.get("properties", {}))
        assert isinstance(call.arguments.get("a", 0), int) and isinstance(call.arguments.get("path", ""), str)


@each_tokenizer
@every_shape
def test_what_the_template_writes_may_be_sampled(shape: Shape, tokenizer: Tokenizer) -> None:
    """In `auto` from the opener on, in `required` from the first token on; and no other name."""
    dialect = spoken(shape)
    made: list[tuple[str, dict[str, Any]]] = [("write", {"path": "a.py", "text": "b"}), ("add", {"a": 1, "b": 2})]
    several: list[list[tuple[str, dict[str, Any]]]] = [made[:1], made[1:], [("stop", {})], [("clock", {})]]
    for calls in (*several, made[: shape.n_calls]):
        text = written(dialect, calls).replace("call00000", "c00001000").replace("call00001", "c00001001")
        assert allows(constraint(ToolChoice.AUTO, tokenizer, dialect.syntax), tokenizer, text)
        wrong = text.replace("write", "wrong").replace("add", "odd").replace("stop", "step").replace("clock", "click")
        assert not allows(constraint(ToolChoice.AUTO, tokenizer, dialect.syntax), tokenizer, wrong)


@each_tokenizer
@every_shape
def test_none_opens_no_call(shape: Shape, tokenizer: Tokenizer) -> None:
    """The model's best token is masked for as long as it completes what opens one."""
    dialect = spoken(shape)
    closed = constraint(ToolChoice.NONE, tokenizer, dialect.syntax)
    ids: list[int] = []
    for token in tokenizer.encode(written(dialect, [("stop", {})]).encode()):
        logits = np.zeros(len(tokenizer.pieces), dtype=np.float32)
        logits[token] = 50.0
        ids.append(int(np.argmax(closed.mask(logits))))
        closed.accept(ids[-1])
    assert parse_reply(tokenizer.decode(ids), dialect.syntax, index=1, tools=READ).calls == ()


@every_shape
def test_text_before_a_call_is_free(shape: Shape) -> None:
    syntax = spoken(shape).syntax
    if not syntax.is_whole:
        assert allows(constraint(ToolChoice.AUTO, PLAIN, syntax), PLAIN, 'I look at {"name": 5}, (x=1) and </p>.')
    assert allows(constraint(ToolChoice.AUTO, PLAIN, syntax), PLAIN, 'Then {"name": "rm"} is text.')


def test_a_syntax_that_is_not_known_to_the_letter_has_no_grammar() -> None:
    """mlx-lm's parsers tell how a call is read, not how it is written."""
    foreign = CallSyntax("<a>", "</a>", JSON_CALLS.parse)
    assert layout_of(foreign) is None and layout_of(None) is None and layout_of(JSON_CALLS) is not None
    with pytest.raises(ToolChoiceUnsupported, match="known to the letter"):
        constraint(ToolChoice.REQUIRED, PLAIN, foreign)
