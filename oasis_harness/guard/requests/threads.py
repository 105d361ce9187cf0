"""Requests as paths in one tree of blocks, which finds each its predecessor without any conversation id.

    0  S"You mend." U"Repair add."                              begins a conversation
    1  S"You mend." U"Name all."                                begins one: another task under the same head
    2  S"You mend." U"Repair add." A"Done." U"Thanks."          extends 0
    3  S"You mend." U"Name all." A"a.py" U"Go on."              extends 1: they may take turns
    4  S"You mend." U"Repair add." A"Done!" U"Thanks." A"Ok."   moved from 2: 0 is all in it, what came next is not
    5  S"Write a title, nothing else." U"Repair add."           begins one: it quotes the task for another purpose
    6  S"You mend." U"Repair add."                              begins one, as 0 did: a second sample
    7  S"You mend." U"Repair add."                              same as 6: a retry, or a third

A request that was answered and not yet followed up is *open* at the end of its path: after request 3 these are 2 and 3.
The next one that leaves the tree exactly there follows it up; of two identical ones (6 and 7) each can be followed up
once. One that leaves the tree elsewhere, as 4 does, has moved if it holds the whole first request of a conversation, or
anything telling that was said in one.
"""

import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from oasis_harness.sequences import first_difference

from ..relation import Relation
from .blocks import Block, Read
from .changes import parse, words_of

__all__ = ["Position", "Threads", "start_over"]

_N_RECENT = 16
"""So many first requests are looked at for one that resembles a history whose beginning moved."""
_LIKENESS = 0.5
_N_TELLING = 40
"""A user's message of so many characters of JSON is hardly sent in two conversations by chance."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a request stands to those before it."""

    path: Sequence[int]
    """Known nodes of its path, the root first."""
    previous: int | None
    relation: Relation
    keeps_head: bool = False
    """Whether settings, tools and system text are those of an earlier request."""
    note: str = ""
    """What it does, in words, where it does not simply follow up the request before it."""
    forks: bool = False
    """Whether the same history was followed up before, so that this is a conversation of its own."""


def start_over(*, keeps_head: bool) -> str:
    """Say that a request has nothing in it of what was said before."""
    return f"starts over under {'the same' if keeps_head else 'another'} head"


class Threads:
    """The tree of everything that was sent."""

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self._edges: dict[tuple[int, Block], int] = {}
        self._latest: list[int] = [-1]  # by node: the last request through it
        self._open: dict[int, list[int]] = {}  # by node: requests that end there and were not followed up
        self._seen: dict[Block, int] = {}  # a node right behind each block
        self._ends: list[int] = []  # by request: the node it ends at
        self._first: list[int] = []  # by request: the first one of its conversation
        self._starts: dict[str, int] = {}  # by the letters of its first message: the first request
        self._recent: deque[int] = deque(maxlen=_N_RECENT)  # first requests
        self._heads: set[tuple[Block, ...]] = set()
        self._copy_of: list[int] = []  # by request: the first one that is identical to it
        self._followed: set[int] = set()  # those of which a copy was followed up

    def find(self, read: Read) -> Position:
        """Find the predecessor of `read`, and say how it relates to it."""
        path = self._walk(read)
        keeps_head = read.blocks[: read.n_head] in self._heads
        for index in reversed(self._open.get(path[-1], [])):
            if read.prompt.startswith(self.reads[index].prompt):
                is_same = len(path) - 1 == len(read.blocks) and read.prompt == self.reads[index].prompt
                return self._repeated(path, index, keeps_head) if is_same else self._extended(path, index, keeps_head)
        nearest = self._latest[path[-1]] if len(path) > 1 or read.prompt else -1
        is_end = nearest >= 0 and len(path) - 1 == len(read.blocks)
        if is_end and self.reads[nearest].prompt.startswith(read.prompt):
            previous, relation = self._shorter(read, nearest)
        else:
            previous = self._moved_from(read, path, nearest)
            relation = Relation.NEW if previous is None else Relation.MOVED
        is_start = previous is None and bool(self.reads)
        n_head = read.n_head + bool(read.prompt)  # a raw prompt has no head but what it begins with
        has_same = keeps_head and len(path) > n_head
        return Position(path, previous, relation, keeps_head, start_over(keeps_head=has_same) if is_start else "")

    def add(self, read: Read, position: Position) -> None:
        """Remember `read`."""
        index, node = len(self.reads), position.path[-1]
        for known in position.path:
            self._latest[known] = index
        for block in read.blocks[len(position.path) - 1 :]:
            node = self._edges.setdefault((node, block), len(self._latest))
            self._seen[block] = node
            self._latest.append(index)
        if position.relation in (Relation.EXTENDED, Relation.MOVED) and position.previous is not None:
            self._close(position.previous)
            self._followed.add(self._copy_of[position.previous])
        self._open.setdefault(node, []).append(index)
        self._ends.append(node)
        copied = position.previous if position.relation is Relation.SAME else None
        self._copy_of.append(index if copied is None else self._copy_of[copied])
        self.reads.append(read)
        self._heads.add(read.blocks[: read.n_head])
        self._first.append(index if position.previous is None else self._first[position.previous])
        if position.previous is None:
            self._recent.append(index)
            self._starts[_letters(read)] = index

    def _repeated(self, path: Sequence[int], previous: int, keeps_head: bool) -> Position:
        return Position(path, previous, Relation.SAME, keeps_head, f"repeats request {previous}")

    def _extended(self, path: Sequence[int], previous: int, keeps_head: bool) -> Position:
        forks = self._copy_of[previous] in self._followed
        note = f"also follows up what request {previous} sent" if forks else ""
        return Position(path, previous, Relation.EXTENDED, keeps_head, note, forks)

    def _walk(self, read: Read) -> list[int]:
        path, node = [0], 0
        for block in read.blocks:
            found = self._edges.get((node, block))
            if found is None:
                break
            path.append(node := found)
        return path

    def _is_open(self, index: int) -> bool:
        return index in self._open.get(self._ends[index], [])

    def _close(self, index: int) -> None:
        if self._is_open(index):
            self._open[self._ends[index]].remove(index)

    def _shorter(self, read: Read, nearest: int) -> tuple[int | None, Relation]:
        """Tell a conversation that starts as another one did from one that lost its end."""
        first = self.reads[self._first[nearest]]
        is_start = len(read.blocks) == len(first.blocks) and read.prompt == first.prompt and not read.has_reply
        return (None, Relation.NEW) if is_start else (nearest, Relation.SHRUNK)

    def _moved_from(self, read: Read, path: Sequence[int], nearest: int) -> int | None:
        """Return the request that `read` should have extended; None where it begins a conversation."""
        depth = len(path) - 1
        if nearest >= 0 and self._shares_start(read, depth, self.reads[self._first[nearest]]):
            return nearest
        first = read.n_head if not read.prompt else -1
        votes: dict[int, int] = {}
        for at, block in enumerate(read.blocks[max(depth, read.n_head) :], max(depth, read.n_head)):
            is_telling = at == first or block.role in ("assistant", "tool") or len(block.text) >= _N_TELLING
            if is_telling and (node := self._seen.get(block)) is not None:
                request = self._latest[node]
                votes[request] = votes.get(request, 0) + 1
        voted = max(votes, key=lambda request: (votes[request], request)) if votes else self._resembling(read, depth)
        return None if voted is None or _is_aside(read, self.reads[voted]) else voted

    def _shares_start(self, read: Read, depth: int, first: Read) -> bool:
        """Whether `read` begins with the whole first request of a conversation."""
        if read.prompt or first.prompt:
            return bool(first.prompt) and read.prompt.startswith(first.prompt)
        return depth >= len(first.blocks) and depth > read.n_head

    def _resembling(self, read: Read, depth: int) -> int | None:
        """Return the request whose history `read` holds with its beginning respelled or a little changed.

        It holds none where its beginning stands to the byte and nothing was said since: many conversations open with
        one environment, or with the same examples.
        """
        is_new = depth > read.n_head and all(block.role != "assistant" for block in read.blocks[depth:])
        letters = "" if is_new else _letters(read)
        if letters and (start := self._starts.get(letters)) is not None:
            return self._latest[self._ends[start]]
        alike = [(_likeness(self.reads[index], read), index) for index in self._recent if self._is_open(index)]
        likeness, index = max(alike, default=(0.0, 0))
        return index if likeness >= _LIKENESS else None


def _is_aside(read: Read, other: Read) -> bool:
    """Whether `read` opens with the words of `other` for another purpose, as what asks for a title does.

    It has nothing said in it yet, another system text altogether, and not the same tools.
    """
    old, new = (_system_text(one) for one in (other, read))
    tools = read.section("tools")
    is_same_agent = bool(tools) and tools == other.section("tools")
    return not (read.has_reply or is_same_agent) and bool(old and new) and _shared(old, new) < _LIKENESS


def _system_text(read: Read) -> str:
    return " ".join(block.text for block in read.blocks[: read.n_head] if block.section in ("system", "messages"))


def _letters(read: Read) -> str:
    """Return the letters and digits of the first message that is no system text: what respelling leaves alone."""
    if read.prompt or read.n_head >= len(read.blocks):
        return ""
    text = unicodedata.normalize("NFKC", words_of(parse(read.blocks[read.n_head].text))).casefold()
    return "".join(char for char in text if char.isalnum())


def _likeness(first: Read, read: Read) -> float:
    """Return the share of words that both have where they part, 0 where `read` cannot follow `first` up."""
    if first.prompt or read.prompt:
        old, new = first.prompt, read.prompt
        is_longer = bool(old) and len(new) > len(old)
        return _shared(old.decode("latin-1"), new[: len(old) + 64].decode("latin-1")) if is_longer else 0.0
    if not read.has_reply or len(read.blocks) <= len(first.blocks):
        return 0.0
    parted = [(a, b) for a, b in zip(first.blocks, read.blocks, strict=False) if a is not b]
    if len(parted) == 1 and parted[0][0] is first.blocks[-1] and parted[0][1].role == "assistant":
        return 1.0 if len(first.blocks) - 1 > first.n_head else 0.0  # the reply to a prompt that was never sent
    if not parted or any(a.section != b.section or a.role != b.role for a, b in parted):
        return 0.0
    return min(_shared(a.text, b.text) for a, b in parted)


def _shared(old: str, new: str) -> float:
    a, b = set(old.split()), set(new.split())
    start = first_difference(old, new)
    end = min(first_difference(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    return max(len(a & b) / max(1, len(a | b)), (start + end) / max(1, len(old), len(new)) - 0.1)
