"""The log: frozen nodes chained by digest, one order, no way back."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.canonical import digest
from oasis_harness.conversation import (
    Compaction,
    Conversation,
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
)
from oasis_harness.conversation.events import Body
from oasis_harness.errors import BrokenChain, OutOfOrder

from .growing import EPOCH, HEAD, conversations, epoch_nodes, naive_ids, talk

USER, NOTE, ADDED = User(b"u"), Note(b"n"), ToolsAdded((b"{}",))
REPLY, RESULTS = Reply(b"r", "stop", "auto", 0), ToolResults((ToolResult("1", "f", b"x"),))


def grown(*events: Event) -> Conversation:
    """A conversation of a head and `events`, each of one byte and one token."""
    conversation = Conversation(HEAD)
    for event in events:
        conversation.append(event, b"" if isinstance(event, Note | ToolsAdded) else b"x", (7,))
    return conversation


def compaction(conversation: Conversation) -> Compaction:
    return Compaction(EPOCH, conversation.tip.digest, b"so far")


# Frozen, chained, verified


@pytest.mark.parametrize("value", [USER, NOTE, ADDED, REPLY, RESULTS, HEAD, EPOCH, Conversation(HEAD).tip])
def test_events_and_nodes_are_frozen_and_take_no_new_attributes(value: object) -> None:
    """Assigning to a field raises, and there is no `__dict__` to put another into."""
    assert dataclasses.is_dataclass(value) and not isinstance(value, type)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)
    assert not hasattr(value, "__dict__")


def test_the_digest_names_its_algorithm_and_never_changes() -> None:
    """The digest of a given conversation is part of the file format: a release that changes it breaks old files."""
    tip = talk(Conversation(HEAD), 1).tip
    assert tip.digest == "sha256:d9ee0cba670165aca2ff82f4cb4400fc75cb8e4dcf07bbd59c0709b7c07c6423"


@pytest.mark.slow
@given(conversations(), st.data())
def test_verify_finds_any_one_changed_field_of_any_node(conversation: Conversation, data: st.DataObject) -> None:
    """Each field of a node is its content's doing; none can be another."""
    nodes = list(conversation.nodes())
    index = data.draw(st.integers(0, len(nodes) - 1))
    field = data.draw(st.sampled_from([field.name for field in dataclasses.fields(Node) if field.name != "parent"]))
    change: dict[str, Any] = {field: other(getattr(nodes[index], field))}
    tip = None
    for node in nodes:
        tip = dataclasses.replace(node, parent=tip, **(change if node is nodes[index] else {}))
    assert tip is not None
    with pytest.raises(BrokenChain, match=r"event \d+ "):
        Conversation.at(tip).verify()


def other(value: object) -> object:
    """Another value of the same type."""
    match value:
        case int():
            return value + 1
        case bytes():
            return value + b" "
        case str():
            return value[:-1] + ("0" if value[-1] != "0" else "1")
        case Body():
            return dataclasses.replace(value, sent=value.sent + b"\0")
    raise AssertionError(value)


def test_verify_finds_an_exchanged_ancestor() -> None:
    """A chain whose second link hangs on another first one."""
    conversation = grown(USER)
    stranger = Conversation(dataclasses.replace(HEAD, system=b"You are careless.")).tip
    with pytest.raises(BrokenChain, match="event 1 "):
        Conversation.at(dataclasses.replace(conversation.tip, parent=stranger)).verify()


def test_verify_finds_a_forged_order() -> None:
    """Two replies in a row, made outside append() with a digest that fits."""
    tip = grown(USER, REPLY).tip
    forged = dataclasses.replace(tip, parent=tip, digest=digest(tip.digest.encode(), tip.data))
    with pytest.raises(BrokenChain, match="nothing was asked"):
        Conversation.at(forged).verify()


@pytest.mark.slow
@given(conversations(), conversations())
def test_one_digest_means_one_history(one: Conversation, two: Conversation) -> None:
    """Nodes are equal when all that led to them is equal, and only then."""
    histories = [[node.data for node in conversation.nodes()] for conversation in (one, two)]
    assert (one.tip == two.tip) == (histories[0] == histories[1])
    assert one.tip != USER and one.tip != one.tip.digest


DIGESTS = """
from oasis_harness.conversation import Conversation, Epoch, Head, Reply, ToolResult, ToolResults, User
talk = Conversation(Head(Epoch("t", "{}", "k"), "Grüße \\u2028".encode(), (b'{"b":1,"a":2}',)))
talk.append(User(b"\\xff\\r\\n"), b"\\xff", (1, 2))
talk.append(Reply("日本".encode(), "stop", "auto", 0), b"x", (3,), seam="plain")
talk.append(ToolResults((ToolResult("1", "f", b"\\0"),)), b"y", (4,))
print(*(node.digest for node in talk.nodes()))
"""


@pytest.mark.slow
def test_equal_content_gives_equal_digests_in_any_process(tmp_path: Path) -> None:
    """Hash seed, time zone, locale and working directory leave no trace."""
    machines = [
        {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
    ]
    said = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS], cwd=cwd, env={**os.environ, **machine}, check=True, stdout=subprocess.PIPE
        ).stdout
        for machine, cwd in zip(machines, (tmp_path, Path(__file__).parent), strict=True)
    ]
    assert said[0] == said[1] and said[0].count(b"sha256:") == 4


# No way back


def test_there_is_no_public_name_that_edits_reorders_or_drops() -> None:
    """The whole surface of a conversation: two ways to open it, two to grow it, the rest look."""
    public = {name for name in dir(Conversation) if not name.startswith("_")}
    grow, look = {"at", "append", "fork"}, {"tip", "ids", "head", "epoch", "n_expected", "nodes", "verify"}
    assert public == grow | look
    assert not hasattr(Conversation, "__setitem__") and not hasattr(Conversation, "__delitem__")


@pytest.mark.parametrize("name", ["tip", "ids", "head", "epoch", "n_expected"])
def test_what_a_conversation_shows_cannot_be_assigned(name: str) -> None:
    """Properties without a setter."""
    with pytest.raises(AttributeError):
        setattr(Conversation(HEAD), name, None)


# Order


LEGAL = [
    (USER,),
    (USER, REPLY),
    (USER, REPLY, USER),
    (USER, REPLY, RESULTS, REPLY),
    (USER, REPLY, NOTE, ADDED, RESULTS),
    (NOTE, ADDED, USER, NOTE, REPLY),
    (USER, USER),
]
ILLEGAL = [
    ((), REPLY, "nothing was asked"),
    ((), RESULTS, "no reply made a call"),
    ((), HEAD, "the head is sent once"),
    ((NOTE,), REPLY, "nothing was asked"),
    ((USER,), RESULTS, "no reply made a call"),
    ((USER, REPLY), REPLY, "nothing was asked"),
    ((USER, REPLY, NOTE), REPLY, "nothing was asked"),
    ((USER, REPLY, RESULTS), RESULTS, "no reply made a call"),
    ((USER, REPLY, USER), RESULTS, "no reply made a call"),
    ((USER,), Compaction(EPOCH, "sha256:other", b""), "another tip"),
    ((USER,), ReasoningDropped(EPOCH, "", 0, 0), "another tip"),
    ((USER,), Reply(b"r", "cancelled", "auto", 4), "4 tokens are pending of 2"),
    ((USER,), Reply(b"r", "cancelled", "auto", -1), "-1 tokens are pending"),
]


@pytest.mark.parametrize("events", LEGAL)
def test_what_may_follow_whom(events: tuple[Event, ...]) -> None:
    """Head, user, reply, then results or the next user; notes and late tools anywhere."""
    assert len(grown(*events)) == 1 + len(events)


@pytest.mark.parametrize(("before", "event", "reason"), ILLEGAL)
def test_what_may_not_follow_is_refused_by_name(before: tuple[Event, ...], event: Event, reason: str) -> None:
    """The message names both, and nothing was appended."""
    conversation = grown(*before)
    tip, ids = conversation.tip, naive_ids(conversation)
    with pytest.raises(OutOfOrder, match=f"a {event.kind} event cannot follow <{tip.event.kind} .*{reason}"):
        conversation.append(event, b"x", (9,))
    assert conversation.tip is tip and conversation.ids.tolist() == ids


def test_a_conversation_starts_with_its_head() -> None:
    """And with nothing else."""
    with pytest.raises(OutOfOrder, match="a user event cannot follow None"):
        Conversation(USER)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [(-1,), (2**32,), (True,), (1.0,), ("1",), [1]])
def test_ids_that_would_not_be_read_back_are_refused_before_anything_moves(wrong: tuple[int, ...]) -> None:
    """The sink never sees them: a file with such a line could not be loaded again."""
    seen: list[Node] = []
    conversation = Conversation(HEAD, sink=seen.append)
    with pytest.raises(ValueError, match="ids"):
        conversation.append(USER, b"x", wrong)
    assert len(seen) == len(conversation) == 1


def test_a_text_that_is_not_bytes_is_refused() -> None:
    """A `str` would be written as one thing and read back as another."""
    with pytest.raises(ValueError, match="text must be bytes"):
        Conversation(HEAD).append(User("text"), b"x", (1,))  # type: ignore[arg-type]


def test_when_the_sink_raises_nothing_was_appended() -> None:
    """Not the event, not its ids; the next append stands where it would have stood."""

    def refuse(node: Node) -> None:
        if node.ids == (13,):
            raise OSError("full")

    conversation = Conversation(HEAD, sink=refuse)
    before = conversation.append(USER, b"x", (12,))
    with pytest.raises(OSError, match="full"):
        conversation.append(REPLY, b"x", (13,))
    assert conversation.tip is before
    conversation.append(REPLY, b"x", (14,))
    assert conversation.ids.tolist() == [12, 14]


# Counts


@pytest.mark.slow
@given(conversations())
def test_counts_are_those_of_the_nodes_of_the_epoch(conversation: Conversation) -> None:
    """Index over the whole log; tokens, bytes and ids since the last compaction."""
    nodes, epoch = list(conversation.nodes()), epoch_nodes(conversation)
    tip = conversation.tip
    assert [node.index for node in nodes] == list(range(len(conversation)))
    assert tip.epoch == sum(isinstance(node.event, Opening) for node in nodes)
    assert conversation.ids.tolist() == naive_ids(conversation)
    assert tip.n_tokens == len(conversation.ids)
    assert tip.n_bytes == sum(len(node.sent) for node in epoch)
    assert conversation.head == HEAD
    conversation.verify()


@pytest.mark.slow
@given(conversations())
def test_promised_is_all_up_to_the_last_reply_less_what_was_pending(conversation: Conversation) -> None:
    """Counted from the nodes: what came after the last reply of the epoch was not read yet."""
    epoch = epoch_nodes(conversation)
    replies = [i for i, node in enumerate(epoch) if isinstance(node.event, Reply)]
    first = epoch[0].event
    expected = first.n_kept if isinstance(first, ReasoningDropped) else 0
    if replies:
        event = epoch[replies[-1]].event
        assert isinstance(event, Reply)
        expected = sum(len(node.ids) for node in epoch[: replies[-1] + 1]) - event.n_pending
    assert conversation.n_expected == expected


def test_nothing_is_promised_before_a_reply_nor_right_after_a_compaction() -> None:
    """An engine that was never asked holds nothing; a new epoch's tokens were read by nobody."""
    assert Conversation(HEAD).n_expected == 0
    conversation = grown(USER)
    assert conversation.n_expected == 0
    conversation = grown(USER, REPLY)
    conversation.append(compaction(conversation), b"summary", (5, 6))
    assert conversation.n_expected == 0
    conversation.append(REPLY, b"x", (7,))
    assert conversation.n_expected == 3


@pytest.mark.parametrize(("n_pending", "promised"), [(0, 5), (1, 4), (5, 0)])
def test_a_cancelled_reply_promises_only_what_was_read(n_pending: int, promised: int) -> None:
    """Two tokens asked and three sampled; pending may reach back into the question. Notes change nothing."""
    conversation = talk(Conversation(HEAD), 1, n_pending)
    assert conversation.n_expected == promised
    conversation.append(NOTE)
    conversation.append(ADDED)
    assert conversation.n_expected == promised


def test_thoughts_are_dropped_between_an_answer_and_the_next_turn_only() -> None:
    """And no more is kept than both prompts begin with."""
    conversation = talk(Conversation(HEAD), 1)
    tip = conversation.tip.digest
    for n_kept, ids in ((6, (1, 0, 2, 3, 0, 9)), (3, (1, 0)), (-1, ())):
        with pytest.raises(OutOfOrder, match="cannot be kept"):
            conversation.append(ReasoningDropped(EPOCH, tip, n_kept, 1), b"abe", ids)
    conversation.append(USER, b"x", (1,))
    with pytest.raises(OutOfOrder, match="between an answer and the next turn"):
        conversation.append(ReasoningDropped(EPOCH, conversation.tip.digest, 0, 1), b"abe", (1,))


def test_dropped_thoughts_open_an_epoch_that_promises_what_comes_before_them() -> None:
    """The engine still holds that; nothing may be sampled before the next turn."""
    conversation = talk(Conversation(HEAD), 1)
    conversation.append(ReasoningDropped(EPOCH, conversation.tip.digest, 2, 1), b"abde", (1, 0, 3, 0))
    assert conversation.ids.tolist() == [1, 0, 3, 0] and conversation.tip.epoch == 1
    assert conversation.n_expected == 2
    with pytest.raises(OutOfOrder, match="nothing was asked"):
        conversation.append(REPLY, b"x", (7,))
    conversation.append(USER, b"x", (7,))
    assert conversation.n_expected == 2


# Compaction


def test_a_compaction_opens_an_epoch_and_keeps_the_log() -> None:
    """Ids start anew with the summary's; every old node is still there, and can be forked from."""
    conversation = talk(Conversation(HEAD), 2)
    old, ids = list(conversation.nodes()), conversation.ids.tolist()
    other_epoch = dataclasses.replace(EPOCH, template="sha256:cc")
    conversation.append(Compaction(other_epoch, conversation.tip.digest, b"so far"), b"summary", (8, 9))
    assert conversation.ids.tolist() == [8, 9] and conversation.tip.epoch == 1
    assert conversation.epoch == other_epoch and conversation.head == HEAD
    assert list(conversation.nodes())[:-1] == old
    earlier = conversation.fork(at=old[-1])
    assert earlier.ids.tolist() == ids and earlier.epoch == EPOCH
    earlier.append(USER, b"x", (1,))
    assert conversation.ids.tolist() == [8, 9] and earlier.ids.tolist() == [*ids, 1]


# Long


@pytest.mark.slow
def test_a_hundred_thousand_events_need_no_recursion() -> None:
    """Built, shown, compared, hashed, copied, iterated and let go; a chain must not be walked on the C stack."""
    import copy
    import gc

    conversation = Conversation(HEAD)
    for number in range(100_000):
        conversation.append(NOTE, b"", (number,))
    twin = Conversation.at(conversation.tip)
    assert repr(conversation.tip) == repr(twin.tip) and conversation.tip == twin.tip
    assert len({conversation.tip, twin.tip, copy.copy(twin.tip), copy.deepcopy(twin.tip)}) == 1
    assert len(list(copy.deepcopy(conversation).nodes())) == len(twin) == 100_001
    assert conversation.ids.tolist() == list(range(100_000))
    del conversation, twin
    gc.collect()


def test_an_append_does_as_much_work_late_as_early() -> None:
    """Function calls, Python's and C's, counted: the same after 3 events and after 3,000."""
    conversation = talk(Conversation(HEAD), 1)
    early = calls_of_a_turn(conversation)
    assert calls_of_a_turn(talk(conversation, 1500)) == early > 20


def calls_of_a_turn(conversation: Conversation) -> int:
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        conversation.append(USER, b"x", (1,))
        conversation.append(REPLY, b"x", (2,))
        _ = conversation.fork(), conversation.ids, conversation.n_expected
    finally:
        sys.setprofile(None)
    return count


def test_json_keys_stand_in_the_order_they_are_declared() -> None:
    """One form for one fact: what is hashed does not depend on how a value was built."""
    data = grown(USER).tip.data
    assert data == b'{"event":{"kind":"user","text":"u"},"sent":"x","ids":[7],"seam":""}'
    assert list(json.loads(Conversation(HEAD).tip.data)["event"]) == [
        "kind",
        "epoch",
        "system",
        "tools",
        "skills",
        "version",
    ]
    assert isinstance(HEAD, Head)
