"""One frozen link of the chain: an event, what was sent for it, and what both come to with the links before.

Nothing in a node can change, and its digest covers its parent's, so two nodes of one digest have one history.
"""

from dataclasses import dataclass, fields
from typing import Self

from oasis_harness.chain import link
from oasis_harness.errors import OutOfOrder

from .events import Body, Event, Head, Note, Opening, ReasoningDropped, Reply, ToolResults, ToolsAdded

__all__ = ["Node", "epoch_nodes", "last_sent"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """One appended event with what was sent for it. Equality is identity of content and history (the digest)."""

    parent: "Node | None"
    body: Body
    data: bytes
    """The JSON of `body`, as it was written first: what the digest covers, and what a file stores."""
    digest: str
    index: int
    """Number of events before this one, over all epochs."""
    epoch: int
    """Number of epochs that were opened after the first, up to and including this node."""
    n_tokens: int
    """Tokens of the epoch up to and including this node."""
    n_bytes: int
    """Bytes of the epoch up to and including this node."""
    n_expected: int
    """Tokens of the epoch that an engine which answered its last reply holds: all sent and sampled, less pending."""

    @classmethod
    def after(cls, parent: "Node | None", body: Body, data: bytes = b"") -> "Node":
        """Build the node that `body` makes after `parent`; `data` is its JSON where it was stored, by any release.

        Raises:
            OutOfOrder: The event cannot stand there.
        """
        _refuse_out_of_order(parent, body)
        event, data = body.event, data or body.to_json()
        opens = isinstance(event, Opening)
        before = None if opens else parent
        n_tokens = len(body.ids) + (before.n_tokens if before else 0)
        n_expected = event.n_kept if isinstance(event, ReasoningDropped) else before.n_expected if before else 0
        return cls(
            parent=parent,
            body=body,
            data=data,
            digest=link(parent.digest if parent else "", data),
            index=parent.index + 1 if parent else 0,
            epoch=(parent.epoch if parent else 0) + opens,
            n_tokens=n_tokens,
            n_bytes=len(body.sent) + (before.n_bytes if before else 0),
            n_expected=n_tokens - event.n_pending if isinstance(event, Reply) else n_expected,
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

    def fault(self, parent: "Node | None") -> str:
        """Say what of this node is not what its body makes it after `parent`; empty if nothing is wrong."""
        try:
            again = Node.after(parent, self.body, self.data)
            if Body.from_json(self.data) != self.body:
                return f"its data is {self.data!r:.80}, which is not its content"
        except (OutOfOrder, ValueError) as error:
            return str(error)
        for name in (field.name for field in fields(Node)):
            found, expected = getattr(self, name), getattr(again, name)
            if found != expected:
                return f"its {name} is {found!r:.80}, its content gives {expected!r:.80}"
        return ""

    def __repr__(self) -> str:
        return f"<{self.event.kind} #{self.index} {self.digest[:15]} {len(self.ids)} tokens>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def last_sent(tip: Node) -> Node:
    """Return the last node that spoke, passing over notes and added tools, which the next turn carries."""
    node = tip
    while isinstance(node.event, Note | ToolsAdded) and node.parent is not None:
        node = node.parent
    return node


def epoch_nodes(tip: Node) -> list[Node]:
    """Return the nodes of the epoch of `tip`, oldest first. O(events of the epoch)."""
    nodes: list[Node] = []
    node: Node | None = tip
    while node is not None and node.epoch == tip.epoch:
        nodes.append(node)
        node = node.parent
    return nodes[::-1]


def _refuse_out_of_order(tip: Node | None, body: Body) -> None:
    reason = _out_of_order(tip, body)
    if reason:
        raise OutOfOrder(
            f"a {body.event.kind} event cannot follow {tip!r}: {reason}.",
            remedy="Append in the order head, user, reply, then results or the next user turn.",
            event=body.event.kind,
            tip=tip,
        )


def _out_of_order(tip: Node | None, body: Body) -> str:
    event = body.event
    if tip is None:
        return "" if isinstance(event, Head) else "a conversation starts with its head"
    if isinstance(event, Head):
        return "the head is sent once"
    if isinstance(event, Opening) and event.old_tip != tip.digest:
        return "it cites another tip than the one it replaces"
    if isinstance(event, ReasoningDropped):
        return _unfit(tip, body, event)
    if isinstance(event, ToolResults):
        return "" if isinstance(last_sent(tip).event, Reply) else "no reply made a call"
    if isinstance(event, Reply):
        return _unasked(last_sent(tip)) or _overdrawn(tip, body, event)
    return ""


def _unfit(tip: Node, body: Body, event: ReasoningDropped) -> str:
    if not isinstance(last_sent(tip).event, Reply):
        return "reasoning is dropped between an answer and the next turn"
    is_kept = 0 <= event.n_kept <= min(len(body.ids), tip.n_expected)
    return "" if is_kept else f"{event.n_kept} tokens cannot be kept of {tip.n_expected}"


def _unasked(last: Node) -> str:
    return "" if last.sent and not isinstance(last.event, Reply | ReasoningDropped) else "nothing was asked"


def _overdrawn(tip: Node, body: Body, reply: Reply) -> str:
    n_tokens = tip.n_tokens + len(body.ids)
    return "" if 0 <= reply.n_pending <= n_tokens else f"{reply.n_pending} tokens are pending of {n_tokens}"
