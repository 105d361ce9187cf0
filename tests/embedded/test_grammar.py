"""Tool choice holds calls to their schema while they are sampled, and touches nothing else."""

import datetime
import json
from dataclasses import replace
from enum import StrEnum
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from oasis_harness import Sampling, ToolChoice, Tools
from oasis_harness.embedded.decode import Sampler
from oasis_harness.embedded.grammar import CallConstraint, grammar_tokenizer
from oasis_harness.errors import BadTokenizer, ToolChoiceUnsupported
from oasis_harness.replies import JSON_CALLS, CallSyntax
from oasis_harness.tokens import Tokenizer, byte_tokenizer

PLAIN = byte_tokenizer(["<|im_start|>", "<|im_end|>"])
NATIVE = byte_tokenizer(["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>"])
GRAMMARS = {id(tokenizer): grammar_tokenizer(tokenizer, len(tokenizer.pieces), 257) for tokenizer in (PLAIN, NATIVE)}


def schemas() -> tuple[bytes, ...]:
    tools = Tools()

    @tools.add
    def add(a: int, b: int = 0) -> int:
        """Add."""
        return a + b

    @tools.add
    def read_file(path: str) -> str:
        """Read."""
        return path

    return tuple(tool.schema for tool in tools)


def constraint(choice: ToolChoice, tokenizer: Tokenizer = PLAIN, **options: Any) -> CallConstraint:
    sampling = Sampling(**{"tool_choice": choice, "tools": schemas(), "syntax": JSON_CALLS, **options})
    return CallConstraint(sampling, tokenizer, GRAMMARS[id(tokenizer)])


def sample(constraint: CallConstraint, tokenizer: Tokenizer, seed: int, n: int = 400) -> bytes:
    """Sample at random among what the constraint allows."""
    random = np.random.default_rng(seed)
    ids: list[int] = []
    while len(ids) < n and not constraint.is_done:
        logits = constraint.mask(random.normal(size=len(tokenizer.pieces)).astype(np.float32))
        ids.append(int(np.argmax(logits)))
        constraint.accept(ids[-1])
    return tokenizer.decode(ids)


def follow(constraint: CallConstraint, tokenizer: Tokenizer, data: bytes) -> bool:
    """Feed `data` token by token; return whether the constraint would have allowed every token."""
    for token in tokenizer.encode(data):
        if not np.isfinite(constraint.mask(np.zeros(len(tokenizer.pieces), dtype=np.float32))[token]):
            return False
        constraint.accept(token)
    return True


@pytest.mark.parametrize("tokenizer", [PLAIN, NATIVE])
@given(seed=st.integers(0, 10_000))
def test_a_required_reply_is_one_valid_call(tokenizer: Tokenizer, seed: int) -> None:
    """Whatever a model would like to say, it says a call: a known name, arguments that fit their schema."""
    opened = constraint(ToolChoice.REQUIRED, tokenizer)
    reply = sample(opened, tokenizer, seed, n=3000).decode(errors="replace")
    if not opened.is_done:  # a random string may run on; what is there is still a valid beginning
        assert reply.startswith('<tool_call>{"name": ')
        return
    call = json.loads(reply.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert call["name"] in ("add", "read_file")
    allowed = {"a", "b"} if call["name"] == "add" else {"path"}
    assert set(call["arguments"]) <= allowed


@pytest.mark.parametrize("tokenizer", [PLAIN, NATIVE])
def test_auto_arms_when_a_call_is_opened_and_disarms_when_it_is_closed(tokenizer: Tokenizer) -> None:
    """Text before, between and after calls is free; inside, only what fits."""
    good = b'I look.\n<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call> and {"name": 5}'
    assert follow(constraint(ToolChoice.AUTO, tokenizer), tokenizer, good)
    for bad in (b'<tool_call>{"name": "rm"', b'<tool_call>{"name": "add", "arguments": {"a": "x"', b"<tool_call>hello"):
        assert not follow(constraint(ToolChoice.AUTO, tokenizer), tokenizer, bad)


def test_auto_allows_the_line_breaks_families_write_inside_the_marks() -> None:
    """Qwen writes the call on a line of its own."""
    data = b'<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "read_file"'
    assert follow(constraint(ToolChoice.AUTO, NATIVE), NATIVE, data)


def test_special_tokens_stay_free_outside_calls() -> None:
    """Reasoning marks must work under every tool choice."""
    for choice in (ToolChoice.AUTO, ToolChoice.NONE):
        assert follow(constraint(choice, NATIVE), NATIVE, b"<think>hm<|im_end|>")


@pytest.mark.parametrize("tokenizer", [PLAIN, NATIVE])
@given(seed=st.integers(0, 10_000))
def test_none_never_opens_a_call(tokenizer: Tokenizer, seed: int) -> None:
    """However much a model wants to: its best token is masked for as long as it completes the opener."""
    closed = constraint(ToolChoice.NONE, tokenizer)
    wish = tokenizer.encode(b"<tool_call>" * 3)
    random = np.random.default_rng(seed)
    ids: list[int] = []
    for token in wish:
        logits = random.normal(size=len(tokenizer.pieces)).astype(np.float32)
        logits[token] = 50.0
        ids.append(int(np.argmax(closed.mask(logits))))
        closed.accept(ids[-1])
    assert b"<tool_call>" not in tokenizer.decode(ids)


def test_text_arguments_can_be_bounded() -> None:
    """A model that does not find the end of a text is given one; without a bound it may go on."""
    long = b'<tool_call>{"name": "read_file", "arguments": {"path": "' + b"x" * 30
    assert follow(constraint(ToolChoice.AUTO), PLAIN, long)
    assert not follow(constraint(ToolChoice.AUTO, max_string=20), PLAIN, long)
    assert follow(constraint(ToolChoice.AUTO, max_string=20), PLAIN, long[:-10] + b'"}}</tool_call> free again')


@given(seed=st.integers(0, 200))
def test_none_holds_at_any_temperature(seed: int) -> None:
    """The constraint sees the drawn scores, so a draw cannot slip past it; and nothing loops for ever."""
    sampling = Sampling(
        tool_choice=ToolChoice.NONE, syntax=CallSyntax("<t>", "</t>", JSON_CALLS.parse), temperature=50.0, seed=seed
    )
    tokenizer = byte_tokenizer(["<t>"])
    closed = CallConstraint(sampling, tokenizer, None)
    sampler = Sampler(sampling, closed, len(tokenizer.pieces), n_prompt=1)
    logits = mx.zeros(len(tokenizer.pieces))
    logits[tokenizer.specials["<t>"]] = 300.0
    ids = []
    for _ in range(20):
        ids.append(sampler.pick(logits))
        closed.accept(ids[-1])
    assert b"<t>" not in tokenizer.decode(ids)


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Shape(BaseModel):
    name: str
    sides: int


def test_every_schema_a_tool_can_have_gets_a_grammar_or_runs_free() -> None:
    """Enums and models have references into their own schema; what has no grammar still gets an object."""
    tools = Tools()

    @tools.add
    def paint(color: Color, shape: Shape) -> str:
        """Paint."""
        return ""

    @tools.add
    def unique(names: frozenset[int] | None = None, at: datetime.date | None = None) -> str:
        """Has keywords that not every grammar knows."""
        return ""

    options: dict[str, Any] = {"tools": tuple(tool.schema for tool in tools)}
    arguments = b'{"color": "red", "shape": {"name": "a", "sides": 3}}'
    good = b'<tool_call>{"name": "paint", "arguments": ' + arguments + b"}</tool_call>"
    assert follow(constraint(ToolChoice.REQUIRED, **options), PLAIN, good)
    assert not follow(constraint(ToolChoice.AUTO, **options), PLAIN, good.replace(b"red", b"green"))
    loose = b'<tool_call>{"name": "unique", "arguments": {}}</tool_call>'
    assert follow(constraint(ToolChoice.AUTO, **options), PLAIN, loose)


def test_required_without_tools_or_in_a_foreign_syntax_is_refused() -> None:
    """The message names what is missing; `auto` simply runs free there."""
    with pytest.raises(ToolChoiceUnsupported, match="0 tools"):
        constraint(ToolChoice.REQUIRED, tools=())
    with pytest.raises(ToolChoiceUnsupported, match="required"):
        constraint(ToolChoice.REQUIRED, syntax=replace(JSON_CALLS, is_json=False))
    assert follow(constraint(ToolChoice.AUTO, syntax=replace(JSON_CALLS, is_json=False)), PLAIN, b"<tool_call>anything")


def test_a_token_that_opens_a_call_and_begins_it_arms_the_grammar_in_its_middle() -> None:
    """Vocabularies have tokens such as `>{"`: the part after the opener counts as the call's beginning."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"<|im_start|>", b"<|im_end|>", b'>{"na', b'>"']
    tokenizer = Tokenizer(pieces, {"<|im_end|>": 257}, lambda text: text.encode(), digest="sha256:test")
    grammar = grammar_tokenizer(tokenizer, len(pieces), 257)
    for token, allowed in ((258, {ord("m")}), (259, set(range(256)))):
        sampling = Sampling(tools=schemas(), syntax=JSON_CALLS)
        opened = CallConstraint(sampling, tokenizer, grammar)
        for part in (*b"<tool_call", token):
            opened.accept(part)
        free = np.flatnonzero(np.isfinite(opened.mask(np.zeros(len(pieces), dtype=np.float32))))
        assert allowed <= set(free.tolist())
        assert (len(free) < 10) is (token == 258)  # one that already broke the call leaves it to the parser


def test_a_vocabulary_that_llguidance_cannot_hold_is_an_error() -> None:
    """Its table of tokens panics on two long ones, which no `except Exception` would have caught."""
    tokenizer = byte_tokenizer(["a" * 3_000, "b" * 3_000])
    with pytest.raises(BadTokenizer, match="grammar over this vocabulary: the library panicked"):
        grammar_tokenizer(tokenizer, len(tokenizer.pieces), 257)


def test_the_longest_special_tokens_of_a_file_fit_into_it() -> None:
    """The bound on them is below that of the table."""
    tokenizer = byte_tokenizer([letter * 1_000 for letter in "abc"])
    assert grammar_tokenizer(tokenizer, len(tokenizer.pieces), 257)
