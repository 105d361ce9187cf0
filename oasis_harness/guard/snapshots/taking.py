r"""A prompt as it is rendered now: of a head, of a conversation as it was sent, or of another agent's request.

snapshot_of(head, dialect, name="head", dialect_name="qwen3")   b"<|im_start|>system\nBe brief.…", spans, ids
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oasis_harness.errors import EpochMismatch

from .moves import Snapshot

if TYPE_CHECKING:
    from oasis_harness.conversation import Conversation, Head
    from oasis_harness.render import Chat, Dialect, Span
    from oasis_harness.tokens import Tokenizer

__all__ = ["snapshot_of"]


def snapshot_of(
    at: "Conversation | Head | Chat",
    dialect: "Dialect",
    *,
    name: str,
    dialect_name: str,
    tokenizer: "Tokenizer | None" = None,
    sources: Mapping[str, str] | None = None,
) -> Snapshot:
    """Take the prompt of a conversation's newest epoch as it was sent, or that of a head alone, or of a request.

    A head alone ends before the first user's own words; so does a conversation that sent nothing yet. A request ends
    where the reply begins, and its tokens are those of the whole text, as a server finds them.

    Raises:
        TemplateFailed, UnsupportedTemplate: The template refuses the head.
        EpochMismatch: The conversation's ids are not `tokenizer`'s.
    """
    from oasis_harness.conversation import Head
    from oasis_harness.render import Chat, render_chat

    ids: tuple[int, ...] | None = None
    if isinstance(at, Chat):
        data, spans = render_chat(at, dialect)
        ids = tokenizer.encode(data) if tokenizer else None
    elif isinstance(at, Head) or at.tip.n_bytes == 0:
        data, spans, authored = _head(at if isinstance(at, Head) else at.head, dialect, sources)
        ids = tokenizer.encode(data, authored) if tokenizer else None
    else:
        data, spans = _prompt(at, dialect, sources)
        ids = _ids_of(at, data, tokenizer) if tokenizer else None
    n_tokens, digest = (None, None) if ids is None or tokenizer is None else (len(ids), tokenizer.digest)
    return Snapshot(name, dialect_name, data, spans, n_tokens, ids, dialect.template.digest, digest)


def _head(
    head: "Head", dialect: "Dialect", sources: Mapping[str, str] | None
) -> "tuple[bytes, tuple[Span, ...], list[tuple[int, int]]]":
    """Return bytes, spans and authored ranges of the first prompt, up to the first user's words."""
    import oasis_harness.render as render
    from oasis_harness.conversation import Conversation, User

    log, first, renderer = Conversation(head), User(b"oasisFIRST"), render.Renderer(dialect)
    delta = renderer.extend(log.tip, first)
    log.append(first, delta.data)
    owners = render.provenance_of(log, renderer, sources=sources)
    end = owners.find("event 1 text")[0].start
    spans = tuple(span for span in owners.spans if span.start < end)
    return delta.data[:end], spans, [(start, min(stop, end)) for start, stop in delta.authored if start < end]


def _prompt(
    conversation: "Conversation", dialect: "Dialect", sources: Mapping[str, str] | None
) -> "tuple[bytes, tuple[Span, ...]]":
    import oasis_harness.render as render

    spans = render.provenance_of(conversation, render.Renderer(dialect), sources=sources).spans
    epoch = conversation.tip.epoch
    return b"".join(node.sent for node in conversation.nodes() if node.epoch == epoch), spans


def _ids_of(conversation: "Conversation", data: bytes, tokenizer: "Tokenizer") -> tuple[int, ...]:
    ids = tuple(conversation.ids.tolist())
    mine, theirs = conversation.epoch.tokenizer, tokenizer.digest
    if mine != theirs or tokenizer.decode(ids) != data:
        raise EpochMismatch(
            f"the conversation was sent through tokenizer {mine:.80}, the snapshot is taken with {theirs:.80}.",
            remedy="Pass the tokenizer of the engine it was sent to, or none.",
            conversation=mine,
            snapshot=theirs,
        )
    return ids
