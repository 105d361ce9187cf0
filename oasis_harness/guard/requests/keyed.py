"""Requests of conversations that were declared by key: each is compared with the one before it under its key.

    request 0  main   [system, "Port the build."]
    request 1  main   [system, "Port the build.", reply, "Go on."]                   extends request 0
    request 2  title  ["Write a title.", "Port the build."]                          new: the first one of its key
    request 3  main   [system, "Summary of the work so far"]                         moved: starts over, same head
    request 4  main   [system, "Port the build.", reply, "Go on.", reply, result]    extends request 1

Nothing is guessed. Request 3 is a break unless it was declared. After such a break the history it left may go on, as
request 4 does, which is no second break: a side request that nobody declared is reported once.
"""

from collections.abc import Collection, Iterator, Sequence

from oasis_harness.sequences import first_difference

from ..relation import Relation
from .blocks import Block, Read
from .threads import Position, start_over

__all__ = ["Keyed"]


class Keyed:
    """What was sent so far, by key."""

    def __init__(self, keys: Sequence[str], declared: Collection[int]) -> None:
        self.reads: list[Read] = []
        self._keys = keys
        self._declared = declared
        self._tips: dict[str, int] = {}  # by key: its last request
        self._left: dict[str, list[int]] = {}  # by key: requests that an undeclared one did not follow up

    def find(self, read: Read) -> Position:
        """Compare `read` with the request before it under its key."""
        key = self._keys[len(self.reads)]
        tip = self._tips.get(key)
        if tip is None:
            return Position((), None, Relation.NEW, keeps_head=True)
        for earlier in self._candidates(key):
            relation = _relation(self.reads[earlier], read)
            if relation in (Relation.SAME, Relation.EXTENDED):
                return Position((), earlier, relation, keeps_head=True)
        return _parted(self.reads[tip], read, tip)

    def add(self, read: Read, position: Position) -> None:
        """Remember `read`."""
        index = len(self.reads)
        key = self._keys[index]
        tip, left = self._tips.get(key), self._left.setdefault(key, [])
        if position.previous in left:
            left.remove(position.previous)
        is_resumed = tip is not None and position.previous != tip
        is_compaction = index in self._declared and position.keeps_head
        is_broken = position.relation in (Relation.MOVED, Relation.SHRUNK) and not is_compaction
        if tip is not None and (is_resumed or is_broken):
            left.append(tip)
        self.reads.append(read)
        self._tips[key] = index

    def _candidates(self, key: str) -> Iterator[int]:
        yield self._tips[key]
        yield from reversed(self._left[key])


def _relation(before: Read, after: Read) -> Relation:
    n_same = first_difference(before.blocks, after.blocks)
    if n_same == len(before.blocks) and after.prompt.startswith(before.prompt):
        is_same = n_same == len(after.blocks) and after.prompt == before.prompt
        return Relation.SAME if is_same else Relation.EXTENDED
    is_shorter = n_same == len(after.blocks) and before.prompt.startswith(after.prompt)
    return Relation.SHRUNK if is_shorter else Relation.MOVED


def _parted(before: Read, after: Read, tip: int) -> Position:
    """Say how `after` leaves `before`, and whether it starts over: nothing that was said behind the head is in it."""
    keeps_head = first_difference(before.blocks, after.blocks) >= before.n_head
    said = set(before.blocks[before.n_head :])
    is_over = bool(said) and said.isdisjoint(after.blocks[after.n_head :])
    is_aside = not after.has_reply and _system(before) != _system(after)  # it quotes the task, as for a title
    note = start_over(keeps_head=keeps_head) if not after.prompt and (is_over or is_aside) else ""
    return Position((), tip, _relation(before, after), keeps_head, note=note)


def _system(read: Read) -> list[Block]:
    return [block for block in read.blocks[: read.n_head] if block.section in ("system", "messages")]
