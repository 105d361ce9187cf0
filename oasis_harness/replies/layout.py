r"""Where the parts of a call stand in a dialect's own way of writing it, and the reader that follows from that.

    <seed:call>\n<function=read>\n<parameter=path>a.py</parameter>\n</function>\n</seed:call>
    └ opener ─┘└── begin ─────┘    └ element before, key, between, value, after┘└─ end ──┘└closer┘

    <|tools|>[{"name": "read", "arguments": {"path": "a.py"}}]<|/tools|>     one JSON value names it and holds them
    <function=read>{"path": "a.py"}</function>                               a name, then a JSON object
    <calls>read(path="a.py")</calls>                                         a name, then Python's keywords

`certify` learns the parts from a template. White space around them is the model's to choose; in a value it is kept.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from .values import element_value, json_value, keywords

__all__ = ["ArgumentsForm", "CallLayout", "Element"]

_NAME = r"[\w.:/-]{1,100}"
_ID = "{id}"
"""Stands in a part for the id that the model gives its call."""


class ArgumentsForm(StrEnum):
    """What holds a call's arguments."""

    CALL = "call"
    """One JSON value that names the function, too."""
    OBJECT = "object"
    """A JSON object after the name."""
    ELEMENTS = "elements"
    """One element a parameter after the name."""
    KEYWORDS = "keywords"
    """`name(key=value, …)`."""


@dataclass(frozen=True, slots=True)
class Element:
    """What stands around the key and the value of one parameter."""

    before: str
    between: str
    """Between a key and a value that is text."""
    between_other: str
    """The same before any other value, which is JSON; where both are one, the schema tells them apart."""
    after: str


@dataclass(frozen=True, slots=True)
class CallLayout:
    """The parts of a call, as a template writes them."""

    form: ArgumentsForm
    opener: str
    """Opens the calls of a reply; empty where nothing does."""
    begin: str
    """Opens one of them, up to its name."""
    between: str
    """Stands between the name and the arguments."""
    end: str
    """Ends one."""
    closer: str
    """Closes the calls of a reply."""
    separator: str | None = None
    """Stands between two calls; None where each is opened and closed for itself."""
    keys: tuple[str, str, str] = ("name", "arguments", "id")
    """Where the JSON value of a call has its name, its arguments and its id, dotted; no name: it is the one key."""
    element: Element | None = None
    is_whole: bool = False
    """Has no mark that text could not have: a call is the whole of a reply."""
    openers: tuple[str, ...] = ()
    """Other words that a model opens calls with, likeliest first."""
    betweens: tuple[str, ...] = ()
    """The same of what it writes between name and arguments."""

    def extent(self, text: str) -> int:
        """Return where the calls end that `text`, right after their opener, begins with; 0 if that is not known."""
        if self.form is ArgumentsForm.ELEMENTS:
            return 0
        try:
            return self._read(text)[1]
        except (ValueError, RecursionError):
            return 0

    def parse(self, text: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the calls of `text`, which stood between the opener and the closer.

        Raises:
            ValueError: It is not written so.
        """
        calls, end = self._elements(text, tools) if self.form is ArgumentsForm.ELEMENTS else self._read(text)
        if text[end:].strip():
            raise ValueError(f"{text[end : end + 40].strip()!r} stands after the call")
        return calls

    def find(self, text: str) -> tuple[int, int] | None:
        """Return (start, end) of the first opener in `text`, or None."""
        match = _opening(self).search(text)
        return match.span() if match else None

    def is_begun(self, text: str, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Say whether `text` begins as a call of one of `tools` does, up to its arguments."""
        match = _named_begin(self).match(text)
        names = {str(tool.get("function", tool).get("name")) for tool in tools}
        return match is not None and match["name"] in names

    def marks_among(self, specials: Collection[str]) -> tuple[str, ...]:
        """Return the special tokens that a call is written with."""
        written = "\n".join(
            (self.opener, self.begin, self.between, self.end, self.closer, *self.openers, *self.betweens)
        )
        written += "\n".join((self.element.before, self.element.between, self.element.after) if self.element else ())
        return tuple(sorted(one for one in specials if len(one) > 2 and one in written))

    def _read(self, text: str) -> tuple[list[dict[str, Any]], int]:
        calls: list[dict[str, Any]] = []
        at = 0
        while True:
            made, at = self._one(text, at)
            calls += made
            more = _loose(self.separator).match(text, at) if self.separator is not None else None
            if more is None or not _begin(self).match(text, more.end()):
                return calls, at
            at = more.end()

    def _one(self, text: str, at: int) -> tuple[list[dict[str, Any]], int]:
        if self.form is ArgumentsForm.CALL:
            value, at = json_value(text, at)
            return [self._of_json(one) for one in (value if isinstance(value, list) and value else [value])], at
        call, at = self._named(text, at)
        if self.form is ArgumentsForm.KEYWORDS:
            call["arguments"], at = keywords(text, at)
        else:
            call["arguments"], at = json_value(text, at)
            if isinstance(call["arguments"], str):
                call["arguments"] = json.loads(call["arguments"])
        if not isinstance(call["arguments"], dict):
            raise ValueError("the arguments are no object")
        return [call], _required(_loose(self.end), text, at, self.end)

    def _named(self, text: str, at: int) -> tuple[dict[str, Any], int]:
        match = _begin(self).match(text, at)
        if match is None:
            raise ValueError(f"a call does not begin with {text[at : at + 40]!r}")
        return {key: value for key, value in match.groupdict().items() if value}, match.end()

    def _of_json(self, value: Any) -> dict[str, Any]:
        name, arguments, call_id = self.keys
        if not isinstance(value, dict):
            raise ValueError('a call must be an object with its name and "arguments"')
        if not name:
            (found,) = value.items() if len(value) == 1 else [(None, None)]
            return {"name": found[0], "arguments": found[1]}
        roots = {path.partition(".")[0] for path in self.keys} | {"type"}
        if self.is_whole and not {name, arguments} <= value.keys() <= roots:
            raise ValueError("this is an object of another kind")
        given = _at(value, arguments)
        given = _at(value, "arguments") if given is None else given
        return {"name": _at(value, name), "arguments": given, "id": _at(value, call_id) or ""}

    def _elements(self, text: str, tools: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        calls: list[dict[str, Any]] = []
        at = 0
        while True:
            call, at = self._named(text, at)
            call["arguments"] = {}
            for key, value, is_text, end in self._parameters(text, at):
                call["arguments"][key] = element_value(value, key, call["name"], tools, is_text=is_text)
                at = end
            at = _required(_loose(self.end), text, at, self.end)
            calls.append(call)
            if not text[at:].strip():
                return calls, at
            if self.separator is None:
                raise ValueError(f"{text[at : at + 40].strip()!r} stands after the call")
            at = _required(_loose(self.separator), text, at, self.separator)

    def _parameters(self, text: str, at: int) -> Iterator[tuple[str, str, bool | None, int]]:
        """Yield (key, value, whether it is text, end) of each; what ends one may stand in a value, mid-sentence."""
        assert self.element is not None, "this form has them"
        patterns = _element_patterns(self)
        while (opened := patterns.before.match(text, at)) is not None:
            is_text = None if self.element.between == self.element.between_other else opened["text"] is not None
            for closed in patterns.after.finditer(text, opened.end()):
                if patterns.next.match(text, closed.end()):
                    break
            else:
                raise ValueError(f"the parameter {opened['key']!r} is not closed by {self.element.after.strip()!r}")
            yield opened["key"], text[opened.end() : closed.start()], is_text, closed.end()
            at = closed.end()


class _ElementPatterns(NamedTuple):
    before: re.Pattern[str]
    after: re.Pattern[str]
    next: re.Pattern[str]
    """What may stand after an element: another one, or the end of the call and nothing, or another call."""


@lru_cache(maxsize=64)
def _element_patterns(layout: CallLayout) -> _ElementPatterns:
    element = layout.element
    assert element is not None, "only where there are some"
    text, other = _exact(element.between), _exact(element.between_other)
    key = rf"(?P<key>[^\n]{{1,200}}?)(?:(?P<text>{text})|{other})"
    another = "" if layout.separator is None else f"|{_soft(layout.separator)}{_begin(layout).pattern}"
    another = re.sub(r"\?P<\w+>", "?:", another)
    following = rf"{_soft(element.before)}|{_soft(layout.end)}(?:\s*\Z{another})"
    return _ElementPatterns(
        re.compile(rf"\s*{_soft(element.before)}{key}"), re.compile(_exact(element.after)), re.compile(following)
    )


@lru_cache(maxsize=64)
def _begin(layout: CallLayout) -> re.Pattern[str]:
    """Return what one call begins with: up to its arguments, where those come after its name."""
    return re.compile(r"\s*[\[{]") if layout.form is ArgumentsForm.CALL else _named_begin(layout)


@lru_cache(maxsize=64)
def _named_begin(layout: CallLayout) -> re.Pattern[str]:
    betweens = "|".join(_soft(one) for one in (layout.between, *layout.betweens))
    before = _soft(layout.begin).replace(re.escape(_ID), rf"(?P<id>{_NAME})")
    return re.compile(rf"\s*{before}\s*(?P<name>{_NAME}){betweens and f'(?:{betweens})'}")


@lru_cache(maxsize=64)
def _opening(layout: CallLayout) -> re.Pattern[str]:
    """Return what opens calls; where it could be text, only with all up to the arguments."""
    words = sorted({layout.opener, *layout.openers}, key=lambda word: (-len(word), word))
    opener = "|".join(map(re.escape, filter(None, words))) or r"(?!)"
    whole = re.sub(r"\?P<\w+>", "?:", _begin(layout).pattern)
    return re.compile(f"(?:{opener})(?={whole})" if layout.openers else opener)


@lru_cache(maxsize=256)
def _loose(literal: str) -> re.Pattern[str]:
    return re.compile(_soft(literal))


def _soft(literal: str) -> str:
    """Return a pattern for `literal` in which all white space is the model's to choose."""
    words = r"\s*".join(map(re.escape, literal.split()))
    return rf"\s*{words}\s*" if words else r"\s*"


def _exact(literal: str) -> str:
    """Return a pattern for `literal` next to a value: as it is, or else without the white space around it."""
    stripped = literal.strip()
    return "|".join(re.escape(one) for one in dict.fromkeys((literal, stripped)))


def _required(pattern: re.Pattern[str], text: str, at: int, literal: str) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"the call does not go on with {literal.strip()!r}")
    return match.end()


def _at(value: Any, path: str) -> Any:
    """Return what is at a dotted path of a JSON object, or None."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
