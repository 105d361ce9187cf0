r"""What differs between two prompts, shown to a person, and what kind of difference it is.

    before  …Be brief.[[␠]]<|im_end|>\n<|im_start|>…
    after   …Be brief.[[∅]]<|im_end|>\n<|im_start|>…

The difference stands in `[[ ]]` and is never blank: line ends, tabs, a byte order mark, marks that combine and bytes
that are no text are escaped, a space in it is `␠`, and `∅` is nothing at all. Two texts that differ look different.
"""

import re
import unicodedata
from collections.abc import Callable, Collection
from enum import StrEnum

from oasis_harness.canonical import text_bytes
from oasis_harness.sequences import first_difference

__all__ = ["CHECKOUT", "Why", "escaped", "is_at_ends", "side_by_side", "why", "why_alone", "written_alike"]

CHECKOUT = "line ends were changed by the checkout; add `fixtures/** -text` to .gitattributes"

_N_BEFORE, _N_MARKED, _N_AFTER = 48, 32, 24
"""Bytes shown before, of and after a difference."""
_BOM = "\ufeff".encode()
_SPACE = b" \t\r\n"
_OWN_SIGNS = "\\␠∅"
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Mc", "Me", "Mn", "Zl", "Zp"})
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


class Why(StrEnum):
    """What kind of difference one is: the first one (`why`), or the only one (`why_alone`)."""

    CR = "CR line ends"
    BOM = "BOM"
    UNICODE_FORM = "Unicode normal form"
    INVISIBLE = "invisible characters"
    """Tags, joiners, variation selectors, halves of surrogate pairs."""
    TRAILING_SPACE = "trailing space"
    FINAL_NEWLINE = "final newline"
    WHITE_SPACE = "white space"
    """Any other difference of white space only: an indent, a blank line, a no-break space."""
    ORDER = "order"
    """The same owners stand there in another order."""
    TEMPLATE = "template"
    """The template was changed, and the byte is no one's own text."""
    CONTENT = "content"


def side_by_side(old: bytes, new: bytes) -> tuple[str, str]:
    """Return the text around the first difference, before and after."""
    at = first_difference(old, new)
    start = _character_start(old, new, at)
    n_same = _n_same_end(old[at:], new[at:])
    return _marked(old, start, len(old) - n_same), _marked(new, start, len(new) - n_same)


def escaped(data: bytes, *, spaces: bool = False) -> str:
    r"""Return `data` as text in which nothing is invisible; a space is `␠` where `spaces`, and before a line end."""
    text = data.decode("utf-8", "surrogateescape")
    n_kept = len(text.rstrip(" ")) if text.endswith(" ") else len(text)
    signs = []
    for place, char in enumerate(text):
        follows = text[place:].lstrip(" ")[:1] if char == " " and not spaces else ""
        is_marked = spaces or place >= n_kept or follows in ("\r", "\n")
        signs.append("␠" if char == " " and is_marked else _sign(char))
    return "".join(signs)


def why(old: bytes, new: bytes, *, boundaries: Collection[int] = ()) -> Why | None:
    """Say which mechanical cause the first difference has, or None where it is one of content.

    `boundaries` are the offsets in `new` at which the text of another owner begins.
    """
    at = first_difference(old, new)
    a, b = old[at:], new[at:]
    start = _character_start(old, new, at)
    if a[:1] != b[:1] and b"\r" in a[:1] + b[:1] and _line_ends(a) == _line_ends(b):
        return Why.CR
    if old.startswith(_BOM, start) != new.startswith(_BOM, start):
        return Why.BOM
    if _is_same_text(_line(old, start), _line(new, start)):
        return Why.UNICODE_FORM
    n_space = len(old[:at]) - len(old[:at].rstrip(_SPACE))
    near = {boundary - at for boundary in boundaries if boundary >= at - n_space}
    return _white_space(a, b, near) or _odd_space(old[start:], new[start:])


def why_alone(a: str, b: str, *, is_prompt: bool = False) -> Why | None:
    """Say which way of writing alone differs, or None where the words do; a prompt has to begin the next one."""
    return next((why for why, form in _FORMS if written_alike(a, b, form, is_prompt=is_prompt)), None)


def is_at_ends(a: str, b: str, *, is_prompt: bool = False) -> bool:
    """Whether white space differs at the ends of the text or of its lines only, or a byte order mark does."""
    return any(written_alike(a, b, form, is_prompt=is_prompt) for form in (_unmarked, _line_feeds, str.strip))


def written_alike(a: str, b: str, form: Callable[[str], str], *, is_prompt: bool) -> bool:
    """Whether both texts have one form; a prompt has to be found at the beginning of the next."""
    a, b = form(a), form(b)
    return a == b or (is_prompt and b.startswith(a))


def _unmarked(text: str) -> str:
    return text.replace("\ufeff", "")


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _visible(text: str) -> str:
    text = re.sub(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", _pair, text)
    kept = (char for char in _normal(text) if unicodedata.category(char) not in ("Cf", "Cs") and char != "\ufffd")
    return "".join(char for char in kept if not "\ufe00" <= char <= "\ufe0f")


def _pair(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\u", "")).decode("utf-16-be")


_FORMS: tuple[tuple[Why, Callable[[str], str]], ...] = (
    (Why.BOM, _unmarked),
    (Why.CR, _line_feeds),
    (Why.FINAL_NEWLINE, lambda text: text.rstrip("\n")),
    (Why.TRAILING_SPACE, str.rstrip),
    (Why.WHITE_SPACE, lambda text: "".join(_unmarked(text).split())),
    (Why.UNICODE_FORM, _normal),
    (Why.INVISIBLE, _visible),
)


def _line_ends(data: bytes) -> bytes:
    return data[: 4 * _N_AFTER].replace(b"\r\n", b"\n").replace(b"\r", b"\n")[:_N_AFTER]


def _white_space(a: bytes, b: bytes, near: Collection[int]) -> Why | None:
    """Classify rests that begin with other white space, and go on alike. `near` are boundaries, from where `b` begins.

    Those before it lie in white space too.
    """
    rests = a.lstrip(_SPACE), b.lstrip(_SPACE)
    gaps = a[: len(a) - len(rests[0])], b[: len(b) - len(rests[1])]
    if gaps[0] == gaps[1] or rests[0][:_N_AFTER] != rests[1][:_N_AFTER]:
        return None
    is_at_end = not rests[1] or any(boundary <= len(gaps[1]) for boundary in near)
    if gaps[0].count(b"\n") != gaps[1].count(b"\n"):
        return Why.FINAL_NEWLINE if is_at_end else Why.WHITE_SPACE
    return Why.TRAILING_SPACE if is_at_end or b"\n" in gaps[1] else Why.WHITE_SPACE


def _odd_space(a: bytes, b: bytes) -> Why | None:
    """See a space where another kind of space stood."""
    first = [rest[:4].decode("utf-8", "ignore")[:1] for rest in (a, b)]
    is_odd = all(char.isspace() for char in first) and not "".join(first).isascii()
    return Why.WHITE_SPACE if is_odd and first[0] != first[1] else None


def _is_same_text(a: bytes, b: bytes) -> bool:
    texts = [line.decode("utf-8", "surrogateescape") for line in (a, b)]
    return a != b and unicodedata.normalize("NFC", texts[0]) == unicodedata.normalize("NFC", texts[1])


def _line(data: bytes, at: int) -> bytes:
    end = data.find(b"\n", at)
    return data[data.rfind(b"\n", 0, at) + 1 : len(data) if end < 0 else end]


def _marked(data: bytes, start: int, end: int) -> str:
    is_long = end - start > _N_MARKED
    stop = start + _N_MARKED if is_long else end
    first = _forward(data, max(0, start - _N_BEFORE), start)
    last = min(len(data), stop + _N_AFTER)
    marked = escaped(data[start:stop], spaces=True) or "∅"
    head, tail = "…" if first else "", "…" if last < len(data) else ""
    before = escaped(data[first:start])
    return f"{head}{before}[[{marked}{'…' if is_long else ''}]]{escaped(data[stop:last])}{tail}"


def _character_start(old: bytes, new: bytes, at: int) -> int:
    """Return where the characters begin whose bytes differ at `at`; no byte before that differs."""
    start = at
    while start > max(0, at - 3) and (_continues(old, start) or _continues(new, start)):
        start -= 1
    return start


def _continues(data: bytes, at: int) -> bool:
    return at < len(data) and data[at] & 0xC0 == 0x80


def _forward(data: bytes, at: int, end: int) -> int:
    """Return the first character start from `at` on, so that a cut does not split one."""
    return next((place for place in range(at, min(at + 4, end)) if not _continues(data, place)), at)


def _n_same_end(a: bytes, b: bytes) -> int:
    """Return how many bytes both end with in common, cut at a character's start."""
    n = first_difference(a[::-1], b[::-1])
    while n and a[len(a) - n] & 0xC0 == 0x80:
        n -= 1
    return n


def _sign(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if "\udc80" <= char <= "\udcff":
        return f"\\x{text_bytes(char)[0]:02x}"
    if char in _OWN_SIGNS or (char != " " and char.isspace()) or unicodedata.category(char) in _INVISIBLE:
        return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
    return char
