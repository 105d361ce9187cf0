"""Random conversations: Hypothesis draws what may follow the tip, and appends it."""

from typing import TypeAlias

from hypothesis import strategies as st

from oasis_harness.conversation import (
    Compaction,
    Conversation,
    Epoch,
    Event,
    Head,
    Node,
    Note,
    Opening,
    ReasoningDropped,
    Reply,
    ToolResult,
    ToolResults,
    ToolsAdded,
    User,
    last_sent,
)

Delta: TypeAlias = tuple[Event, bytes, tuple[int, ...]]

EPOCH = Epoch(template="sha256:aa", arguments='{"enable_thinking":true}', tokenizer="sha256:bb")
HEAD = Head(EPOCH, b"You are careful.", (b'{"name":"f"}',), (b"review: reads a diff",))

texts: st.SearchStrategy[bytes] = st.binary(max_size=8) | st.text(max_size=8).map(lambda text: text.encode())
ids: st.SearchStrategy[tuple[int, ...]] = st.lists(st.integers(0, 2**32 - 1), max_size=6).map(tuple)
words: st.SearchStrategy[str] = st.text(max_size=4)
results = st.builds(ToolResult, words, words, texts, st.booleans())


@st.composite
def deltas(draw: st.DrawFn, tip: Node) -> Delta:
    """An event that may follow `tip`, with bytes and ids."""
    last, new = last_sent(tip), draw(ids)
    kinds: list[st.SearchStrategy[Event]] = [
        st.builds(User, texts),
        st.builds(Note, texts),
        st.builds(ToolsAdded, st.lists(texts, max_size=2).map(tuple)),
        st.builds(Compaction, st.just(EPOCH), st.just(tip.digest), texts),
    ]
    if isinstance(last.event, Reply):
        kept = st.integers(0, min(len(new), tip.n_expected))
        kinds.append(st.builds(ReasoningDropped, st.just(EPOCH), st.just(tip.digest), kept, st.integers(0, 9)))
        kinds.append(st.builds(ToolResults, st.lists(results, max_size=3).map(tuple)))
    elif last.sent and not isinstance(last.event, ReasoningDropped):
        pending = st.integers(0, tip.n_tokens + len(new))
        kinds += 3 * [st.builds(Reply, texts, st.just("stop"), st.just("auto"), pending)]
    return draw(st.one_of(kinds)), draw(texts), new


@st.composite
def conversations(draw: st.DrawFn, max_events: int = 12) -> Conversation:
    """A conversation of 1 to `max_events` events, over one or more epochs."""
    conversation = Conversation(HEAD)
    for _ in range(draw(st.integers(0, max_events - 1))):
        conversation.append(*draw(deltas(conversation.tip)))
    return conversation


def talk(conversation: Conversation, n_turns: int, n_pending: int = 0) -> Conversation:
    """Append `n_turns` of a question of two tokens and an answer of three."""
    for turn in range(n_turns):
        conversation.append(User(f"question {turn}".encode()), b"ab", (1, turn))
        conversation.append(Reply(b"cde", "stop", "auto", n_pending), b"cde", (2, 3, turn))
    return conversation


def epoch_nodes(conversation: Conversation) -> list[Node]:
    """The nodes since the last epoch was opened, found the slow way."""
    nodes = list(conversation.nodes())
    starts = [i for i, node in enumerate(nodes) if isinstance(node.event, Opening)]
    return nodes[starts[-1] :] if starts else nodes


def naive_ids(conversation: Conversation) -> list[int]:
    """The ids of the epoch, concatenated node by node."""
    return [token for node in epoch_nodes(conversation) for token in node.ids]
