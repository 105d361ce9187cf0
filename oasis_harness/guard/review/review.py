"""What the pytest plugin does, for a command at somebody's desk: check, record, sign, show, and say what it costs.

Prompts are those of a target, a function named on the command line. Nothing is written where CI is set.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oasis_harness.conversation import Conversation, Head
from oasis_harness.errors import BadDialect, NotSignedOff
from oasis_harness.registry import Skills
from oasis_harness.render import Chat

from ..cost import Meter, NotMeasured, PrefillRate
from ..perturb import fields_of
from ..snapshots import Entry, Ledger, Recorded, Row, SnapshotFolder, snapshot_of
from ..targets import CHATML, Dialects, Spoken, call_target, subject_of
from ..volatile import Finding, find_volatile
from .checker import Checker, Remedies
from .ci import is_ci
from .parts import CostRow, Trade, compare, costs_of
from .removed import remove_prompt
from .run_summary import RunSummary

__all__ = ["Bill", "Checked", "Part", "Review"]


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of the prompts of one target."""

    complaints: str
    """Why one did not pass; empty where all did."""
    summary: RunSummary
    varying: tuple[tuple[str, Finding], ...]
    """What in the head varies by turn or by machine, and in which field."""


@dataclass(frozen=True, slots=True)
class Part:
    """A span of a recorded prompt."""

    start: int
    n_bytes: int
    n_tokens: int | None
    """Tokens whose first byte is in it; None where the dialect's tokenizer is not here."""
    owner: str
    resolution: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Bill:
    """What a head costs every conversation."""

    rows: tuple[CostRow, ...]
    rate: PrefillRate | NotMeasured
    trade: Trade | None
    """Against the same capability as a skill, where that was given."""


class Review:
    """Acts on a folder of fixtures.

    Without `dialects`, a prompt is compared in those it is recorded in, and recorded in ChatML; `engine` is the model
    that cost is measured on, the default one if empty, and `none` measures nothing.
    """

    def __init__(self, fixtures: Path, *, dialects: Sequence[str] = (), engine: str = "") -> None:
        self.prompts = SnapshotFolder(fixtures / "prompts")
        self.ledger = Ledger(fixtures / "ledger.jsonl")
        self._fixtures = fixtures
        self._dialects = tuple(dialects)
        self._engine = engine
        self._found = Dialects(fixtures / "dialects", Path.cwd())

    def check(self, target: str, name: str = "", *, records: bool = False, reason: str | None = None) -> Checked:
        """Compare the prompt of `target` with what is recorded as `name`, by default the function's own.

        `records` writes what is missing, a `reason` signs what moved.

        Raises:
            NotSignedOff: Something is to be written, and CI is set; or the reason is blank.
            Exception: Whatever the target raises.
        """
        if records or reason is not None:
            _require_desk(reason)
        named = f"{target} --name {name}" if name else target
        name = name or _default_name(target)
        subject, summary = subject_of(call_target(target)), RunSummary()
        checker = Checker(
            self._fixtures,
            Path.cwd(),
            summary,
            dialects=self._dialects or self._recorded_in(name) or (CHATML,),
            model=self._engine,
            records=records,
            reason=reason,
            remedies=Remedies(*(f"oasis prefix {act} {named}" for act in ("record", 'sign --reason "why"'))),
        )
        complaints = checker.check(subject, name, None)
        (plain,) = self._found.find(CHATML)
        at = subject.spoken(plain)
        fields = fields_of({"messages": at.messages, "tools": at.tools} if isinstance(at, Chat) else _head_of(at))
        return Checked(
            complaints, summary, tuple((field, one) for field, data in fields for one in find_volatile(data))
        )

    def remove(self, stem: str, reason: str) -> tuple[Entry, ...]:
        """Take away the prompt recorded as `name.dialect`, or as `name` in every dialect, and tell the ledger why.

        Raises:
            NotSignedOff: There is none, CI is set, or the reason is blank.
        """
        _require_desk(reason)
        return remove_prompt(self.prompts, self.ledger, stem, reason)

    def show(self, stem: str) -> tuple[Part, ...]:
        """Return the spans of the prompt recorded as `name.dialect`; the dialect may be left out where there is one.

        Raises:
            LookupError: Nothing is recorded so, or it is in several dialects.
        """
        known = [one for one in self.prompts.list() if one == stem or one.partition(".")[0] == stem]
        if len(known) != 1:
            told = ", ".join(known or self.prompts.list()) or "nothing"
            raise LookupError(
                f"{stem} is {'recorded in several dialects' if known else 'not recorded'}; there is {told}."
            )
        name, _, dialect = known[0].partition(".")
        recorded = self.prompts.recorded(name, dialect)
        starts = self._token_starts(recorded, dialect)
        return tuple(_part(recorded.data, row, starts) for row in recorded.rows)

    def bill(self, target: str, as_skill: str = "") -> Bill:
        """Say what each tool, skill and paragraph of the head of `target` costs; `as_skill` is the same as a skill.

        Raises:
            BadDialect: Its tokens are not counted in this dialect.
            Exception: Whatever the targets raise.
        """
        (spoken,) = self._found.find(self._dialects[0] if self._dialects else self._model())
        meter = Meter(self._engine)
        rate = meter.rate()
        known = rate if isinstance(rate, PrefillRate) else None
        value = call_target(target)
        rows, trade = self._rows(value, spoken, known), None
        if as_skill:
            other = call_target(as_skill)
            trade = compare(rows, self._rows(other, spoken, known), n_loaded=_n_loaded(value, other, spoken))
        return Bill(rows, rate, trade)

    def _model(self) -> str:
        from oasis_harness.embedded import DEFAULT_MODEL

        return DEFAULT_MODEL if self._engine in ("", "none") else self._engine

    def _rows(self, value: object, spoken: Spoken, rate: PrefillRate | None) -> tuple[CostRow, ...]:
        if spoken.tokenizer is None:
            raise BadDialect(
                f"the tokens of {spoken.name} are not counted: there is no tokenizer.json beside its template.",
                remedy="Put it there, or name a model with --dialect.",
                dialect=spoken.name,
            )
        subject = subject_of(value)
        snapshot = snapshot_of(
            at if isinstance(at := subject.spoken(spoken), Chat) else _head_of(at),
            spoken.dialect,
            name="head",
            dialect_name=spoken.name,
            tokenizer=spoken.tokenizer,
            sources=subject.sources,
        )
        return costs_of(snapshot, spoken.tokenizer, rate)

    def _recorded_in(self, name: str) -> tuple[str, ...]:
        stems = (stem.partition(".") for stem in self.prompts.list())
        return tuple(dialect for one, _, dialect in stems if one == name)

    def _token_starts(self, recorded: Recorded, dialect: str) -> list[int] | None:
        """Return where each token begins, if the tokenizer it was recorded with is here."""
        if recorded.ids is None:
            return None
        try:
            (spoken,) = self._found.find(dialect)
        except BadDialect:
            return None
        if spoken.tokenizer is None or spoken.tokenizer.digest != recorded.tokenizer:
            return None
        return spoken.tokenizer.starts(recorded.ids)


def _require_desk(reason: str | None) -> None:
    if is_ci():
        raise NotSignedOff(
            "nothing is recorded or signed where CI is set.", remedy="Do it at your desk, and commit the files."
        )
    if reason is not None and not reason.strip():
        raise NotSignedOff("a sign-off needs a reason, and this one is blank.", remedy="Say why the prompt moves.")


def _head_of(at: Conversation | Head) -> Head:
    return at if isinstance(at, Head) else at.head


def _default_name(target: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", target.rpartition(":")[2]).strip("-_")[:100]


def _part(data: bytes, row: Row, starts: list[int] | None) -> Part:
    start, end, owner, resolution = row
    n_tokens = None if starts is None else sum(1 for one in starts if start <= one < end)
    return Part(start, end - start, n_tokens, owner, resolution, data[start:end])


def _n_loaded(value: object, other: object, spoken: Spoken) -> int:
    """Return the tokens of the bodies of those skills that only `other` has."""
    assert spoken.tokenizer is not None, "the rows were counted"
    names = [{skill.name: skill for skills in _skills(one) for skill in skills} for one in (value, other)]
    bodies = [skill.body.encode() for name, skill in names[1].items() if name not in names[0]]
    return sum(len(spoken.tokenizer.encode(body, [(0, len(body))])) for body in bodies)


def _skills(value: object) -> list[Skills]:
    return [part for part in (value if isinstance(value, tuple | list) else [value]) if isinstance(part, Skills)]
