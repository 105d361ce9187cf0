"""What in a prompt head varies by turn or by machine, found in its bytes: clocks, ids, paths, names, counters.

Precision comes first, so a pattern fires only where nothing else is likely:

- A date must exist (2024-02-30 is nobody's today) and be of this century. A month or a year alone is none.
- An example is none: in the same sentence, at most 48 bytes before it, stands `e.g.`, `example`, `such as`, `like` or
  `sample`. Nor is a constant: such a stretch speaks of a format (`format`, `ISO`, `RFC`, `YYYY`) or ends in `version`,
  `since`, `until`, `cutoff`, `limit`, `timeout` and the like, and says neither `now`, `today`, `current` nor `started`.
  What this very machine is called is reported even in an example.
- `step 3` is an instruction; `step 3 of 10`, `this is turn 7` and `message 12` are counters.
- A git hash is 40 hex digits, or 7 to 12 after a word such as commit; a port of localhost counts from 10000 up.
- A host or user name counts from 4 letters when it is no common word; one of letters only, which may be a word of the
  language, only after `user`, `host`, `logged in as` and the like, or beside an `@`.

It knows English month names only, and sees nothing that is encoded, nor a name that merely never is the same twice:
for that the head is rendered twice (see `variance`).
"""

import getpass
import platform
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from .patterns import RULES, Rule, Volatile

__all__ = ["Allowed", "Finding", "Machine", "Volatile", "find_volatile"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that varies."""

    kind: Volatile
    start: int
    """Offset in bytes of its first byte."""
    end: int
    """Offset in bytes behind its last byte."""
    text: str
    reason: str
    """Why it is volatile, for a person."""
    line: int
    """Counted from 1."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """A finding that somebody has looked at and accepts, with the reason.

    Raises:
        ValueError: It names no text, or gives no reason.
    """

    kind: Volatile
    text: str
    """The finding's text, or a part of it."""
    reason: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError(f"An allowed {self.kind} has no text. Name the one you mean; all of them is too many.")
        if not self.reason.strip():
            raise ValueError(f"The allowed {self.kind} {self.text!r} has no reason. Say why it may stand in the head.")

    def covers(self, finding: Finding) -> bool:
        return self.kind is finding.kind and self.text in finding.text


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine and its user are called; "" where that is not known."""

    home: str = ""
    temp: str = ""
    cwd: str = ""
    host: str = ""
    user: str = ""

    @classmethod
    def here(cls) -> "Machine":
        """Ask the running machine."""
        asked: list[Callable[[], object]] = [Path.home, tempfile.gettempdir, Path.cwd, platform.node, getpass.getuser]
        return cls(*map(_answer, asked))


def find_volatile(
    data: bytes,
    *,
    constants: Collection[str] = (),
    allowed: Sequence[Allowed] = (),
    machine: Machine | None = None,
) -> tuple[Finding, ...]:
    """Return what varies in `data`, in order, no two overlapping.

    `constants` are values held for the whole session (a frozen date): findings inside them are not reported.
    `machine` is the running one unless given.

    Raises:
        ValueError: A constant is empty.
    """
    rules = [*_machine_rules(Machine.here() if machine is None else machine), *RULES]
    held = _places(data, constants)
    taken = bytearray(len(data))
    found = []
    for rule in rules:
        for start, end in rule.spans(data):
            inside = any(first <= start and end <= last for first, last in held)
            if not inside and not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                found.append(_finding(rule, data, start, end))
    kept = (finding for finding in found if not any(entry.covers(finding) for entry in allowed))
    return tuple(sorted(kept, key=lambda finding: finding.start))


def _finding(rule: Rule, data: bytes, start: int, end: int) -> Finding:
    text = data[start:end].decode("utf-8", "backslashreplace")
    return Finding(rule.kind, start, end, text, rule.reason, data.count(b"\n", 0, start) + 1)


def _places(data: bytes, texts: Collection[str]) -> list[tuple[int, int]]:
    """Return start and end in bytes of every occurrence of `texts`."""
    if isinstance(texts, str) or "" in texts:
        raise ValueError(f"The constants are {texts!r}: give a collection of values as they stand in the head.")
    return [match.span() for text in texts for match in re.finditer(re.escape(text.encode()), data)]


def _answer(ask: Callable[[], object]) -> str:
    try:
        return str(ask())
    except (OSError, KeyError, RuntimeError, ImportError):  # a folder that is gone, a user without a name
        return ""


_COMMON = re.compile(
    "(?i)admin|administrator|agent|build|builder|centos|codespace|container|debian|default|desktop|docker|fedora|guest"
    "|home|host|jenkins|laptop|local|localhost|machine|main|nobody|node|operator|python|root|runner|sandbox|server"
    "|service|test|tester|ubuntu|user|username|vagrant|vscode|work|worker|workspace"
)
"""What machines and users are called everywhere: no leak, and words of any prompt."""


def _machine_rules(machine: Machine) -> Iterator[Rule]:
    yield from _path_rules(Volatile.WORKING_DIRECTORY, machine.cwd, "the working directory of this machine")
    yield from _path_rules(Volatile.TEMP_PATH, machine.temp, "the temporary folder of this machine")
    yield from _path_rules(Volatile.HOME_PATH, machine.home, "the home folder of this user")
    yield from _name_rules(Volatile.USER, machine.user, "user|username|login|logged in as|account|owner|author|name is")
    yield from _name_rules(Volatile.HOST, machine.host, "host|hostname|machine|node|computer|running on")


def _path_rules(kind: Volatile, folder: str, reason: str) -> Iterator[Rule]:
    """Match `folder` and what lies in it; a folder of one level, such as /root or /app, only with what lies in it."""
    n_levels = len(PurePath(folder).parts) - 1
    if n_levels < 1 or folder == "/tmp":
        return
    spelled = re.escape(folder).replace(r"\\", r"\\{1,2}")  # in JSON a backslash is doubled
    below = r"[/\\][^\s\"'`<>|;,:(){}\[\]]*[^\s\"'`<>|;,:(){}\[\]\\.!?]"
    pattern = rf"(?:(?<![\w.~/-])|(?<=\\[nrt])){spelled}(?![\w-])(?:{below}){'?' if n_levels > 1 else ''}"
    yield Rule(kind, reason, re.compile(pattern.encode()), may_be_example=False)


def _name_rules(kind: Volatile, name: str, context: str) -> Iterator[Rule]:
    """Match `name` as a whole word; one of letters only needs a word of `context` before it, or an `@` beside it."""
    if len(name) < 4 or _COMMON.fullmatch(name):
        return
    word = rf"(?P<it>{re.escape(name)})(?![\w-])"
    edge = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
    if name.isalpha():
        word = rf"(?:\b(?i:{context})\b(?:[\s\":=]|\bis\b){{1,6}}|@){word}|{edge}{re.escape(name)}(?=@)"
    else:
        word = edge + word
    yield Rule(kind, f"the {kind} of this machine", re.compile(word.encode()), may_be_example=False)
