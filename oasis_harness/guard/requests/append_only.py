"""Whether requests only ever append: for agents that are not ours, from the requests they sent.

A test declares its conversations: one, unless it gives each request a key or says how many there are at most. Whatever
does not extend the request before it under its key is a break, one that starts over included.

A foreign log has no keys. There a request belongs to the conversation it extends, else to the one it shares the longest
beginning of blocks with (tools, system, messages, as chat templates put them), if it shares that one's whole first
request or anything a model or a tool said later on; else it begins a new one, as does what only quotes another's task
under a system text of its own. Each such guess is a line of the report. Every history is read once, block by block, so
the cost is linear in what was sent.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from oasis_harness.sequences import first_difference

from ..relation import Relation
from .blocks import Block, Body, Read, Reader, Request
from .keyed import Keyed
from .kinds import Diagnosis, Kind, diagnose
from .report import NotAppendOnly, Pair, RequestReport
from .threads import Position, Threads

__all__ = ["Render", "assert_append_only", "assert_prefix_stable", "check_requests"]


Conversations: TypeAlias = int | Sequence[str] | None
"""How many there are at most, or the key of each request; None where nobody knows, and they are guessed."""

Render: TypeAlias = Callable[[list[Mapping[str, Any]]], bytes | str]
"""Returns the prompt that is sent for a list of messages, generation prompt included."""


def check_requests(
    requests: Iterable[Request | Body],
    *,
    conversations: Conversations = None,
    declared: Mapping[int, str] | None = None,
    ignore: Collection[str] = (),
) -> RequestReport:
    """Say of every request whether it extends the one before it in its conversation.

    `conversations` is how many there are at most, or a list with the key of each request. Without it they are guessed,
    as a log of another program needs, and what was guessed is in the report: an undeclared compaction that keeps
    nothing cannot be told from a new task under the same head.

    `declared` names requests, by index, that start over on purpose (a compaction, a rewind), each with its reason; the
    head of their prompt has to stand all the same. `ignore` names fields of a body that never reach the prompt.

    Raises:
        ValueError: A declaration without a reason, a body with neither messages nor a prompt, no conversation at all,
            or not one key a request.
    """
    if blank := [index for index, reason in (declared or {}).items() if not reason.strip()]:
        raise ValueError(f"request {blank[0]} is declared without a reason; say why it starts over.")
    given = [item if isinstance(item, Request) else Request(item) for item in requests]
    is_exact = not any(isinstance(request.body, Mapping) for request in given)
    reader = Reader(ignore=ignore, is_exact=is_exact)
    checker = _Checker(declared or {}, _keys(conversations, len(given)), conversations)
    pairs = [checker.pair(index, reader.read(request)) for index, request in enumerate(given)]
    unmet = tuple(sorted(set(declared or {}) - set(range(len(given)))))
    return RequestReport(tuple(pairs), tuple(_aliases(given)), unmet)


def _keys(conversations: Conversations, n_requests: int) -> Sequence[str] | None:
    """Return the key of each request; None where the tree of all of them has to find its conversation."""
    if isinstance(conversations, str):
        raise ValueError(f"conversations is {conversations!r}; give one key a request, as a list, or their number.")
    if conversations is None or isinstance(conversations, int):
        if conversations is not None and conversations < 1:
            raise ValueError(f"conversations is {conversations}; there is one at least.")
        return ["main"] * n_requests if conversations == 1 else None
    if len(conversations) != n_requests:
        raise ValueError(f"{len(conversations)} keys for {n_requests} requests; give one a request.")
    return conversations


def assert_append_only(
    requests: Iterable[Request | Body],
    *,
    conversations: int | Sequence[str] = 1,
    declared: Mapping[int, str] | None = None,
    ignore: Collection[str] = (),
) -> None:
    """Fail unless every request extends the one before it in its conversation; see `check_requests`.

    They are one conversation unless `conversations` says otherwise.

    Bodies are read here: record copies, for what a client changed in place since it sent them cannot be seen.

    Raises:
        NotAppendOnly: With the report: which block and byte moved first, both texts, and what kind of break it is. Also
            where nothing is proved: two requests share one list of messages, no two are of one conversation, all that
            were compared are declared, or one is declared where nothing broke.
    """
    report = check_requests(requests, conversations=conversations, declared=declared, ignore=ignore)
    if report.fault:
        raise NotAppendOnly(report)


def assert_prefix_stable(render: Render, conversations: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    """Fail unless each prompt of a conversation begins with the one sent before it, byte for byte.

    A list of messages that only grows is not enough: templates drop the reasoning of earlier turns once a user speaks,
    treat the last message otherwise, or open a reply with bytes its history does not have.

    Prompts are sent before each reply, and at the end unless a reply ends it: results of parallel calls are appended
    in one step. Whatever the render function raises goes through.

    Raises:
        NotAppendOnly: With the byte, both texts and the kind of break, `template: reasoning dropped` among them; also
            where no conversation has two prompts, and nothing was compared.
    """
    report, n_compared = RequestReport(()), 0
    for number, messages in enumerate(conversations):
        requests = [_request(render, messages[:end]) for end in _sent(messages)]
        report = check_requests(requests, conversations=1) if requests else report
        n_compared += report.n_compared
        if report.breaks:
            raise NotAppendOnly(report, f"conversation {number}: ")
    if not n_compared:
        raise NotAppendOnly(report)


def _sent(messages: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """Yield how many messages each prompt of a conversation holds."""
    for end in range(1, len(messages) + 1):
        is_asked = messages[end - 1].get("role") in ("user", "tool")
        if is_asked and (end == len(messages) or messages[end].get("role") == "assistant"):
            yield end


def _request(render: Render, messages: Sequence[Mapping[str, Any]]) -> Request:
    prompt = render([dict(message) for message in messages])
    return Request({"messages": list(messages)}, prompt=prompt.encode() if isinstance(prompt, str) else prompt)


class _Checker:
    """Takes requests one by one and finds each its predecessor."""

    def __init__(self, declared: Mapping[int, str], keys: Sequence[str] | None, conversations: Conversations) -> None:
        self._declared = declared
        self._sent: Threads | Keyed = Threads() if keys is None else Keyed(keys, declared)
        self._n_allowed = conversations if keys is None and isinstance(conversations, int) else None
        self._conversations: list[int] = []

    def pair(self, index: int, read: Read) -> Pair:
        """Relate the request to those before it, and remember it."""
        position = self._sent.find(read)
        reason = self._declared.get(index, "")
        if reason and not position.keeps_head:
            reason = ""  # only the history may start over
            if position.previous is None and index:
                position = Position(position.path, index - 1, Relation.MOVED)
        relation, found = self._judged(position, read)
        conversation = self._conversation(position, relation)
        if self._n_allowed is not None and conversation not in self._conversations:
            self._n_allowed -= not reason
            relation = Relation.UNDECLARED if self._n_allowed < 0 else relation
        self._conversations.append(conversation)
        self._sent.add(read, position)
        pair = Pair(index, position.previous, conversation, relation, found, reason=reason, note=position.note)
        if found is None or position.previous is None:
            return pair
        offset, before, after = _around(self._sent.reads[position.previous], read)
        return replace(pair, offset=offset, before=before, after=after)

    def _judged(self, position: Position, read: Read) -> tuple[Relation, Diagnosis | None]:
        relation = position.relation
        if position.previous is None or relation is Relation.SHRUNK:
            return relation, None
        if relation is not Relation.MOVED and read.request.is_bare:
            return relation, None  # every block stands, that is how it was placed
        found = self._diagnosis(position.previous, read)
        if found is not None and found.kind is not Kind.CACHE:
            return Relation.MOVED, found
        return (Relation.EXTENDED if relation is Relation.MOVED else relation), found

    def _conversation(self, position: Position, relation: Relation) -> int:
        if position.previous is None or relation is Relation.NEW or position.forks:
            return max(self._conversations, default=-1) + 1
        return self._conversations[position.previous]

    def _diagnosis(self, previous: int, read: Read) -> Diagnosis | None:
        n_between = 0
        if read.request.n_reused is not None:
            own = self._conversations[previous]
            n_between = sum(1 for conversation in self._conversations[previous + 1 :] if conversation != own)
        return diagnose(self._sent.reads[previous], read, n_between=n_between)


def _around(before: Read, after: Read) -> tuple[int, str, str]:
    """Return the first differing byte of the first moved block, and the text around it on both sides, escaped."""
    old, new = _moved_bytes(before, after)
    at = first_difference(old, new)
    return at, _escaped(old, at), _escaped(new, at)


def _moved_bytes(before: Read, after: Read) -> tuple[bytes, bytes]:
    if before.prompt or after.prompt:
        settings = before.settings() == after.settings()
        return (before.prompt, after.prompt) if settings else _bytes_of(*_first_moved(before.blocks, after.blocks))
    a, b = _first_moved(before.blocks, after.blocks)
    if a is None:
        return before.request.prompt or b"", after.request.prompt or b""
    return _bytes_of(a, b)


def _first_moved(old: tuple[Block, ...], new: tuple[Block, ...]) -> tuple[Block | None, Block | None]:
    at = first_difference(old, new)
    return (old[at] if at < len(old) else None, new[at] if at < len(new) else None)


def _bytes_of(*blocks: Block | None) -> tuple[bytes, bytes]:
    a, b = (block.data() if block else b"" for block in blocks)
    return a, b


def _escaped(data: bytes, at: int, *, n_before: int = 24, n_after: int = 56) -> str:
    text = data[max(0, at - n_before) : at + n_after].decode("utf-8", "backslashreplace")
    return text.encode("unicode_escape").decode("ascii")


def _aliases(given: list[Request]) -> list[tuple[int, int]]:
    seen: dict[int, int] = {}
    found = []
    for index, request in enumerate(given):
        messages = request.body.get("messages") if isinstance(request.body, Mapping) else None
        if isinstance(messages, list):
            first = seen.setdefault(id(messages), index)
            found += [(first, index)] if first != index else []
    return found
