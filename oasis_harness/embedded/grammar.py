"""Tool choice: hold a call to its schema while it is being sampled. The prompt is never touched.

Text is free until the reply opens a call; from there one llguidance matcher holds the name to the registry and the
arguments to their schema, in declaration order, until the call is closed. Special tokens stay free outside calls, so
reasoning marks work under every tool choice.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from oasis_harness.engine import Sampling, ToolChoice
from oasis_harness.errors import BadTokenizer, ToolChoiceUnsupported
from oasis_harness.panics import without_panics
from oasis_harness.replies import CallLayout
from oasis_harness.tokens import Tokenizer

from .call_rules import call_rules, layout_of, literal

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
        self._layout = layout_of(sampling.syntax)
        self._is_whole = self._layout is not None and self._layout.is_whole
        self._trigger = _trigger(sampling, self._layout)
        self._tokenizer = tokenizer
        self._tail = b""
        self._matcher: Any = None
        self._ll_tokenizer = ll_tokenizer if self._layout is not None and sampling.tools else None
        self._call = call_rules(self._layout, sampling.tools, tokenizer, sampling.max_string) if self._layout else ""
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
        self._tail = self._after(token)
        if self._choice is ToolChoice.AUTO and self._ll_tokenizer is not None and self._is_opened(self._tail):
            self._arm()

    def _after(self, token: int) -> bytes:
        """Return what was said last, or, where a call is the whole of a reply, all that can tell whether it begins."""
        said = self._tail + self._tokenizer.pieces[token]
        return said[: len(self._trigger) + 256] if self._is_whole else said[-len(self._trigger) - 256 :]

    def _is_opened(self, said: bytes) -> bool:
        if not self._trigger:
            return False
        return said.lstrip().startswith(self._trigger) if self._is_whole else self._trigger in said

    def _require(self, sampling: Sampling) -> None:
        if self._ll_tokenizer is None:
            opener, closer = (sampling.syntax.opener, sampling.syntax.closer) if sampling.syntax else ("", "")
            raise ToolChoiceUnsupported(
                "the tool choice `required` needs a tool and a call syntax that is known to the letter; here are "
                f"{len(sampling.tools)} tools and the marks {opener!r} and {closer!r}.",
                remedy="Use `auto`.",
                sampling=sampling,
            )
        self._matcher = self._matching(self._whole_call())

    def _whole_call(self) -> str:
        """Return the grammar of a call from its opener on."""
        assert self._layout is not None, "only where there is a grammar"
        opener = literal((self._layout.openers or (self._layout.opener,))[0], self._tokenizer)
        return f"start: {opener} call {literal(self._layout.closer, self._tokenizer)}\n{self._call}"

    def _arm(self) -> None:
        assert self._layout is not None, "only where there is a grammar"
        if self._is_whole:
            overshoot, grammar = self._tail.lstrip(), self._whole_call()
        else:
            closer = literal(self._layout.closer, self._tokenizer)
            overshoot = self._tail.partition(self._trigger)[2]
            grammar = (
                f"start: /[ \\n]?/ call /[ \\n]?/ {closer}\n{self._call}" if closer else f"start: call\n{self._call}"
            )
        matcher = self._matching(grammar)
        self._tail = b"\0" if self._is_whole else b""
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
        while self._is_opened(self._tail + self._tokenizer.pieces[int(np.argmax(logits))]):
            logits[int(np.argmax(logits))] = -np.inf
        return logits


def _trigger(sampling: Sampling, layout: CallLayout | None) -> bytes:
    """Return what a reply has said once it has begun a call."""
    if layout is None:
        return sampling.syntax.opener.encode() if sampling.syntax else b""
    opener = layout.opener + layout.begin if layout.is_whole else layout.opener
    return (opener.strip() if layout.is_whole else opener).encode()


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
