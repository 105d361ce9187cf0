"""The patterns of what varies, one rule a line, and what makes a match an example instead.

Everything here is constant: no rule looks at the machine it runs on. Patterns are written as text and matched on
bytes, so that offsets are those of the prompt.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

__all__ = ["COUNTED", "DAY", "MONTH", "RULES", "Rule", "Volatile", "is_mixed"]


class Volatile(StrEnum):
    """What kind of thing varies."""

    CLOCK = "clock"
    DATE = "date"
    UUID = "uuid"
    ADDRESS = "address"
    HOME_PATH = "home path"
    TEMP_PATH = "temporary path"
    WORKING_DIRECTORY = "working directory"
    HOST = "host name"
    USER = "user name"
    PROCESS = "process id"
    COUNTER = "counter"
    GIT_HASH = "git hash"
    PORT = "port"
    SESSION_ID = "session id"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern; its group `it` is what varies, the whole match where there is none."""

    kind: Volatile
    reason: str
    pattern: re.Pattern[bytes]
    is_real: Callable[[re.Match[bytes]], bool] = lambda match: True
    may_be_example: bool = True
    """Whether the words before it can make it an example."""

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end in bytes of every match that is real and no example."""
        for match in self.pattern.finditer(data):
            start, end = match.span("it") if match.groupdict().get("it") else match.span()
            if self.is_real(match) and not (self.may_be_example and _is_example(data, start)):
                yield start, end


_WINDOW = 48
"""How many bytes before a match are read for a word that makes it an example."""
_SENTENCE = re.compile(rb"\n|\\n|(?<!\b\w)[.!?]\s+(?=[A-Z])")
_EXAMPLE = re.compile(rb"(?i)\be\.g\.|\beg\b|\bexamples?\b|\bsuch as\b|\blike\b|\bsample\b")
_FORMAT = re.compile(rb"(?i)\bformat(?:ted)?\b|\bRFC\b|\bISO\b|\bYYYY")
_CONSTANT = re.compile(
    rb"(?i)(?:version|since|cut-?off|released?|until|before|after|limit|timeout|duration|up to|at most|deprecated"
    rb"|copyright)\b[^.;]{0,12}$"
)
_NOW = re.compile(rb"(?i)(?:\b|_)(?:now|today|currently|current|started|generated|updated|it is)(?:\b|_)")


def _is_example(data: bytes, start: int) -> bool:
    """Say whether the words before `start`, of the same sentence, make it an example or a constant."""
    before = _SENTENCE.split(data[max(0, start - _WINDOW) : start])[-1]
    if _EXAMPLE.search(before):
        return True
    return bool(_FORMAT.search(before) or _CONSTANT.search(before)) and not _NOW.search(before)


_MONTHS = (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec")


def _is_day(match: re.Match[bytes]) -> bool:
    """Say whether the groups y, m or mon, and d are a day that exists; in 03/04/2025 either may be the month."""
    groups = match.groupdict()
    year, day = int(groups["y"]), int(groups["d"])
    if name := groups.get("mon"):
        return _exists(year, _MONTHS.index(name[:3].lower()) + 1, day)
    month = int(groups["m"])
    return _exists(year, month, day) or ("swaps" in groups and _exists(year, day, month))


def _exists(year: int, month: int, day: int) -> bool:
    try:
        return 2000 <= date(year, month, day).year < 2100
    except ValueError:
        return False


_MADE_UP = re.compile(rb"(?i)(?:0x)?(?:abc1?23|a1b2c3|1a2b3c|0?12345|1234abc|dead|beef|cafe|4b825dc642cb)")
_SAMPLES = (b"123e4567-e89b-12d3-a456-426614174000", b"550e8400-e29b-41d4-a716-446655440000")
_PLACEHOLDERS = frozenset(
    b"user username you me your yourname yourusername name someone shared public default all linuxbrew".split()
)


def _is_uuid(match: re.Match[bytes]) -> bool:
    return match[0].lower() not in _SAMPLES and len(set(match[0].lower())) > 6


def _is_hash(match: re.Match[bytes]) -> bool:
    """Letters and digits both, so that neither a word nor a number is one, and no number somebody made up."""
    text = match["it"]
    return bool(re.search(rb"\d", text) and re.search(rb"[a-f]", text)) and not _MADE_UP.match(text)


def _is_address(match: re.Match[bytes]) -> bool:
    return len(set(match["it"].lower()) - set(b"x0")) >= 4 and not _MADE_UP.match(match["it"])


def is_mixed(text: bytes) -> bool:
    """Whether letters and digits are mixed as chance mixes them: at least two changes between them."""
    return len(re.findall(rb"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])", text)) >= 2


def _is_random(match: re.Match[bytes]) -> bool:
    return is_mixed(match["it"]) and not _MADE_UP.match(match["it"])


def _is_somebody(match: re.Match[bytes]) -> bool:
    return match["name"].lower() not in _PLACEHOLDERS


def _is_high_port(match: re.Match[bytes]) -> bool:
    return 10000 <= int(match["it"]) < 65536


def _is_count(match: re.Match[bytes]) -> bool:
    """Nobody writes `message 12` into an instruction; `message 1` may be a heading."""
    return int(match["n"]) >= 10


_EDGE = r"(?:(?<![\w./-])|(?<=\\[nrt]))"
"""The left edge of a word; a line end that JSON has escaped is one too."""
_END = r"(?![\w-]|[./:]\w)"
_PATH_EDGE = r"(?:(?<![\w.~$}*-])|(?<=\\[nrt]))"
_PATH = r"[^\s\"'`<>|;,:(){}\[\]\\]*[^\s\"'`<>|;,:(){}\[\]\\.!?]"
DAY = r"(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_MONTH = rf"(?P<mon>{MONTH})"
_HM = r"(?:[01]?\d|2[0-3]):[0-5]\d"
_TAIL = r"(?:[.,]\d{1,9})?(?: ?[AaPp]\.?[Mm]\b)?(?: ?(?:Z|UTC|GMT|[A-Z]{2,4}T|[+-]\d\d:?\d\d)\b)?"
_CLOCK = rf"{_HM}(?::[0-5]\d)?{_TAIL}"
_DATES = (
    r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
    r"(?P<y>\d{4})/(?P<m>\d\d)/(?P<d>\d\d)",
    rf"(?:{DAY},? )?(?P<d>\d\d?)(?:st|nd|rd|th|\.)? (?:of )?{_MONTH}\.?,? (?P<y>\d{{4}})",
    rf"(?:{DAY},? )?{_MONTH}\.? {{1,2}}(?P<d>\d\d?)(?:st|nd|rd|th)?,? (?P<y>\d{{4}})",
    r"(?P<m>\d\d?)(?P<swaps>/)(?P<d>\d\d?)/(?P<y>\d{4})",
    r"(?P<d>\d\d)\.(?P<m>\d\d)\.(?P<y>\d{4})",
)
_EPOCH = r"1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?"
COUNTED = r"(?:turns?|steps?|messages?|iterations?|rounds?|attempts?|requests?|calls?|tokens?)"

_UNIX = "a Unix time: another every second"
_NOW_READ = "a clock reading: it is another at the next render"
_TODAY = "a date: it is another tomorrow"
_ID = "an id made for one session: another at the next start"
_COUNT = "a counter: it is another at the next turn"
_HOME = "a home folder: another for every user and machine"
_TEMP = "a temporary path: another for every machine or run"
_COMMIT = "a git hash: another after the next commit"


def _rule(
    kind: Volatile, reason: str, pattern: str, is_real: Callable[[re.Match[bytes]], bool] = lambda match: True
) -> Rule:
    return Rule(kind, reason, re.compile(pattern.encode()), is_real)


RULES = (
    *(_rule(Volatile.CLOCK, _NOW_READ, rf"{_EDGE}{day}(?:T|,? (?:at )?){_CLOCK}", _is_day) for day in _DATES),
    _rule(
        Volatile.CLOCK,
        _NOW_READ,
        rf"{_EDGE}{DAY},? {_MONTH} {{1,2}}(?P<d>\d\d?) {_HM}:[0-5]\d(?: [AP]M)?(?: [A-Z]{{3,4}})? (?P<y>\d{{4}})",
        _is_day,
    ),
    *(_rule(Volatile.DATE, _TODAY, rf"{_EDGE}{day}{_END}", _is_day) for day in _DATES),
    _rule(
        Volatile.DATE,
        _TODAY,
        r"(?i:\btoday is|\bcurrent day(?: is)?|\bweekday|\bday of (?:the )?week)[\s\":=]{1,4}"
        rf"(?P<it>{DAY})\b",
    ),
    _rule(Volatile.CLOCK, _NOW_READ, rf"(?:(?<![\w.:/-])|(?<=\\[nrt])){_HM}:[0-5]\d{_TAIL}(?![\w:])"),
    _rule(
        Volatile.CLOCK,
        _NOW_READ,
        r"(?i:\b(?:(?:current|local|system) time|the time)(?: is)?|\bit is(?: now| currently)?|\bnow(?: is)?)"
        rf"[\s\":=]{{1,4}}(?P<it>{_CLOCK})(?![\w:])",
    ),
    _rule(
        Volatile.CLOCK,
        _UNIX,
        rf"(?i:(?:\b|_)(?:time|timestamp|epoch|now|clock|ts|started|created|generated)(?:_\w{{1,6}})?\b)(?: is| at)?"
        rf"[\s\":=(]{{1,5}}(?P<it>{_EPOCH})(?![\w.])",
    ),
    _rule(Volatile.CLOCK, _UNIX, rf"{_EDGE}(?P<it>{_EPOCH})(?= seconds since)"),
    _rule(
        Volatile.UUID,
        "a UUID: another every time one is made",
        r"(?i)(?<![0-9a-f-])[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-f-])",
        _is_uuid,
    ),
    _rule(
        Volatile.ADDRESS,
        "the repr of an object: its address is another in every process",
        r"<[^<>\n]{1,200} at (?P<it>0x[0-9A-Fa-f]{6,16})>",
        lambda match: not _MADE_UP.match(match["it"]),
    ),
    _rule(
        Volatile.ADDRESS,
        "an address in memory: another in every process",
        r"(?<!\w)(?P<it>0x(?:[1-9a-fA-F][0-9a-fA-F]{8,11}|0{4}[0-9a-fA-F]{12}))(?!\w)",
        _is_address,
    ),
    _rule(Volatile.TEMP_PATH, _TEMP, rf"{_PATH_EDGE}/(?:private/)?(?:var/)?(?:tmp|folders)/\w(?:{_PATH})?"),
    _rule(Volatile.TEMP_PATH, _TEMP, r"(?i)(?<!\w)[a-z]:(?:\\{1,2}[\w .~-]{1,64}){0,5}\\{1,2}te?mp(?:\\{1,2}[\w.-]+)+"),
    _rule(
        Volatile.HOME_PATH, _HOME, rf"{_PATH_EDGE}/(?:home|Users)/(?P<name>\w[\w.-]*\w)(?:/(?:{_PATH})?)?", _is_somebody
    ),
    _rule(
        Volatile.HOME_PATH,
        _HOME,
        r"(?<!\w)[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)(?P<name>\w[\w.-]*\w)(?:(?:\\{1,2}|/)[\w.-]+)*",
        _is_somebody,
    ),
    _rule(
        Volatile.PROCESS,
        "a process id: another at every start",
        r"(?i)\bp?pid\b[\s\":=#(]{1,4}(?P<it>\d{2,7})\b|\bprocess (?:id|number)[\s\":=#(]{1,4}\d{2,7}\b",
    ),
    _rule(Volatile.COUNTER, _COUNT, rf"(?i)\b{COUNTED} *(?:number|no\.?)?[ :#]*\d+ *(?:of|out of|/) *\d+\b"),
    _rule(
        Volatile.COUNTER,
        _COUNT,
        r"(?i)\b(?:this is|you are (?:now )?(?:on|at|in)|current(?:ly)?(?: (?:on|at))?)\W{1,3}(?:the )?"
        r"(?P<it>(?:turn|step|message|iteration|round|attempt) *(?:number|no\.?)?[ :=#]*\d+)\b",
    ),
    _rule(
        Volatile.COUNTER, _COUNT, r"(?i)\b(?:turn|message|iteration) *(?:number|no\.?)?[ :#]*(?P<n>\d+)\b", _is_count
    ),
    _rule(
        Volatile.COUNTER,
        _COUNT,
        rf"(?i)\b\d[\d,]* *(?:of \d+ )?(?:{COUNTED}|seconds?|minutes?) +(?:are |is )?"
        r"(?:left|remaining|elapsed|so far)\b"
        rf"|\b(?:{COUNTED}|time) (?:left|remaining|elapsed|used)\W{{1,3}}\d[\d,]*\b",
    ),
    _rule(Volatile.GIT_HASH, _COMMIT, r"(?<![\w@#])(?P<it>[0-9a-f]{40})(?!\w)", _is_hash),
    _rule(
        Volatile.GIT_HASH,
        _COMMIT,
        r"(?:\b(?i:commit|sha|sha1|revision|rev|HEAD|hash)\b(?: is| at)?[\s\":=@(]{1,4}"
        r"|\b(?:main|master|trunk|develop|branch)@)"
        r"(?P<it>[0-9a-f]{7,12}|[0-9a-f]{40})(?!\w)",
        _is_hash,
    ),
    _rule(
        Volatile.PORT,
        "a port of this machine: another at every start",
        r"(?i)(?:\blocalhost|\b127\.0\.0\.1|\b0\.0\.0\.0|\[::1\]):(?P<it>\d{5})\b",
        _is_high_port,
    ),
    _rule(
        Volatile.SESSION_ID,
        _ID,
        r"(?i)(?:\b|_)(?:session|conversation|thread|run|request|trace|chat|nonce|cch)(?:[ _-]?(?:id|key|token|url))?"
        r"[\"']?(?: is)?[\s:=#/]{1,3}[\"']?(?P<it>[A-Za-z0-9][A-Za-z0-9_-]{7,})",
        _is_random,
    ),
)
"""In order of precedence: where two match the same bytes, the first one speaks."""
