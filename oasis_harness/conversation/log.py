"""The append-only log: a handle on the newest node of a chain, and the token ids of its epoch.

A node knows its parent, so a fork is a second handle on a shared node and copies nothing. The token ids of an epoch
lie in one growing buffer, so an append costs O(delta) and the whole prompt is a view. Only the handle that made the
buffer writes to it, past all that others see; a fork reads it too, and copies it before its own first append.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from oasis_harness.errors import BrokenChain

from .epoch import Epoch
from .events import Body, Event, Head, Opening
from .node import Node, epoch_nodes

__all__ = ["Conversation", "Sink", "TokenIds"]

TokenIds: TypeAlias = NDArray[np.uint32]
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
        """Return a handle on the log that ends at `tip`. O(events), once; `fork` shares instead."""
        handle = cls.__new__(cls)
        handle._tip, handle._sink = tip, sink
        handle._ids = _TokenBuffer()
        for node in epoch_nodes(tip):
            handle._ids.write(node.n_tokens, node.ids)
        return handle

    @property
    def tip(self) -> Node:
        """The newest node."""
        assert self._tip is not None, "a conversation starts with its head"
        return self._tip

    @property
    def ids(self) -> TokenIds:
        """The prompt: token ids of the epoch, shape (n_tokens,), a read-only view."""
        return self._ids.view(self.tip.n_tokens)

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
        while not isinstance(node.event, Head | Opening):
            assert node.parent is not None, "append() lets nothing but a head stand first"
            node = node.parent
        return node.event.epoch

    @property
    def n_expected(self) -> int:
        """Tokens an engine that answered the last reply holds: all that was sent and sampled, less what is pending."""
        return self.tip.n_expected

    def __len__(self) -> int:
        return self.tip.index + 1

    def __repr__(self) -> str:
        return f"<Conversation of {len(self)} events, {self.tip.n_tokens} tokens, tip {self.tip.digest[:15]}>"

    def __copy__(self) -> "Conversation":
        return self.fork()

    def __deepcopy__(self, memo: object) -> "Conversation":
        return self.fork()

    def append(self, event: Event, sent: bytes = b"", ids: tuple[int, ...] = (), *, seam: str = "") -> Node:
        """Append `event` with the bytes and ids really sent for it, and return its node. O(delta).

        Raises:
            OutOfOrder: The event cannot stand after the tip.
            ValueError: Something in it would not be read back as it is, such as an id outside [0, 2**32).
        """
        node = Node.after(self._tip, Body(event, sent, ids, seam))
        _require_readable(node)
        buffer = _TokenBuffer() if isinstance(event, Opening) else self._ids
        buffer.write(node.n_tokens, ids)
        if self._sink is not None:
            self._sink(node)
        self._tip, self._ids = node, buffer
        return node

    def fork(self, at: Node | None = None) -> "Conversation":
        """Return a second handle that ends at `at` (default: the tip). The log itself is shared, not copied.

        Raises:
            ValueError: `at` is not a node of this conversation.
        """
        tip = self.tip if at is None else self._own(at)
        if tip.epoch != self.tip.epoch:
            return type(self).at(tip)
        handle = type(self).__new__(type(self))
        handle._tip, handle._sink = tip, None
        handle._ids = self._ids.shared()
        return handle

    def nodes(self) -> Iterator[Node]:
        """Iterate over all nodes, oldest first. O(events)."""
        return iter(_chain(self.tip))

    def verify(self) -> None:
        """Recompute every node from the events themselves.

        Raises:
            BrokenChain: A node is not what its content and the nodes before it make it.
        """
        parent: Node | None = None
        for node in self.nodes():
            fault = node.fault(parent)
            if fault:
                raise BrokenChain(
                    f"event {node.index} ({node.event.kind}): {fault}.",
                    remedy="The log was changed outside this package; go back to a copy that verifies.",
                    index=node.index,
                )
            parent = node

    def _own(self, at: Node) -> Node:
        node: Node | None = self.tip
        while node is not None and node.index > at.index:
            node = node.parent
        if node is None or node != at:
            raise ValueError(f"{at!r} is not a node of {self!r}")
        return node


class _TokenBuffer:
    """A growing array of ids. What lies before the tip of any handle is never written again."""

    __slots__ = ("_array", "_is_shared")

    def __init__(self, array: TokenIds | None = None) -> None:
        self._array = np.empty(256, dtype=np.uint32) if array is None else array
        self._is_shared = array is not None

    def write(self, end: int, ids: tuple[int, ...]) -> None:
        """Write `ids` so that they end at `end`."""
        start = end - len(ids)
        if ids and (self._is_shared or end > len(self._array)):
            grown = np.empty(max(256, 2 * end), dtype=np.uint32)
            grown[:start] = self._array[:start]
            self._array, self._is_shared = grown, False
        self._array[start:end] = ids

    def shared(self) -> "_TokenBuffer":
        return _TokenBuffer(self._array)

    def view(self, n_tokens: int) -> TokenIds:
        view = self._array[:n_tokens]
        view.flags.writeable = False
        return view


def _chain(tip: Node) -> list[Node]:
    nodes: list[Node] = []
    node: Node | None = tip
    while node is not None:
        nodes.append(node)
        node = node.parent
    nodes.reverse()
    return nodes


def _require_readable(node: Node) -> None:
    """Refuse what would be written but not read back the same, such as an id that is no 32-bit number."""
    if Body.from_json(node.data) != node.body:
        raise ValueError(f"{node!r} would not be read back as it is: text must be bytes, and ids ints.")
