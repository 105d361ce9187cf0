"""Forks share the log and the ids; whatever one handle appends, no other sees, and no view ever changes."""

import copy
import dataclasses
import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from oasis_harness.conversation import Conversation, Node, Note, User
from oasis_harness.conversation.log import TokenIds

from .growing import HEAD, conversations, deltas, epoch_nodes, naive_ids, talk


class Forks(RuleBasedStateMachine):
    """Several handles on one log, each held against its own list of nodes."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.known: list[tuple[Conversation, list[Node]]] = []
        self.seen: list[tuple[TokenIds, list[int]]] = []

    def remember(self, handle: Conversation, nodes: list[Node]) -> Conversation:
        self.known.append((handle, nodes))
        return handle

    def nodes_of(self, handle: Conversation) -> list[Node]:
        return next(nodes for known, nodes in self.known if known is handle)

    @initialize(target=handles, opened=conversations(max_events=3))
    def open(self, opened: Conversation) -> Conversation:
        return self.remember(opened, list(opened.nodes()))

    @rule(handle=handles, data=st.data())
    def append(self, handle: Conversation, data: st.DataObject) -> None:
        node = handle.append(*data.draw(deltas(handle.tip)))
        self.nodes_of(handle).append(node)

    @rule(target=handles, handle=handles, how=st.sampled_from([Conversation.fork, copy.copy, copy.deepcopy]))
    def fork(self, handle: Conversation, how: Callable[[Conversation], Conversation]) -> Conversation:
        return self.remember(how(handle), list(self.nodes_of(handle)))

    @rule(target=handles, handle=handles, data=st.data())
    def fork_earlier(self, handle: Conversation, data: st.DataObject) -> Conversation:
        nodes = self.nodes_of(handle)
        n = data.draw(st.integers(1, len(nodes)))
        return self.remember(handle.fork(at=nodes[n - 1]), nodes[:n])

    @rule(handle=handles)
    def look(self, handle: Conversation) -> None:
        self.seen.append((handle.ids, handle.ids.tolist()))

    @invariant()
    def every_handle_is_its_own(self) -> None:
        for handle, nodes in self.known:
            assert all(own is node for own, node in zip(handle.nodes(), nodes, strict=True))
            assert handle.ids.tolist() == naive_ids(handle)
            assert handle.tip.n_tokens == len(handle.ids)
            assert handle.tip.n_bytes == sum(len(node.sent) for node in epoch_nodes(handle))

    @invariant()
    def no_view_ever_changes(self) -> None:
        for view, ids in self.seen:
            assert view.tolist() == ids and not view.flags.writeable


TestForks = pytest.mark.slow(Forks.TestCase)
TestForks.settings = settings(stateful_step_count=30)  # forks of forks need steps


def test_a_fork_at_the_tip_copies_nothing() -> None:
    """The same tip, and ids in the same memory, in which the first handle goes on."""
    conversation = talk(Conversation(HEAD), 50)
    branch = conversation.fork()
    assert branch.tip is conversation.tip
    assert branch.ids.ctypes.data == conversation.ids.ctypes.data
    conversation.append(User(b"u"), b"x", (1,))
    assert branch.ids.ctypes.data == conversation.ids.ctypes.data


def test_a_note_on_a_fork_copies_nothing() -> None:
    """It sends no ids."""
    conversation = talk(Conversation(HEAD), 50)
    branch = conversation.fork()
    branch.append(Note(b"n"))
    assert branch.ids.ctypes.data == conversation.ids.ctypes.data


def test_ids_are_read_only() -> None:
    """The prompt an engine is given cannot be changed by it."""
    ids = talk(Conversation(HEAD), 1).ids
    assert ids.dtype == "uint32" and ids.shape == (5,)
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 9


def test_a_fork_has_no_sink() -> None:
    """What a branch appends is not written into the file of the conversation it left."""
    seen: list[Node] = []
    conversation = Conversation(HEAD, sink=seen.append)
    for branch in (conversation.fork(), copy.copy(conversation), copy.deepcopy(conversation)):
        branch.append(User(b"u"), b"x", (1,))
    assert seen == [conversation.tip]


def test_only_a_node_of_the_conversation_can_be_forked_at() -> None:
    """A stranger's node, and a node of the branch that this handle is not on, are refused by name."""
    conversation = talk(Conversation(HEAD), 1)
    branch = conversation.fork()
    branch.append(User(b"elsewhere"), b"x", (1,))
    stranger = Conversation(dataclasses.replace(HEAD, system=b"other"))
    for node in (branch.tip, stranger.tip):
        with pytest.raises(ValueError, match="is not a node of <Conversation of 3 events"):
            conversation.fork(at=node)


def test_forks_may_grow_in_threads_of_their_own() -> None:
    """Each handle by one thread, all at once: none writes into the ids of another."""
    conversation = talk(Conversation(HEAD), 20)
    branches = [conversation, *(conversation.fork() for _ in range(3))]
    threads = [threading.Thread(target=talk, args=(branch, 200, number)) for number, branch in enumerate(branches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(branch.ids.tolist() == naive_ids(branch) for branch in branches)
    assert len({branch.tip for branch in branches}) == 4
