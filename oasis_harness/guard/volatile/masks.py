r"""Whether two texts are the same but for a time, a path or an id: what the linter knows, and more.

    "It is Mon Mar  3 23:59:00 2025."    "It is Tue Mar  4 00:00:01 2025."    Mask.CLOCK: a rule of the linter
    "pid 12345 runs"                     "pid 9876 runs"                      Mask.RANDOM: another one
    "Due on the 3rd of May"              "Due on the 4th of May"              Mask.CLOCK: looser than any rule

The linter sees one prompt and has to be sure. Here both texts show the thing at one place, which is evidence of its
own: a date without a year, a count without a limit, a relative path are believed too. Each of the linter's rules holds
here as it stands, so that nothing is volatile there and of no known kind here.
"""

import re
from enum import StrEnum

from oasis_harness.sequences import first_difference

from .patterns import COUNTED, DAY, MONTH, RULES, Rule, Volatile, is_mixed

__all__ = ["Mask", "mask_of"]


class Mask(StrEnum):
    """What alone differs."""

    CLOCK = "clock"
    """A time, a date or a counter."""
    PATH = "path"
    CASE = "case"
    """A path, in upper and lower case."""
    RANDOM = "random"
    """An id that was made anew."""


_RULES = {
    Mask.CLOCK: (Volatile.CLOCK, Volatile.DATE, Volatile.COUNTER),
    Mask.PATH: (Volatile.HOME_PATH, Volatile.TEMP_PATH),
    Mask.RANDOM: (
        *(Volatile.UUID, Volatile.ADDRESS, Volatile.PROCESS, Volatile.PORT),
        *(Volatile.GIT_HASH, Volatile.SESSION_ID),
    ),
}
"""Which kinds of the linter are masked as what."""
_SIGN = {Mask.CLOCK: "\x00", Mask.PATH: "\x01", Mask.RANDOM: "\x02"}

_ZONE = r"(?:z|utc|gmt|cet|cest|[ecmp][sd]t)?(?:[+-]\d\d?(?::?\d\d)?)?"
_TIME = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?[ap]m)?"
_CLOCK = re.compile(
    rf"(?ix)(?<![\w.:/+-])(?:"
    rf"\d{{4}}-\d\d-\d\d(?:[T\ ]{_TIME})?\s?{_ZONE} | \d{{8}}T\d{{4,6}}{_ZONE} | \d{{4}}/\d\d?/\d\d?"
    rf"| \d\d?/\d\d?/\d{{2,4}} | \d\d?\.\d\d?\.\d{{4}} | {_TIME}(?:\s?{_ZONE})"
    rf"| \d\d?(?:st|nd|rd|th|\.)?\s(?:of\s)?{MONTH}\.?(?:,?\s\d{{4}})?"
    rf"| {MONTH}\.?\s\d\d?(?:st|nd|rd|th)?(?:,?\s\d{{4}})?"
    rf"| {DAY} | 1[5-9]\d{{8}}(?:\d{{3}})?(?:\.\d+)?"
    rf"| {COUNTED}\s(?:number\s|no\.?\s|\#)?\d+(?:\s?(?:of|/)\s?\d+)?"
    rf"| \d+(?:\.\d+)?\s?(?:ms|s|seconds?|minutes?|hours?|{COUNTED})\s(?:elapsed|ago|left|remaining|so\sfar)"
    rf")(?![\w:/])"
)
_CLOCKS = re.compile("\x00(?:[\\s,]*\x00)+")
_PATH = re.compile(r"(?<![\w:/.<~-])(?:~|\.{1,2})?(?:/[\w.@+~-]+)+/?|(?<!\w)[A-Za-z]:(?:\\{1,2}[\w.@+~ -]+)+")
_FILE = re.compile(r"[/\\]|\w\.\w{1,5}\b")
_RANDOM = re.compile(
    r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?<!\w)[0-9a-f]{16,}(?!\w)"
    r"|(?:session|nonce|trace|request[ _-]?id|run[ _-]?id|cch)[\"']?\s?[:=]\s?[\"']?[\w-]+|[\w-]{8,}"
)


def mask_of(a: str, b: str, *, is_prompt: bool = False) -> Mask | None:
    """Return what alone differs between two texts; a prompt has to be found at the beginning of the next."""
    for mask in Mask:
        if _is_case_of_path(a, b) if mask is Mask.CASE else _is_masked_alike(a, b, mask, is_prompt=is_prompt):
            return mask
    return None


def _is_masked_alike(a: str, b: str, mask: Mask, *, is_prompt: bool) -> bool:
    for masked in (_masked, _masked_by_rules):
        old, new = masked(a, mask), masked(b, mask)
        if old == new or (is_prompt and new.startswith(old)):
            return True
    return False


def _is_case_of_path(a: str, b: str) -> bool:
    return a.casefold() == b.casefold() and bool(_FILE.search(_word_at(a, first_difference(a, b))))


def _word_at(text: str, at: int) -> str:
    start = max(text.rfind(" ", 0, at), text.rfind("\n", 0, at)) + 1
    return re.split(r"\s", text[start:], maxsplit=1)[0]


def _masked_by_rules(text: str, mask: Mask) -> str:
    """As `_masked`, after what the linter's rules find is masked."""
    data = text.encode("utf-8", "surrogatepass")
    for rule in RULES:
        if rule.kind in (*_RULES[Mask.CLOCK], *_RULES[mask]):
            data = _without(data, rule, _SIGN[mask].encode())
    return _masked(data.decode("utf-8", "surrogatepass"), mask)


def _without(data: bytes, rule: Rule, sign: bytes) -> bytes:
    parts, end = [], 0
    for start, stop in rule.spans(data):
        parts += [data[end:start], sign]
        end = stop
    return b"".join([*parts, data[end:]])


def _masked(text: str, mask: Mask) -> str:
    """Put a sign in place of every clock, and of every path or id where those are asked for."""
    text = _CLOCKS.sub("\x00", _CLOCK.sub("\x00", text))
    if mask is Mask.PATH:
        return _PATH.sub("\x01", text)
    return _RANDOM.sub(_id_or_word, text) if mask is Mask.RANDOM else text


def _id_or_word(match: re.Match[str]) -> str:
    token = match[0]
    is_id = re.fullmatch(r"(?i)[0-9a-f]{16,}|[0-9a-f-]{36}", token) or re.search(r"[:=]", token)
    return "\x02" if is_id or is_mixed(token.encode()) else token
