"""What becomes of earlier reasoning where a template would drop it: it stays, or an epoch is opened without it."""

from dataclasses import dataclass, field
from enum import StrEnum

from oasis_harness.conversation import Conversation, Node, Reply, last_sent
from oasis_harness.render import Dialect
from oasis_harness.tokens import Tokenizer

__all__ = ["Thoughts", "Trimmed", "without_thoughts"]


class Thoughts(StrEnum):
    """What to do with what the model thought, where its template drops it and has no switch against that."""

    RETAIN = "retain"
    """It stays: the prompt only grows."""
    EPOCH = "epoch"
    """At a user turn, a new epoch opens without it: all from the first thought on is read again."""


@dataclass(slots=True)
class Trimmed:
    """The prompt of an epoch without its thoughts."""

    ids: list[int] = field(default_factory=list)
    n_kept: int | None = None
    """Tokens before the first thought; None where there was none."""
    n_dropped: int = 0

    def drop(self, n_last: int, n_next: int) -> None:
        """Take the last `n_last` ids away, and count the `n_next` that will not be added."""
        if n_last + n_next == 0:
            return
        del self.ids[len(self.ids) - n_last :]
        self.n_dropped += n_last + n_next
        self.n_kept = len(self.ids) if self.n_kept is None else self.n_kept


def without_thoughts(conversation: Conversation, dialect: Dialect, tokenizer: Tokenizer) -> Trimmed:
    """Return the tokens of the newest epoch, each as it was sent or sampled, without those of thoughts. O(tokens).

    A token that holds both a thought's end and what follows stays.
    """
    trimmed = Trimmed()
    for node in conversation.nodes():
        if node.epoch != conversation.tip.epoch:
            continue
        n_thought = _drop_thought(trimmed, node, dialect, tokenizer) if isinstance(node.event, Reply) else 0
        trimmed.ids += node.ids[n_thought:]
    return trimmed


def _drop_thought(trimmed: Trimmed, node: Node, dialect: Dialect, tokenizer: Tokenizer) -> int:
    """Return how many ids of the reply `node` are thought, having dropped the mark that opened it in the prompt."""
    assert node.parent is not None, "a reply has a prompt"
    n_opener, n_thought = dialect.thought(node.sent, before=last_sent(node.parent).sent)
    pieces = [tokenizer.pieces[token] for token in node.ids]
    n_next = _n_within(pieces, n_thought)
    last = trimmed.ids[-n_opener:][::-1] if n_opener else []
    n_last = _n_within([tokenizer.pieces[token] for token in last], n_opener)
    trimmed.drop(n_last if n_next else 0, n_next)
    return n_next


def _n_within(pieces: list[bytes], n_bytes: int) -> int:
    """Return how many of the first pieces lie wholly within `n_bytes`."""
    n_within = end = 0
    for piece in pieces:
        end += len(piece)
        if end > n_bytes:
            break
        n_within += 1
    return n_within
