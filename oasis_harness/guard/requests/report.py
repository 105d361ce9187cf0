"""What became of requests, one by one: which were compared, which broke, and what a pass stands on.

    4 requests, 1 conversations, 1 breaks.
    request 3 against 2: moved; clock: a time, at messages[0].content, byte 31

A report in which nothing was compared is no proof, nor is one that excuses what did not break.
"""

from dataclasses import dataclass

from ..relation import Relation
from .kinds import Diagnosis

__all__ = ["NotAppendOnly", "Pair", "RequestReport"]

_N_GUESSES = 8
"""So many guesses are printed; all are in the report."""
_BROKEN = (Relation.UNDECLARED, Relation.MOVED, Relation.SHRUNK)


@dataclass(frozen=True, slots=True)
class Pair:
    """One request, and what became in it of the one before."""

    index: int
    previous: int | None
    """The request it is compared with."""
    conversation: int
    relation: Relation
    diagnosis: Diagnosis | None = None
    """What moved, and its kind; also where every byte stands and the engine read tokens again."""
    offset: int = 0
    """First differing byte in the moved block's own JSON, in the raw prompt, or in the rendered one."""
    before: str = ""
    """The text around it as it was sent before, escaped."""
    after: str = ""
    reason: str = ""
    """Why it was declared."""
    note: str = ""
    """What it does where it does not simply follow up: `starts over under the same head`, `repeats request 2`."""

    @property
    def where(self) -> str:
        """The first moved block, and the path in it."""
        return self.diagnosis.where if self.diagnosis else ""

    @property
    def is_idle(self) -> bool:
        """Whether it was declared, and nothing broke there."""
        is_first = self.relation is Relation.NEW and not self.note
        stands = is_first or self.relation in (Relation.EXTENDED, Relation.SAME)
        return bool(self.reason) and stands and self.diagnosis is None

    @property
    def is_break(self) -> bool:
        """Whether the prefix was given up without being declared."""
        return not self.reason and (self.relation in _BROKEN or self.diagnosis is not None)

    def __str__(self) -> str:
        what = f"{self.relation}, {self.note}" if self.note else str(self.relation)
        if self.diagnosis is None:
            return f"request {self.index}: {what}" + (
                f", against request {self.previous}" if self.previous is not None else ""
            )
        text = f"request {self.index} against {self.previous}: {what}; {self.diagnosis}"
        if self.relation is Relation.MOVED and (self.before or self.after):
            text += f", byte {self.offset:,}\n    before  {self.before}\n    after   {self.after}"
        return text


@dataclass(frozen=True, slots=True)
class RequestReport:
    """What became of every request, in the order they were given."""

    pairs: tuple[Pair, ...]
    aliased: tuple[tuple[int, int], ...] = ()
    """Requests that share one list of messages: what was appended to it later shows in both, and proves nothing."""
    unmet: tuple[int, ...] = ()
    """Numbers that were declared, and are no request's."""

    @property
    def breaks(self) -> tuple[Pair, ...]:
        """The pairs that gave up a prefix undeclared."""
        return tuple(pair for pair in self.pairs if pair.is_break)

    @property
    def guesses(self) -> tuple[Pair, ...]:
        """The pairs that are no break only because of what was guessed: each `note` says what."""
        return tuple(pair for pair in self.pairs if pair.note and not (pair.is_break or pair.reason))

    @property
    def idle(self) -> tuple[Pair, ...]:
        """The pairs that were declared, and where nothing broke."""
        return tuple(pair for pair in self.pairs if pair.is_idle)

    @property
    def n_compared(self) -> int:
        """How many requests were held against the one before them, undeclared: what a pass stands on."""
        return sum(1 for pair in self.pairs if pair.previous is not None and not pair.reason)

    @property
    def n_declared(self) -> int:
        return sum(1 for pair in self.pairs if pair.reason)

    @property
    def fault(self) -> str:
        """What broke first, or why this proves nothing; empty where every conversation is append-only."""
        if self.breaks:
            return str(self.breaks[0]).splitlines()[0]
        if self.aliased:
            return "two requests share one list of messages"
        if self.idle or self.unmet:
            index = self.idle[0].index if self.idle else self.unmet[0]
            return f"request {index} is declared, and nothing broke there"
        return "" if self.n_compared else _NOTHING

    @property
    def n_conversations(self) -> int:
        return len({pair.conversation for pair in self.pairs})

    def __str__(self) -> str:
        counted = f"{len(self.pairs)} requests, {self.n_conversations} conversations, {len(self.breaks)} breaks"
        lines = [f"{counted}, {self.n_declared} declared." if self.n_declared else f"{counted}."]
        lines += [_NOTHING] if not (self.n_compared or self.breaks) else []
        lines += [f"request {pair.index} is declared {pair.reason!r}, and nothing broke there." for pair in self.idle]
        lines += [f"request {index} is declared, and there is none of that number." for index in self.unmet]
        lines += [str(pair) for pair in self.breaks]
        lines += [f"request {pair.index} {pair.note}." for pair in self.guesses[:_N_GUESSES]]
        if len(self.guesses) > _N_GUESSES:
            lines.append(f"{len(self.guesses) - _N_GUESSES} more requests are such guesses.")
        lines += [f"requests {a} and {b} share one list of messages; record copies." for a, b in self.aliased[:3]]
        return "\n".join(lines)


class NotAppendOnly(AssertionError):
    """Requests, or a render function, that move what was sent before, or of which nothing is proved."""

    def __init__(self, report: RequestReport, opening: str = "") -> None:
        super().__init__(f"{opening}{report}\n{_REMEDY if report.breaks else _UNPROVED}")
        self.report = report


_REMEDY = """\
Append what changed as a new message, or declare the request with its reason: declared={8: "compaction"}, or
append(body, declared="compaction") on a recorder. Other conversations beside the one (a title, a subagent, a second
sample) are declared by key, append(body, conversation="title") or conversations=["main", "title", ...] with one key a
request, or by their number, conversations=3."""

_UNPROVED = """\
Record a conversation to its second request at least, under one key, and declare only the requests that rewrite it."""
_NOTHING = "nothing was compared: no request has one before it in its conversation, undeclared."
