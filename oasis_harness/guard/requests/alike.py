"""Whether two texts are the same but for how they are written, or differ in a fact of the machine.

Nothing here looks at the machine it runs on.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from decimal import Decimal

from oasis_harness.sequences import first_difference

from .changes import permuted

__all__ = [
    "differing_lines",
    "label_of",
    "normal",
    "order_of",
    "spelled_alike",
    "visible",
    "white_alike",
    "written_alike",
]

_LABEL = re.compile(
    r"(?i)\b(cwd|working dir(?:ectory)?|pwd|(?:git )?(?:branch|status|head|commit)|platform|os(?: version)?"
    r"|operating system|kernel|user(?: ?name)?|host(?: ?name)?|machine|shell|\$?columns|(?:terminal )?width|terminal"
    r"|locale|lang|language|python(?: version)?|node(?: version)?|architecture)\b\s*(?:[:=]|\bis\b)"
)
_LABELLED_BLOCK = re.compile(
    r"(?im)^\W*(?:git status|recent commits|environment)\b[^\n]*:[ \t]*$|<env(?:ironment\w*)?>"
)


def written_alike(a: str, b: str, form: Callable[[str], str], *, is_prompt: bool) -> bool:
    """Whether both texts have one form; a prompt has to be found at the beginning of the next."""
    a, b = form(a), form(b)
    return a == b or (is_prompt and b.startswith(a))


def white_alike(a: str, b: str, *, is_prompt: bool) -> str:
    """Say which white space alone differs, or nothing."""
    for what, form in _WHITE:
        if written_alike(a, b, form, is_prompt=is_prompt):
            return what
    return ""


_WHITE: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("a byte order mark", lambda text: text.replace("\ufeff", "")),
    ("line ends", lambda text: text.replace("\r\n", "\n").replace("\r", "\n")),
    ("white space at the ends", str.strip),
    ("white space", lambda text: "".join(text.replace("\ufeff", "").split())),
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


def normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def visible(text: str) -> str:
    """Drop tags, joiners, variation selectors, halves of surrogate pairs and what stands for a bad byte."""
    text = re.sub(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", _pair, text)
    kept = (char for char in normal(text) if unicodedata.category(char) not in ("Cf", "Cs") and char != "\ufffd")
    return "".join(char for char in kept if not "\ufe00" <= char <= "\ufe0f")


def _pair(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\u", "")).decode("utf-16-be")


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
