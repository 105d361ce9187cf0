"""Tool choice: hold a call to its schema while it is being sampled. The prompt is never touched.

Text is free until the reply opens a call; from there one llguidance matcher holds the name to the registry and the
arguments to their schema, in declaration order, until the call is closed. Special tokens stay free outside calls, so
reasoning marks work under every tool choice.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from oasis_harness.engine import Sampling, ToolChoice
from oasis_harness.errors import BadTokenizer, ToolChoiceUnsupported
from oasis_harness.panics import without_panics
from oasis_harness.tokens import Tokenizer

__all__ = ["CallConstraint", "grammar_tokenizer"]

Logits = NDArray[np.float32]


def grammar_tokenizer(tokenizer: Tokenizer, n_vocabulary: int, stop_id: int) -> Any:
    """Return llguidance's view of `tokenizer`; costs tens of milliseconds, once a model.

    Raises:
        BadTokenizer: llguidance cannot hold this vocabulary.
    """
    n_ids = max(n_vocabulary, len(tokenizer.pieces))
    try:
        return without_panics(lambda: LLTokenizer(TokenizerWrapper(_View(tokenizer, stop_id)), n_vocab=n_ids))
    except Exception as error:  # a foreign library on the vocabulary of a foreign file
        raise BadTokenizer(
            f"calls cannot be held to a grammar over this vocabulary: {error}.", remedy="Use another model."
        ) from error


class CallConstraint:
    """Follows one reply token by token and masks what may come next.

    Raises:
        ToolChoiceUnsupported: `required` without tools, or in a call syntax that has no grammar.
    """

    def __init__(self, sampling: Sampling, tokenizer: Tokenizer, ll_tokenizer: Any) -> None:
        self._choice = sampling.tool_choice
        syntax = sampling.syntax
        self._opener = syntax.opener.encode() if syntax else b""
        self._closer = syntax.closer.encode() if syntax else b""
        self._tokenizer = tokenizer
        self._tail = b""
        self._matcher: Any = None
        has_grammar = bool(syntax and syntax.is_json and sampling.tools and syntax.opener and syntax.closer)
        self._ll_tokenizer = ll_tokenizer if has_grammar else None
        self._call = _call_rule(sampling.tools, sampling.max_string) if has_grammar else ""
        if self._choice is ToolChoice.REQUIRED:
            self._require(sampling)
        self.is_done = False
        """Whether the reply is complete: the required call is closed."""

    def mask(self, logits: Logits) -> Logits:
        """Return `logits`, shape (n_vocabulary,), with what must not come next at minus infinity."""
        if self._matcher is None:
            return self._without_opener(logits) if self._choice is ToolChoice.NONE else logits
        bits = np.frombuffer(_followed(self._matcher.compute_bitmask), dtype=np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: len(logits)].astype(bool)
        masked = np.full_like(logits, -np.inf)
        masked[: len(allowed)][allowed] = logits[: len(allowed)][allowed]
        return masked

    def accept(self, token: int) -> None:
        """Follow a sampled token."""
        if self._matcher is not None:
            _followed(lambda: self._matcher.consume_token(token))
            self._leave_when_closed()
            return
        self._tail = (self._tail + self._tokenizer.pieces[token])[-len(self._opener) - 256 :]
        if self._choice is ToolChoice.AUTO and self._ll_tokenizer is not None and self._opener in self._tail:
            self._arm(overshoot=self._tail.partition(self._opener)[2])

    def _require(self, sampling: Sampling) -> None:
        if self._ll_tokenizer is None:
            raise ToolChoiceUnsupported(
                "the tool choice `required` needs a tool and a call syntax with JSON between two marks; here are "
                f"{len(sampling.tools)} tools and the marks {self._opener.decode()!r} and {self._closer.decode()!r}.",
                remedy="Use `auto`.",
                sampling=sampling,
            )
        opener, closer = (_mark(mark.decode(), self._tokenizer) for mark in (self._opener, self._closer))
        self._matcher = self._matching(f"start: {opener} call {closer}\n{self._call}")

    def _arm(self, overshoot: bytes) -> None:
        closer = _mark(self._closer.decode(), self._tokenizer)
        matcher = self._matching(f"start: /[ \\n]?/ call /[ \\n]?/ {closer}\n{self._call}")
        self._tail = b""
        begun = self._tokenizer.encode(overshoot, [(0, len(overshoot))]) if overshoot else ()
        if _followed(lambda: matcher.try_consume_tokens(list(begun))) == len(begun):
            self._matcher = matcher  # else the token that opened the call already broke it: leave it to the parser

    def _matching(self, lark: str) -> Any:
        matcher = _followed(lambda: LLMatcher(self._ll_tokenizer, LLMatcher.grammar_from_lark(lark), log_level=0))
        if matcher.is_error():
            raise ToolChoiceUnsupported(
                f"no grammar can be made of the tool schemas: {matcher.get_error()}.",
                remedy="Simplify the schema of the tool, or use the tool choice `none`.",
            )
        return matcher

    def _leave_when_closed(self) -> None:
        if self._matcher.is_error() or self._matcher.is_stopped():
            self._matcher = None
            self.is_done = self._choice is ToolChoice.REQUIRED

    def _without_opener(self, logits: Logits) -> Logits:
        """Mask the best token for as long as it would complete the opener."""
        logits = logits.copy()
        while self._opener and self._opener in self._tail + self._tokenizer.pieces[int(np.argmax(logits))]:
            logits[int(np.argmax(logits))] = -np.inf
        return logits


def _followed(step: Callable[[], Any]) -> Any:
    """Take one step of llguidance's."""
    try:
        return without_panics(step)
    except Exception as error:  # a foreign library on a grammar made of foreign schemas
        raise ToolChoiceUnsupported(
            f"the grammar of the calls cannot be followed: {error}.",
            remedy="Simplify the schema of the tool, or use the tool choice `none`.",
        ) from error


class _View:
    """The tokenizer as llguidance wants to see it."""

    def __init__(self, tokenizer: Tokenizer, stop_id: int) -> None:
        self.tokens = list(tokenizer.pieces)
        self.special_token_ids = sorted(tokenizer.specials.values())
        self.eos_token_id = stop_id
        self.bos_token_id = None
        self._tokenizer = tokenizer

    def __call__(self, text: bytes) -> Sequence[int]:
        return list(self._tokenizer.encode(text, [(0, len(text))]))


def _call_rule(tools: tuple[bytes, ...], max_string: int) -> str:
    """Return lark rules whose `call` is a JSON object that names one of `tools` and fits its parameters."""
    rules = [f"call: {' | '.join(f'call_{i}' for i in range(len(tools)))}"]
    for i, tool in enumerate(tools):
        name, arguments = _arguments_rule(tool, max_string)
        before = json.dumps('{"name": ' + json.dumps(name) + ', "arguments": ')
        rules += [f'call_{i}: {before} arguments_{i} "}}"', f"arguments_{i}: {arguments}"]
    return "\n".join(rules) + "\n"


@lru_cache(maxsize=1024)
def _arguments_rule(tool: bytes, max_string: int) -> tuple[str, str]:
    """Return (name, rule of the arguments); any object where the schema has no grammar, for the call to be judged."""
    function = json.loads(tool)["function"]
    layout = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
    schema = {**layout, "additionalProperties": False, **_bounded(function["parameters"], max_string)}
    rule = f"%json {json.dumps(schema)}"
    try:
        problem = without_panics(lambda: LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(f"start: {rule}")))
    except RuntimeError as error:
        problem = str(error)
    is_usable = not problem or problem.startswith("WARNING")
    return function["name"], rule if is_usable else f"%json {json.dumps({**layout, 'type': 'object'})}"


def _bounded(schema: Any, max_string: int) -> Any:
    """Return `schema` with a bound on every free text in it."""
    if isinstance(schema, list):
        return [_bounded(item, max_string) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = {key: _bounded(value, max_string) for key, value in schema.items()}
    is_free_text = bounded.get("type") == "string" and not {"enum", "const", "pattern", "format"} & bounded.keys()
    return {"maxLength": max_string, **bounded} if is_free_text and max_string else bounded


def _mark(text: str, tokenizer: Tokenizer) -> str:
    """Return a mark in lark: the special token it is, or a literal."""
    special = tokenizer.specials.get(text)
    return f"<[{special}]>" if special is not None else json.dumps(text)
