"""What becomes of earlier reasoning where a template would drop it: it stays, or an epoch is opened without it."""

import itertools
from dataclasses import dataclass, field
from enum import StrEnum

from oasis_harness.conversation import Node, Reply, epoch_nodes, last_sent
from oasis_harness.render import Renderer
from oasis_harness.sequences import common_prefix
from oasis_harness.tokens import Tokenizer

__all__ = ["ReasoningPolicy", "Trimmed", "without_reasoning"]


class ReasoningPolicy(StrEnum):
    """What to do with what the model thought, where its template drops it and has no switch against that."""

    RETAIN = "retain"
    """It stays: the prompt only grows."""
    EPOCH = "epoch"
    """At a user turn, a new epoch opens without it: all from the first reasoning on is read again."""


@dataclass(slots=True)
class Trimmed:
    """The prompt of an epoch without its reasoning."""

    ids: list[int] = field(default_factory=list)
    n_kept: int = 0
    """Tokens that the prompt begins with as before."""
    n_dropped: int = 0

    def drop(self, n_last: int, n_next: int) -> None:
        """Take the last `n_last` ids away, and count the `n_next` that will not be added."""
        del self.ids[len(self.ids) - n_last :]
        self.n_dropped += n_last + n_next


def without_reasoning(tip: Node, renderer: Renderer, tokenizer: Tokenizer) -> Trimmed:
    """Return the tokens of the epoch of `tip`, each as it was sent or sampled, without those of reasoning. O(tokens).

    The words that closed reasoning go with it. A token that holds both the end of reasoning and what follows stays.
    """
    trimmed, before = Trimmed(), list[int]()
    closing = b""
    for node in epoch_nodes(tip):
        if isinstance(node.event, Reply):
            n_left_out, closing = _drop_reasoning(trimmed, node, renderer, tokenizer)
        else:
            n_left_out = _n_within(node, tokenizer, len(closing)) if node.sent.startswith(closing) else 0
            trimmed.drop(0, n_left_out)
            closing = b"" if node.sent else closing
        trimmed.ids += node.ids[n_left_out:]
        before += node.ids
    trimmed.n_kept = common_prefix(before, trimmed.ids)
    return trimmed


def _drop_reasoning(trimmed: Trimmed, node: Node, renderer: Renderer, tokenizer: Tokenizer) -> tuple[int, bytes]:
    """Drop the mark in the prompt that opened the reasoning of the reply `node`.

    Return how many ids of the reply are reasoning, and the words that will close it where it was left open.
    """
    assert node.parent is not None, "a reply has a prompt"
    opener = renderer.opener(last_sent(node.parent))
    n_opener, n_reasoning = renderer.dialect.reasoning_extent(node.sent, opener=opener)
    n_next = _n_within(node, tokenizer, n_reasoning)
    n_last = _n_opening(trimmed.ids, tokenizer, n_opener)
    if n_last is None or (n_reasoning and not n_next):
        return 0, b""
    trimmed.drop(n_last, n_next)
    is_open = n_reasoning == len(node.sent) and n_last + n_next > 0
    return n_next, renderer.dialect.closing(node.sent, opener=opener) if is_open else b""


def _n_opening(ids: list[int], tokenizer: Tokenizer, n_bytes: int) -> int | None:
    """Return how many of the last ids are the last `n_bytes`, or None where they begin inside a token."""
    n_last = 0
    while n_bytes > 0:
        n_last += 1
        n_bytes -= len(tokenizer.pieces[ids[-n_last]])
    return n_last if n_bytes == 0 else None


def _n_within(node: Node, tokenizer: Tokenizer, n_bytes: int) -> int:
    """Return how many of the first ids of `node` lie wholly within its first `n_bytes`."""
    ends = itertools.accumulate(len(tokenizer.pieces[token]) for token in node.ids)
    return sum(end <= n_bytes for end in ends)
