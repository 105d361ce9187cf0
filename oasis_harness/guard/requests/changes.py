"""What moved between two requests of one conversation: the first block, what was done to its list, the first leaf.

Only the part of the later request counts that should have replayed the earlier one. JSON is compared with the order of
its keys, the spelling of its numbers, and doubles.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final, TypeAlias

from oasis_harness.sequences import first_difference

from .blocks import Block, Read, members

__all__ = [
    "ABSENT",
    "Change",
    "Members",
    "Number",
    "Shift",
    "Tree",
    "change_of",
    "loose",
    "parse",
    "permuted",
    "words_of",
]


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was spelled."""

    text: str


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a JSON object, in order, doubles kept."""

    pairs: tuple[tuple[str, "Tree"], ...]

    def keys(self) -> list[str]:
        return [key for key, _ in self.pairs]

    def get(self, key: str) -> "Tree":
        return dict(self.pairs).get(key, ABSENT)


class Missing(StrEnum):
    """Stands where nothing is."""

    ABSENT = "absent"


Tree: TypeAlias = "Members | list[Tree] | Number | str | bool | Missing | None"
ABSENT: Final = Missing.ABSENT


class Shift(StrEnum):
    """What was done to a list as a whole."""

    PERMUTED = "permuted"
    INSERTED = "inserted"
    MERGED = "merged"
    SPLIT = "split"
    DROPPED = "dropped"
    REPLACED = "replaced"
    """Several messages by fewer."""
    UNSENT = "unsent"
    """The last message of the earlier request is not there when it should be replayed."""
    RENAMED = "renamed"
    """Tools came or went."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The first moved block of two requests; `section` is empty where every block stands."""

    before: Read
    after: Read
    section: str
    index: int
    """Place within its section."""
    blocks: tuple[Block | None, Block | None]
    """The moved block, before and after."""
    shift: Shift | None = None
    path: str = ""
    """Path of the first leaf that differs, with the block's own name first."""
    leaf: tuple[Tree, Tree] | None = None
    """That leaf, before and after; None where the list as a whole was changed."""
    n_between: int = 0
    """Requests of other conversations between the two."""

    @property
    def is_last(self) -> bool:
        """Whether it is the last message that was sent."""
        return self.section == "messages" and self.index == len(self.before.section("messages")) - 1

    @property
    def role(self) -> str:
        """Role of the moved message as it was sent."""
        return self.blocks[0].role if self.blocks[0] else ""

    @property
    def texts(self) -> tuple[str, str] | None:
        """The leaf, where it is text on both sides."""
        if self.leaf and type(self.leaf[0]) is str and type(self.leaf[1]) is str:
            return self.leaf[0], self.leaf[1]
        return None


def change_of(before: Read, after: Read, n_between: int = 0) -> Change:
    """Find the first block of `before` that `after` does not replay."""
    if before.settings() != after.settings():
        return _setting(before, after)
    for section in ("tools", "system", "messages"):
        old, new = before.section(section), after.section(section)
        at = first_difference(old, new)
        if at < len(old) or (section != "messages" and at < len(new)):
            return _listed(before, after, section, at)
    if not after.prompt.startswith(before.prompt):
        texts = before.prompt.decode("utf-8", "surrogateescape"), after.prompt.decode("utf-8", "surrogateescape")
        return Change(before, after, "prompt", 0, (None, None), path="prompt", leaf=texts)
    return Change(before, after, "", 0, (None, None), n_between=n_between)


def _setting(before: Read, after: Read) -> Change:
    old, new = before.settings(), after.settings()
    name = min(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    a, b = (parse(values[name]) if name in values else ABSENT for values in (old, new))
    path, a, b = _first_difference(a, b, name)
    blocks = tuple(next(iter(read.section(name)), None) for read in (before, after))
    return Change(before, after, name, 0, (blocks[0], blocks[1]), path=path, leaf=(a, b))


def _listed(before: Read, after: Read, section: str, at: int) -> Change:
    old, new = before.section(section), after.section(section)
    blocks = (old[at] if at < len(old) else None, new[at] if at < len(new) else None)
    name = section if section == "system" or any(b and b.text in ("null", "[]") for b in blocks) else f"{section}[{at}]"
    shift = {"tools": _tool_shift, "messages": _message_shift}.get(section, _no_shift)(old, new, at)
    if shift is not None:
        return Change(before, after, section, at, blocks, shift, name)
    a, b = (parse(block.text) if block else ABSENT for block in blocks)
    path, a, b = _first_difference(a, b, name)
    if path == name and blocks[0] and blocks[1] and a == b:
        path += path_at(blocks[0].text, first_difference(blocks[0].text, blocks[1].text))
    return Change(before, after, section, at, blocks, path=path, leaf=(a, b))


def _no_shift(old: Sequence[Block], new: Sequence[Block], at: int) -> Shift | None:
    return None


def _tool_shift(old: Sequence[Block], new: Sequence[Block], at: int) -> Shift | None:
    if permuted(old, new, at):
        return Shift.PERMUTED
    names, new_names = ([_tool_name(block) for block in blocks if block.text[:1] == "{"] for blocks in (old, new))
    if Counter(names) != Counter(new_names):
        return Shift.RENAMED
    return Shift.PERMUTED if names != new_names else None


def _tool_name(block: Block) -> str:
    tool = json.loads(block.text, strict=False)
    function = tool.get("function")
    return str((function if isinstance(function, dict) else tool).get("name", ""))


def _message_shift(old: Sequence[Block], new: Sequence[Block], at: int) -> Shift | None:
    if at >= len(new):
        return Shift.DROPPED
    a, b = old[at], new[at]
    is_last = at == len(old) - 1
    if permuted(old, new, at):
        return Shift.PERMUTED
    if is_last and b.role == "assistant" != a.role:
        return Shift.UNSENT
    if a in new[at + 1 :]:
        return Shift.INSERTED
    if _holds_both(b, old[at : at + 2]):
        return Shift.MERGED
    if _holds_both(a, new[at : at + 2]):
        return Shift.SPLIT
    if b in old[at + 1 :]:
        return Shift.DROPPED
    is_aligned = old[at + 1 : at + 2] == new[at + 1 : at + 2]
    if not is_last and not is_aligned and (len(new) < len(old) or new[at + 1 : at + 2] == _next_known(old, new, at)):
        return Shift.REPLACED
    return None


def _next_known(old: Sequence[Block], new: Sequence[Block], at: int) -> list[Block]:
    """Return the block after `at` of `new`, where it is one of those further down `old`."""
    return [block for block in new[at + 1 : at + 2] if block in old[at + 2 :]] or [Block("", "")]


def _holds_both(one: Block, two: Sequence[Block]) -> bool:
    if len(two) < 2 or {two[0].role, two[1].role} != {one.role}:
        return False
    text, first, second = (words_of(parse(block.text)) for block in (one, *two))
    return bool(first and second) and text.startswith(first) and second in text[len(first) :]


def permuted(old: Sequence[object], new: Sequence[object], at: int) -> int:
    """Return where the stretch from `at` ends that holds the same items in another order; 0 where there is none."""
    surplus: Counter[object] = Counter()
    for index in range(at, min(len(old), len(new))):
        surplus[old[index]] += 1
        surplus[new[index]] -= 1
        if not any(surplus.values()):
            return index + 1 if index > at else 0
    return 0


def parse(text: str) -> Tree:
    """Parse JSON, keeping order, spelling and doubles."""
    tree: Tree = json.loads(
        text,
        object_pairs_hook=lambda pairs: Members(tuple(pairs)),
        parse_int=Number,
        parse_float=Number,
        parse_constant=Number,
        strict=False,
    )
    return tree


def loose(tree: Tree, *, is_ordered: bool = True) -> object:
    """Return what `tree` means: spelling, doubles and key order do not count, nor list order unless `is_ordered`."""
    if isinstance(tree, Members):
        return {key: loose(value, is_ordered=is_ordered) for key, value in tree.pairs}
    if isinstance(tree, list):
        items = [loose(item, is_ordered=is_ordered) for item in tree]
        return items if is_ordered else sorted(items, key=_sorting)
    if isinstance(tree, Number):
        try:
            return ("number", Decimal(tree.text).normalize())
        except InvalidOperation:
            return ("number", tree.text)
    return tree if isinstance(tree, str) else ("constant", str(tree))


def _sorting(item: object) -> str:
    return repr(dict(sorted(item.items())) if isinstance(item, dict) else item)


def words_of(message: Tree) -> str:
    """Return the text of a message, of all parts of its content."""
    content = message.get("content") if isinstance(message, Members) else message
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Members) else part for part in content]
        return "".join(part for part in parts if type(part) is str)
    return content if type(content) is str else ""


def _first_difference(a: Tree, b: Tree, path: str) -> tuple[str, Tree, Tree]:
    """Return path and both values of the first leaf that differs, or of what holds the same things in another order."""
    if isinstance(a, Members) and isinstance(b, Members):
        keys, new_keys = a.keys(), b.keys()
        if keys != new_keys and set(keys) == set(new_keys):
            return path, a, b
        for key in dict.fromkeys([*keys, *new_keys]):
            if a.get(key) != b.get(key):
                return _first_difference(a.get(key), b.get(key), f"{path}.{key}")
    if isinstance(a, list) and isinstance(b, list) and loose(a, is_ordered=False) != loose(b, is_ordered=False):
        for index in range(max(len(a), len(b))):
            x, y = (items[index] if index < len(items) else ABSENT for items in (a, b))
            if x != y:
                return _first_difference(x, y, f"{path}[{index}]")
    return path, a, b


def path_at(text: str, offset: int) -> str:
    """Return the path of the innermost value of the JSON `text` that holds the character at `offset`."""
    path, at = "", 0
    while text[at] in "{[":
        found = next(((step, start) for step, start, end in members(text, at) if offset < end), None)
        if found is None or offset < found[1]:
            return path + (found[0] if found else "")
        path, at = path + found[0], found[1]
    return path
