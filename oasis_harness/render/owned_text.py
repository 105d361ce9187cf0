"""Texts with their owners, before a template prints them: words put together of runs, and the leaves of a schema.

A leaf is named after its owner and its place there, `head/tool[read_file].parameters.limit.description`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .spans import HARNESS, Resolution

__all__ = ["Group", "Leaf", "OwnedText", "Run", "joined", "leaves_of", "map_leaves", "named", "runs_of", "tool_owner"]

_TEXT_KEYS = frozenset({"const", "default", "description", "enum", "examples", "pattern", "title"})
"""Keys of a tool's schema under which free text stands."""


class Group(StrEnum):
    """Leaves that stand or fall together: a template may print one kind as it is and rewrite another."""

    TEXT = "text"
    """Free text: what a person types, a tool prints, a schema says."""
    NAME = "name"
    """Names of tools."""
    KEY = "key"
    """Names of parameters."""
    OTHER = "other"
    """Types, formats and the like, which templates look at."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text of a schema."""

    name: str
    text: str
    group: Group
    owner: str
    """The tool it is of."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a text, of one owner."""

    name: str
    text: str
    resolution: Resolution


class OwnedText(str):
    """A text that knows whose words it is made of. To a template it is the plain string, which it is made into."""

    __slots__ = ("runs",)
    runs: tuple[Run, ...]

    def __new__(cls, runs: Iterable[Run]) -> "OwnedText":
        runs = tuple(run for run in runs if run.text)
        words = super().__new__(cls, "".join(run.text for run in runs))
        words.runs = runs
        return words

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copy as the plain string: whose words it was is told before a template gets it."""
        return str, (str(self),)


def named(name: str, text: str) -> OwnedText:
    """Return `text` as the words of `name`. White space at its ends is no one's, since templates trim it."""
    core = text.strip()
    start = text.index(core)
    return OwnedText([_ours(text[:start]), Run(name, core, Resolution.EXACT), _ours(text[start + len(core) :])])


def joined(separator: str, texts: Iterable[str]) -> OwnedText:
    """Return `texts` with `separator` between them; those that are plain strings are the harness's own."""
    runs: list[Run] = []
    for number, text in enumerate(texts):
        runs += [_ours(separator)] if number else []
        runs += text.runs if isinstance(text, OwnedText) else [_ours(text)]
    return OwnedText(runs)


def runs_of(text: str) -> Iterator[Run]:
    """Return the runs of `text` without the white space at its ends."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    done = 0
    for run in text.runs if isinstance(text, OwnedText) else (_ours(text),):
        left, done = done, done + len(run.text)
        yield Run(run.name, run.text[max(start - left, 0) : max(end - left, 0)], run.resolution)


def map_leaves(tool: Mapping[str, Any], owner: str, change: Callable[[Leaf], str]) -> dict[str, Any]:
    """Return the schema `tool`, whole or only its `function`, with `change` applied to every text and name in it."""
    return _Mapping(owner, change).object(tool, owner)


def leaves_of(tool: Mapping[str, Any], owner: str) -> list[Leaf]:
    """Return the texts and names of `tool`, in the order in which `map_leaves` meets them."""
    leaves: list[Leaf] = []

    def collect(leaf: Leaf) -> str:
        leaves.append(leaf)
        return leaf.text

    map_leaves(tool, owner, collect)
    return leaves


def tool_owner(tool: Mapping[str, Any], prefix: str = "head/") -> str:
    """Return the name of the owner of what a tool's schema says."""
    return f"{prefix}tool[{tool['function']['name']}]"


class _Mapping:
    """A walk over one schema, always in the same order."""

    def __init__(self, owner: str, change: Callable[[Leaf], str]) -> None:
        self._owner = owner
        self._change = change

    def object(self, value: Mapping[str, Any], place: str) -> dict[str, Any]:
        return {key: self._item(key, item, value, place) for key, item in value.items()}

    def _item(self, key: str, item: Any, around: Mapping[str, Any], place: str) -> Any:
        if key == "properties" and isinstance(item, dict):
            return {self._leaf(f"{place}.{name}", name, Group.KEY): self._value(one, f"{place}.{name}", _group(name))
                    for name, one in item.items()}  # fmt: skip
        if key == "required" and isinstance(item, list) and isinstance(around.get("properties"), dict):
            return [self._required(one, f"{place}.required[{n}]", place, around) for n, one in enumerate(item)]
        if place == self._owner and key == "function":
            return self._value(item, place, Group.OTHER)
        if place == self._owner and key == "name":
            return self._value(item, f"{place}.name", Group.NAME)
        return self._value(item, f"{place}.{key}", _group(key))

    def _required(self, item: Any, place: str, parent: str, around: Mapping[str, Any]) -> Any:
        if isinstance(item, str) and item in around["properties"]:
            return self._leaf(f"{parent}.{item}", item, Group.KEY)
        return self._value(item, place, Group.OTHER)

    def _value(self, value: Any, place: str, group: Group) -> Any:
        if isinstance(value, str):
            return self._leaf(place, value, group)
        if isinstance(value, list):
            return [self._value(item, f"{place}[{n}]", group) for n, item in enumerate(value)]
        return self.object(value, place) if isinstance(value, dict) else value

    def _leaf(self, name: str, text: str, group: Group) -> str:
        return self._change(Leaf(name, text, group, self._owner))


def _group(key: str) -> Group:
    return Group.TEXT if key in _TEXT_KEYS else Group.OTHER


def _ours(text: str) -> Run:
    return Run(HARNESS, text, Resolution.SCAFFOLD)
