r"""Which two characters a pre-tokenizer's regular expression can never keep together.

A match begins where the last one ended and never looks back, so a cut between two such characters moves no other one:
to the left of it, meeting the right character is as good as meeting the end. Except for a lookahead (`\s+(?!\S)`),
which is therefore understood only after a run of white space, and refused wherever it would tell the two apart.

The pairs are Glushkov's: each character class of the expression is a position, and those that may follow each other are
collected. Only ASCII is told apart; any other character is one that every class may have. Expressions with parts that
are not known here (anchors, lookbehind, scripts) are not understood, and prove nothing.

Idea: V. M. Glushkov, "The abstract theory of automata" (1961).
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

__all__ = ["parts_surely"]

Chars: TypeAlias = frozenset[int]
"""ASCII characters, and `_OTHER` where others may belong to it."""

_OTHER = 128
_ALL: Chars = frozenset(range(_OTHER + 1))
_SPACES = b"\t\n\r "
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_CLASSES: dict[str, Chars] = {
    "s": frozenset([*range(9, 14), 32, _OTHER]),
    "d": frozenset([*b"0123456789", _OTHER]),
}
_LOOKAHEADS = (r"\s+(?!\S)", r"\s+(?=\p{N})")
_NEWLINES = (r"\s*[\r\n]+", r"\s*[\r\n]")
"""Alternatives that match any run of white space which ends in a line end, whatever follows."""
_QUANTIFIER = re.compile(r"([?*](?!\+)|\+|\{1(?:,\d*)?\})[+?]?")
"""No possessive `?+` and `*+`, and no count from 2 on: after them, a character alone need not be a match."""
_PROPERTY = re.compile(r"([pP])\{(\w+)\}")


def parts_surely(pattern: str, left: bytes, right: bytes, *, is_left_open: bool) -> bool:
    """Say whether a text that ends in `left` and one that begins with `right` are cut alike apart and together.

    `is_left_open` says that anything may stand before `left`; after `right`, anything may.
    """
    expression = _parse(pattern)
    if expression is None or not left or not right or not (_is_known(left[-1]) and _is_known(right[0])):
        return False
    last, first = left[-1], right[0]
    if any(last in before and first in after for before, after in expression.pairs):
        return False
    # Something must begin at `first`: what nothing matches on both sides of the cut would be one stretch.
    if not any(first in chars for chars in expression.alone):
        return False
    return last not in _SPACES or _keeps_spaces(expression.sources, left, is_left_open)


def _is_known(byte: int) -> bool:
    return 32 <= byte < 127 or byte in _SPACES


def _keeps_spaces(sources: list[str], left: bytes, is_left_open: bool) -> bool:
    """Say whether the white space at the end of `left` is cut alike before the end and before something else."""
    lookaheads = [i for i, source in enumerate(sources) if source in _LOOKAHEADS]
    if not lookaheads:
        return True
    if left[-1] in b"\r\n" and not set(_NEWLINES).isdisjoint(sources[: lookaheads[0]]):
        return True
    # A single space has one way to be matched.
    is_single = not is_left_open if len(left) == 1 else _is_known(left[-2]) and left[-2] not in _SPACES
    return is_single and r"\s+" in sources[lookaheads[-1] :]


@dataclass(frozen=True, slots=True)
class _Expression:
    sources: list[str]
    """The alternatives, as written."""
    pairs: list[tuple[Chars, Chars]]
    """What may stand next to each other in a match."""
    alone: list[Chars]
    """What is a match by itself, whatever stands after it."""


@cache
def _parse(pattern: str) -> _Expression | None:
    """Return what is known of `pattern`, or None where it is not understood."""
    try:
        return _Parser(pattern).expression()
    except (ValueError, IndexError):
        return None


@dataclass(slots=True)
class _Part:
    """A piece of an expression: whether it matches nothing too, and the positions it begins and ends with."""

    is_nullable: bool
    first: set[int]
    last: set[int]


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._ignores_case = False
        self._positions: list[Chars] = []
        self._follow: set[tuple[int, int]] = set()

    def expression(self) -> _Expression:
        sources: list[str] = []
        alone: list[Chars] = []
        while True:
            start = self._at
            part = self._sequence(is_top=True)
            if part.is_nullable:
                raise ValueError("a match of nothing")
            sources.append(self._source[start : self._at])
            if sources[-1] not in _LOOKAHEADS:
                alone += [self._positions[position] for position in part.first & part.last]
            if self._at == len(self._source):
                pairs = [(self._positions[before], self._positions[after]) for before, after in self._follow]
                return _Expression(sources, pairs, alone)
            self._take("|")

    def _sequence(self, *, is_top: bool) -> _Part:
        start, whole = self._at, _Part(True, set(), set())
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            if self._source.startswith(("(?!", "(?="), self._at):
                self._lookahead(start, is_top)
                return whole
            part = self._quantified(self._atom())
            self._follow |= {(before, after) for before in whole.last for after in part.first}
            whole = _Part(
                whole.is_nullable and part.is_nullable,
                whole.first | part.first if whole.is_nullable else whole.first,
                part.last | whole.last if part.is_nullable else part.last,
            )
        return whole

    def _lookahead(self, start: int, is_top: bool) -> None:
        """Pass a known lookahead, which must be all that an alternative has besides its run of white space."""
        known = next((text for text in _LOOKAHEADS if self._source.startswith(text, start)), None)
        if known is None or not is_top or self._at != start + 3:
            raise ValueError("an unknown lookahead")
        self._at = start + len(known)
        if self._source[self._at : self._at + 1] not in ("", "|"):
            raise ValueError("something after a lookahead")

    def _quantified(self, part: _Part) -> _Part:
        found = _QUANTIFIER.match(self._source, self._at)
        if found is None:
            return part
        self._at = found.end()
        if found[1] != "?":
            self._follow |= {(before, after) for before in part.last for after in part.first}
        return _Part(part.is_nullable or found[1] in ("?", "*"), part.first, part.last)

    def _atom(self) -> _Part:
        if self._source[self._at] == "(":
            return self._group()
        chars = self._set() if self._source[self._at] == "[" else self._one(".^$*+?{}]")
        self._positions.append(_both_cases(chars) if self._ignores_case else chars)
        position = len(self._positions) - 1
        return _Part(False, {position}, {position})

    def _group(self) -> _Part:
        opener = next((text for text in ("(?:", "(?i:") if self._source.startswith(text, self._at)), None)
        if opener is None:
            raise ValueError("an unknown group")
        outer, self._ignores_case = self._ignores_case, self._ignores_case or opener == "(?i:"
        self._at += len(opener)
        whole = self._sequence(is_top=False)
        while self._source[self._at] == "|":
            self._at += 1
            part = self._sequence(is_top=False)
            whole = _Part(whole.is_nullable or part.is_nullable, whole.first | part.first, whole.last | part.last)
        self._take(")")
        self._ignores_case = outer
        return whole

    def _set(self) -> Chars:
        self._take("[")
        is_negated = self._source[self._at] == "^"
        if is_negated and self._ignores_case:
            raise ValueError("a negated set of any case")
        self._at += is_negated
        chars: Chars = frozenset()
        while self._source[self._at] != "]":
            begin, low = self._at, self._one("[&~")
            if self._source[self._at] == "-" and self._source[self._at + 1] != "]":
                low = self._range(begin)
            chars |= low
        self._at += 1
        # Of the characters that are not told apart, each may be outside.
        return (_ALL - chars) | {_OTHER} if is_negated else chars

    def _range(self, begin: int) -> Chars:
        """Return the characters of a range whose ends are written as themselves."""
        low, dash, high = (self._source[begin + i] for i in range(3))
        if dash != "-" or "\\" in (low, high) or high < low:
            raise ValueError("an unknown range")
        self._at = begin + 3
        others = {_OTHER} if ord(high) >= _OTHER else set()
        return frozenset({*range(ord(low), min(ord(high) + 1, _OTHER)), *others})

    def _one(self, refused: str) -> Chars:
        """Return the characters of a literal or an escape."""
        char = self._source[self._at]
        if char in refused:
            raise ValueError(f"an unknown {char}")
        self._at += 1
        return self._escape() if char == "\\" else frozenset({min(ord(char), _OTHER)})

    def _escape(self) -> Chars:
        if self._ignores_case:
            raise ValueError("an escape of any case")
        found = _PROPERTY.match(self._source, self._at)
        if found is not None:
            self._at = found.end()
            return _category(found[2], is_negated=found[1] == "P")
        char = self._source[self._at]
        self._at += 1
        if char.lower() in _CLASSES:
            chars = _CLASSES[char.lower()]
            return chars if char.islower() else (_ALL - chars) | {_OTHER}
        if char.isalnum() and char not in _ESCAPES:
            raise ValueError(f"an unknown escape {char}")
        return frozenset({min(ord(_ESCAPES.get(char, char)), _OTHER)})

    def _take(self, text: str) -> None:
        if not self._source.startswith(text, self._at):
            raise ValueError(f"no {text}")
        self._at += len(text)


def _category(name: str, *, is_negated: bool) -> Chars:
    """Return the characters of a general category, such as L or Lu."""
    if not re.fullmatch(r"[LMNPSZC][a-z]?", name):
        raise ValueError(f"an unknown category {name}")
    inside = {char for char in range(_OTHER) if unicodedata.category(chr(char)).startswith(name)}
    return frozenset((set(range(_OTHER)) - inside if is_negated else inside) | {_OTHER})


def _both_cases(chars: Chars) -> Chars:
    letters = {ord(case) for char in chars - {_OTHER} for case in (chr(char).lower(), chr(char).upper())}
    return chars | letters | {_OTHER}
