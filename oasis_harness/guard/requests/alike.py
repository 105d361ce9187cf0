"""Whether two texts are the same but for how a value is spelled, or differ in order or in a fact of the machine.

Nothing here looks at the machine it runs on.
"""

import html
import re
from collections.abc import Callable, Iterator
from decimal import Decimal

from oasis_harness.sequences import first_difference

from ..textdiff import written_alike
from .changes import permuted

__all__ = [
    "differing_lines",
    "label_of",
    "order_of",
    "spelled_alike",
]

_LABEL = re.compile(
    r"(?i)\b(cwd|working dir(?:ectory)?|pwd|(?:git )?(?:branch|status|head|commit)|platform|os(?: version)?"
    r"|operating system|kernel|user(?: ?name)?|host(?: ?name)?|machine|shell|\$?columns|(?:terminal )?width|terminal"
    r"|locale|lang|language|python(?: version)?|node(?: version)?|architecture)\b\s*(?:[:=]|\bis\b)"
)
_LABELLED_BLOCK = re.compile(
    r"(?im)^\W*(?:git status|recent commits|environment)\b[^\n]*:[ \t]*$|<env(?:ironment\w*)?>"
)


def spelled_alike(a: str, b: str, *, is_prompt: bool) -> str:
    """Say which spelling of the same value alone differs, or nothing."""
    for what, form in _SPELLINGS:
        if written_alike(a, b, form, is_prompt=is_prompt):
            return what
    return ""


def _numbers(text: str) -> str:
    return re.sub(r"(?<![\w.])-?\d+(?:\.0+(?![\d.eE])|(?:\.\d+)?[eE][+-]?\d{1,3}\b)", _number, text)


def _number(match: re.Match[str]) -> str:
    text = format(Decimal(match[0]), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _literals(text: str) -> str:
    text = re.sub(r"\b(True|False)\b", lambda match: match[0].lower(), re.sub(r"\bNone\b", "null", text))
    return text.replace("'", '"')


def _escapes(text: str) -> str:
    return re.sub(r"\\u(?![dD][89a-fA-F])([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)


_SPELLINGS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("HTML escapes", html.unescape),
    ("escapes", _escapes),
    ("escaped quotes", lambda text: text.replace("\\\\", "\\").replace('\\"', '"').strip('"')),
    ("number form", _numbers),
    ("True for true", _literals),
    ("a mixture of spellings", lambda text: _literals(_numbers(_escapes(html.unescape(text))))),
)


def order_of(a: str, b: str, *, is_prompt: bool) -> str:
    """Say what stands in another order: lines, listed items, words; or nothing."""
    for what, pattern in (("lines", r"\n"), ("listed items", r",\s*|\n"), ("words", r"\s+")):
        old, new = re.split(pattern, a.rstrip("\n")), re.split(pattern, b.rstrip("\n"))
        if not is_prompt and old != new and sorted(old) == sorted(new):
            return what
        at = first_difference(old, new)
        if is_prompt and what != "words" and permuted(old, new, at):
            return what
    return ""


def differing_lines(a: str, b: str) -> Iterator[tuple[str, str]]:
    """Yield the first line that differs, of both."""
    at = first_difference(a, b)
    start = a.rfind("\n", 0, at) + 1
    old, new = (text[start:].split("\n", 1)[0] for text in (a, b))
    if old != new and old.strip() and new.strip():
        yield old, new


def label_of(a: str, b: str) -> str:
    """Return the label of the fact of the machine that differs (`cwd`, `git branch`, …), or nothing."""
    at = first_difference(a, b)
    for old, new in differing_lines(a, b):
        labels = [{match[1].casefold() for match in _LABEL.finditer(line)} for line in (old, new)]
        shared = [match for match in _LABEL.finditer(old) if match[1].casefold() in labels[1]]
        start = a.rfind("\n", 0, at) + 1
        if before := [match[1] for match in shared if start + match.end() <= at + 1]:
            return before[-1]
        paragraph = a[max(0, a.rfind("\n\n", 0, at)) : at]
        if block := _LABELLED_BLOCK.search(paragraph):
            return block[0].strip(" :<>#\n")
    return ""
