r"""The checks of one leaf that differs: the same words written otherwise, or words that differ in one telling thing.

    "It is 10:00."              "It is 10:01."              clock: a time, a date or a counter
    "Work in /home/ann/app."    "Work in /home/bob/app."    path: another path
    "OS: linux"                 "OS: darwin"                environment: OS
    "Session 7f3a9c21 began."   "Session 0b55d1e8 began."   random: an id made anew
    "read, write, run"          "run, read, write"          order: listed items
    "[1, 2]"                    "[1,2]"                     serialisation: the same value respelled
    "verbose is True now"       "verbose is true now"       serialisation: True for true
    "Be brief."                 "Be brief.  "               whitespace: trailing space
    "caf\u00e9"                 "cafe\u0301"                unicode: Unicode normal form
    ""                          null                        presence: "" became null
    "Be brief."                 "Translate."                unknown: changed

They exclude each other by what they ask; each is tested to be silent on every other kind's mutants.
"""

import re
from functools import lru_cache

from ..textdiff import Why, is_at_ends, why_alone
from ..volatile import Mask, mask_of
from .alike import (
    differing_lines,
    label_of,
    order_of,
    spelled_alike,
)
from .changes import ABSENT, Change, Members, Number, Shift, Tree, loose, parse, permuted, words_of

__all__ = [
    "clock",
    "environment",
    "is_prompt",
    "is_rewritten",
    "is_told",
    "order",
    "path",
    "presence",
    "random",
    "serialisation",
    "unicode",
    "whitespace",
]

_UNREAD = ("model", "chat_template", "chat_template_kwargs")
"""Settings whose words name no kind: another date in a model's name is another model."""
_PATHS: dict[Mask | None, str] = {Mask.PATH: "another path", Mask.CASE: "upper and lower case"}
_EMPTY = {repr(ABSENT): "absent", "None": "null", "''": '""', "[]": "[]", repr(Members(())): "{}"}


def presence(change: Change) -> str:
    """Tell null, "", [], {} and nothing at all apart."""
    names = [_EMPTY.get(repr(value), "") for value in change.leaf or ()]
    return f"{names[0]} became {names[1]}" if all(names) and len(set(names)) == 2 else ""


def order(change: Change) -> str:
    """Find the same things in another order: tools, messages of one role, keys, items, lines."""
    if change.shift is Shift.PERMUTED:
        if change.section == "tools":
            return "tools"
        return f"{change.role} messages" if len(_permuted_roles(change)) == 1 else ""
    if change.leaf is None:
        return ""
    a, b = _unpacked(change.leaf[0]), _unpacked(change.leaf[1])
    if isinstance(a, Members) and isinstance(b, Members) and a.keys() != b.keys() and set(a.keys()) == set(b.keys()):
        return _keys(change) if len(a.pairs) == len(b.pairs) else ""
    if isinstance(a, Members | list) and loose(a, is_ordered=False) == loose(b, is_ordered=False):
        return "list items" if loose(a) != loose(b) else _keys(change) if _key_order(a) != _key_order(b) else ""
    if change.texts is None or _is_white(change) or mask_of(*change.texts, is_prompt=is_prompt(change)) is Mask.CLOCK:
        return ""
    return order_of(*change.texts, is_prompt=is_prompt(change))


def serialisation(change: Change) -> str:
    """Find the same value in other characters."""
    if change.leaf is None or presence(change) or order(change):
        return ""
    a, b = (_unpacked(value) for value in change.leaf)
    if loose(a) == loose(b):
        return "" if _is_white(change) else "doubled keys" if _doubles(a) != _doubles(b) else "the same value respelled"
    if isinstance(a, list) != isinstance(b, list) and words_of(a) == words_of(b) != "":
        return "text as parts"
    if change.texts is None:
        return "another type" if type(a) is not type(b) and _scalar(a) == _scalar(b) != "" else ""
    return "" if _is_white(change) else spelled_alike(*change.texts, is_prompt=is_prompt(change))


def whitespace(change: Change) -> str:
    """Find trimmed text, other line ends, a byte order mark."""
    if change.texts is None or presence(change) or serialisation(change):
        return ""
    return _way(change) if _way(change) not in (Why.UNICODE_FORM, Why.INVISIBLE) else ""


def unicode(change: Change) -> str:
    """Find another normal form, and characters nobody sees."""
    if change.texts is None or presence(change) or whitespace(change) or serialisation(change):
        return ""
    return _way(change)


@lru_cache(maxsize=64)
def is_rewritten(change: Change) -> bool:
    """Whether both sides say the same, written otherwise."""
    return any(check(change) for check in (presence, order, serialisation, whitespace, unicode))


def is_prompt(change: Change) -> bool:
    """Whether the texts are raw prompts, of which the later one is longer."""
    return change.section == "prompt"


def _is_white(change: Change) -> bool:
    """Whether the two texts differ at their ends, in line ends or a mark only: not inside what they spell."""
    return change.texts is not None and is_at_ends(*change.texts, is_prompt=is_prompt(change))


def _way(change: Change) -> str:
    return (change.texts and why_alone(*change.texts, is_prompt=is_prompt(change))) or ""


def _permuted_roles(change: Change) -> set[str]:
    old, new = change.before.section("messages"), change.after.section("messages")
    return {block.role for block in old[change.index : permuted(old, new, change.index)]}


def _keys(change: Change) -> str:
    return "schema keys" if change.section == "tools" else "keys"


def _key_order(tree: Tree) -> object:
    if isinstance(tree, Members):
        return [(key, _key_order(value)) for key, value in dict(tree.pairs).items()]
    return [_key_order(item) for item in tree] if isinstance(tree, list) else None


def _doubles(tree: Tree) -> bool:
    if isinstance(tree, Members):
        return len(set(tree.keys())) < len(tree.pairs) or any(_doubles(value) for _, value in tree.pairs)
    return isinstance(tree, list) and any(_doubles(item) for item in tree)


def _unpacked(value: Tree) -> Tree:
    """Return the object or list that a text spells in JSON; arguments and results often do."""
    if type(value) is str and value.strip()[:1] in ("{", "["):
        try:
            return parse(value)
        except (ValueError, RecursionError):
            return value
    return value


def _scalar(value: Tree) -> str:
    if isinstance(value, Number):
        return value.text
    return str(value).casefold() if isinstance(value, str | bool) and value is not ABSENT else ""


def clock(change: Change) -> str:
    """Find a time, a date or a counter on both sides."""
    return "a time, a date or a counter" if _mask(change) is Mask.CLOCK else ""


def environment(change: Change) -> str:
    """Find a fact of the machine under its label."""
    if change.texts is None or is_rewritten(change) or clock(change):
        return ""
    return label_of(*change.texts)


def path(change: Change) -> str:
    """Find a path on both sides."""
    if environment(change) or _is_id(change):
        return ""
    return _PATHS.get(_mask(change), "")


def random(change: Change) -> str:
    """Find an id that was made anew."""
    if environment(change) or clock(change) or (not _is_id(change) and _mask(change) is not Mask.RANDOM):
        return ""
    return f"another {change.path.rpartition('.')[2]}" if _is_id(change) else "an id made anew"


@lru_cache(maxsize=64)
def is_told(change: Change) -> bool:
    """Whether the words themselves name the break."""
    return is_rewritten(change) or any(check(change) for check in (clock, environment, path, random))


@lru_cache(maxsize=64)
def _mask(change: Change) -> Mask | None:
    if change.texts is None or change.section in _UNREAD or is_rewritten(change):
        return None
    if mask := mask_of(*change.texts, is_prompt=is_prompt(change)):
        return mask
    return next((mask for lines in differing_lines(*change.texts) if (mask := mask_of(*lines))), None)


def _is_id(change: Change) -> bool:
    key = change.path.rpartition(".")[2]
    is_key = re.search(r"(?:^|_)(?:id|nonce|key|seed)$", key) is not None
    return is_key and change.texts is not None and all(change.texts) and not is_rewritten(change)
