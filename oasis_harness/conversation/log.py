"""The append-only log: frozen nodes, chained by digest, and the handle that points at the newest one.

A node knows its parent, so a fork is a second handle on a shared node and copies nothing. The token ids of an epoch
lie in one growing buffer that forks share until one of them appends (as Go's slices do), so an append costs O(delta)
and the whole prompt is a view.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from oasis_harness.canonical import digest
from oasis_harness.errors import BrokenChain, OutOfOrder

from .epoch import Epoch
from .events import Body, Compaction, Event, Head, Note, Reply, ToolResults, ToolsAdded

__all__ = ["Conversation", "Node", "Sink", "TokenIds", "last_sent"]

TokenIds: TypeAlias = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """One appended event with what was sent for it. Frozen; equality is identity of content (the digest)."""

    parent: "Node | None"
    body: Body
    data: bytes
    """The canonical JSON of `body`: what the digest covers, and what a file stores."""
    digest: str
    index: int
    """Number of events before this one, over all epochs."""
    epoch: int
    """Number of compactions up to and including this node."""
    n_tokens: int
    """Tokens of the epoch up to and including this node."""
    n_bytes: int
    """Bytes of the epoch up to and including this node."""

    @classmethod
    def after(cls, parent: "Node | None", body: Body) -> "Node":
        """Build the node that `body` makes after `parent`."""
        data = body.to_json()
        compacts = isinstance(body.event, Compaction)
        before = None if compacts else parent
        return cls(
            parent=parent,
            body=body,
            data=data,
            digest=digest(parent.digest.encode() if parent else b"", data),
            index=parent.index + 1 if parent else 0,
            epoch=(parent.epoch if parent else 0) + compacts,
            n_tokens=len(body.ids) + (before.n_tokens if before else 0),
            n_bytes=len(body.sent) + (before.n_bytes if before else 0),
        )

    @property
    def event(self) -> Event:
        """The fact."""
        return self.body.event

    @property
    def sent(self) -> bytes:
        """The bytes really sent for it."""
        return self.body.sent

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids really sent for it."""
        return self.body.ids

    def __repr__(self) -> str:
        return f"<{self.event.kind} #{self.index} {self.digest[:15]} {len(self.ids)} tokens>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __copy__(self) -> "Node":
        return self

    def __deepcopy__(self, memo: object) -> "Node":
        return self


Sink: TypeAlias = Callable[[Node], None]


class Conversation:
    """A handle on an append-only log. It can grow and fork; it has no way to edit, reorder or drop.

    A `sink` is called with each node before the handle moves to it: when it raises, nothing was appended.
    """

    def __init__(self, head: Head, *, sink: Sink | None = None) -> None:
        self._tip: Node | None = None
        self._sink = sink
        self._ids = _TokenBuffer()
        self.append(head)

    @classmethod
    def at(cls, tip: Node, *, sink: Sink | None = None) -> "Conversation":
        """Return a handle on the log that ends at `tip`. O(tokens), once; `fork` shares instead."""
        handle = cls.__new__(cls)
        handle._tip, handle._sink = tip, sink
        handle._ids = _TokenBuffer()
        for node in _epoch_nodes(tip):
            handle._ids.append(node.ids)
        return handle

    @property
    def tip(self) -> Node:
        """The newest node."""
        assert self._tip is not None, "a conversation starts with its head"
        return self._tip

    @property
    def ids(self) -> TokenIds:
        """The prompt: token ids of the epoch, shape (n_tokens,), a read-only view."""
        return self._ids.view()

    @property
    def head(self) -> Head:
        """The head the conversation was opened with."""
        first = next(self.nodes())
        assert isinstance(first.event, Head), "append() lets nothing else stand first"
        return first.event

    @property
    def epoch(self) -> Epoch:
        """What the newest epoch's bytes and ids depend on. O(events of the epoch)."""
        node = self.tip
        while not isinstance(node.event, Head | Compaction):
            assert node.parent is not None, "append() lets nothing but a head stand first"
            node = node.parent
        return node.event.epoch

    @property
    def n_promised(self) -> int:
        """Tokens an engine that answered the last reply holds: all that was sent and sampled, less what is pending."""
        node: Node | None = self.tip
        while node is not None and not isinstance(node.event, Reply):
            if isinstance(node.event, Head | Compaction):
                return 0
            node = node.parent
        return node.n_tokens - node.event.n_pending if node and isinstance(node.event, Reply) else 0

    def __len__(self) -> int:
        return self.tip.index + 1

    def __repr__(self) -> str:
        return f"<Conversation of {len(self)} events, {self.tip.n_tokens} tokens, tip {self.tip.digest[:15]}>"

    def append(self, event: Event, sent: bytes = b"", ids: tuple[int, ...] = (), *, seam: str = "") -> Node:
        """Append `event` with the bytes and ids really sent for it, and return its node. O(delta).

        Raises:
            OutOfOrder: The event cannot stand after the tip.
        """
        _refuse_out_of_order(self._tip, event)
        node = Node.after(self._tip, Body(event, sent, ids, seam))
        if self._sink is not None:
            self._sink(node)
        self._ids = _TokenBuffer() if isinstance(event, Compaction) else self._ids
        self._ids.append(ids)
        self._tip = node
        return node

    def fork(self, at: Node | None = None) -> "Conversation":
        """Return a second handle that ends at `at` (default: the tip). The log itself is shared, not copied.

        Raises:
            ValueError: `at` is not a node of this conversation.
        """
        handle = type(self).__new__(type(self))
        handle._sink = None
        handle._tip = tip = self.tip if at is None else self._own(at)
        if tip.epoch != self.tip.epoch:
            return type(self).at(tip)
        handle._ids = self._ids.shared(tip.n_tokens)
        return handle

    def nodes(self) -> Iterator[Node]:
        """Iterate over all nodes, oldest first. O(events)."""
        return iter(_chain(self.tip))

    def verify(self) -> None:
        """Recompute every digest from the events themselves.

        Raises:
            BrokenChain: A node's digest is not that of its content and parent.
        """
        parent: Node | None = None
        for node in self.nodes():
            again = Node.after(parent, node.body).digest
            if again != node.digest or node.parent is not parent:
                raise BrokenChain(
                    f"event {node.index} ({node.event.kind}) has digest {node.digest}, its content gives {again}.",
                    remedy="The log was changed outside this package; go back to a copy that verifies.",
                    index=node.index,
                )
            parent = node

    def _own(self, at: Node) -> Node:
        node: Node | None = self.tip
        while node is not None and node.index > at.index:
            node = node.parent
        if node != at:
            raise ValueError(f"{at!r} is not a node of {self!r}")
        return at


@dataclass(slots=True)
class _TokenBuffer:
    """A growing array of ids that several handles may share; whoever appends past the end of the others copies."""

    store: "_Store" = field(default_factory=lambda: _Store())
    length: int = 0

    def append(self, ids: tuple[int, ...]) -> None:
        if self.store.used != self.length:
            self.store = _Store(self.store.array[: self.length].copy(), self.length)
        self.store.reserve(self.length + len(ids))
        self.store.array[self.length : self.length + len(ids)] = ids
        self.length += len(ids)
        self.store.used = self.length

    def shared(self, length: int) -> "_TokenBuffer":
        return _TokenBuffer(self.store, length)

    def view(self) -> TokenIds:
        view = self.store.array[: self.length]
        view.flags.writeable = False
        return view


@dataclass(slots=True)
class _Store:
    array: TokenIds = field(default_factory=lambda: np.empty(256, dtype=np.uint32))
    used: int = 0

    def reserve(self, n: int) -> None:
        if n > len(self.array):
            grown = np.empty(max(n, 2 * len(self.array)), dtype=np.uint32)
            grown[: self.used] = self.array[: self.used]
            self.array = grown


def _chain(tip: Node) -> list[Node]:
    nodes: list[Node] = []
    node: Node | None = tip
    while node is not None:
        nodes.append(node)
        node = node.parent
    nodes.reverse()
    return nodes


def _epoch_nodes(tip: Node) -> list[Node]:
    return [node for node in _chain(tip) if node.epoch == tip.epoch]


def _refuse_out_of_order(tip: Node | None, event: Event) -> None:
    reason = _out_of_order(tip, event)
    if reason:
        raise OutOfOrder(
            f"a {event.kind} event cannot follow {tip!r}: {reason}.",
            remedy="Append in the order head, user, reply, then results or the next user turn.",
            event=event.kind,
        )


def _out_of_order(tip: Node | None, event: Event) -> str:
    if tip is None:
        return "" if isinstance(event, Head) else "a conversation starts with its head"
    if isinstance(event, Head):
        return "the head is sent once"
    if isinstance(event, Compaction):
        return "" if event.old_tip == tip.digest else "it cites another tip than the one it replaces"
    if isinstance(event, Reply):
        asked = last_sent(tip)
        return "" if asked.sent and not isinstance(asked.event, Reply) else "nothing was asked"
    if isinstance(event, ToolResults):
        return "" if isinstance(last_sent(tip).event, Reply) else "no reply made a call"
    return ""


def last_sent(tip: Node) -> Node:
    """Return the last node that spoke, passing over notes and added tools, which the next turn carries."""
    node = tip
    while isinstance(node.event, Note | ToolsAdded) and node.parent is not None:
        node = node.parent
    return node
