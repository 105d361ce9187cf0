"""Compare prompts with those in the fixtures, record them, sign them, say what they cost: of a test or a command.

    fixtures/prompts/<name>.<dialect>.prompt  what a prompt was
    fixtures/ledger.jsonl                     who moved one, why, and what that cost

A prompt passes if it is the same bytes, and in no other way: what is missing, appended to or moved fails, and so does
what cannot be evaluated.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oasis_harness.errors import BadSnapshotName, GuardError, NotSignedOff, OasisError

from ..cost import Cost, Meter, NotMeasured
from ..relation import Relation
from ..requests import Body
from ..snapshots import RECORDED, Comparison, Entry, Ledger, Snapshot, SnapshotFolder, keep_line_ends, snapshot_of
from ..targets import Dialects, Given, Spoken, Subject
from .rewritten import loss_of
from .run_summary import RunSummary

__all__ = ["Checker", "Remedies"]


@dataclass(frozen=True, slots=True)
class Remedies:
    """What a person runs to let a prompt pass."""

    record: str = "pytest --oasis-record"
    sign: str = 'pytest --oasis-sign "why"'


class Checker:
    """Compares the prompts of one test run; `records` and `reason` say what may be written.

    `folder` is the project's fixtures, `root` where its relative paths start; `dialects` are the default ones, `model`
    is what cost is measured on, and `remedies` are told with every complaint.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        summary: RunSummary,
        *,
        dialects: Sequence[str],
        model: str,
        records: bool,
        reason: str | None,
        remedies: Remedies | None = None,
    ) -> None:
        self._fixtures = folder
        self._folder = SnapshotFolder(folder / "prompts")
        self._ledger = Ledger(folder / "ledger.jsonl")
        self._root = root
        self._summary = summary
        self._dialects = Dialects(folder / "dialects", root)
        self._default = dialects
        self._meter = Meter(model)
        self._records = records
        self._reason = reason
        self._remedies = remedies or Remedies()
        self._named_by: dict[str, str] = {}
        self._accepted: dict[str, str] = {}
        self._is_verified = False
        self._fault: GuardError | None = None

    def claim(self, name: str, node: str) -> str:
        """Return `name` as the default name of what the test `node` compares.

        Raises:
            BadSnapshotName: Another test has it.
        """
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:100]
        taken = self._named_by.setdefault(name, node)
        if taken != node:
            raise BadSnapshotName(f"{taken} calls its prompt {name!r} too.", remedy="Give name= in one of them.")
        return name

    def check(self, subject: Subject, name: str, given: Given | None) -> str:
        """Compare `subject` in every dialect, write what may be written, and return the complaints; "" if none."""
        try:
            dialects = self._dialects.find(self._default if given is None else given, subject.arguments)
        except (OasisError, OSError) as error:
            return self.not_evaluated(name, error)
        return "\n\n".join(filter(None, [self._check(subject, name, spoken) for spoken in dialects]))

    def not_evaluated(self, title: str, error: Exception) -> str:
        """Count a prompt that cannot be compared, and return the complaint."""
        self._summary.add("not evaluated", f"{title}: {error}")
        return f"{title}: not evaluated, and so no pass: {error}"

    def consequences(self, before: Body, after: Body) -> list[str]:
        """Say in every default dialect which token of a rewritten request moved first, and at what cost."""
        try:
            dialects = self._dialects.find(self._default)
        except (OasisError, OSError) as error:
            return [f"  prompt  not rendered: {error}"]
        return [self._rewritten(before, after, spoken) for spoken in dialects]

    def _rewritten(self, before: Body, after: Body, spoken: Spoken) -> str:
        try:
            lost = loss_of(before, after, spoken)
        except (OasisError, TypeError) as error:
            return f"  {spoken.name}: not rendered: {error}"
        cost = "" if lost.n_bytes is None else f"\n  cost    {self._meter.cost(lost.n_lost)}"
        remark = f"\n  {lost.remark}" if lost.remark else ""
        return f"  {spoken.name}: {lost}{cost}{remark}"

    def _check(self, subject: Subject, name: str, spoken: Spoken) -> str:
        title = f"{name}.{spoken.name}"
        self._summary.compared.add(title)
        try:
            snapshot = self._snapshot(subject, name, spoken)
            comparison = self._folder.compare(snapshot)
            self._require_ledger()
            return self._outcome(snapshot, comparison, title)
        except (OasisError, OSError) as error:
            return self.not_evaluated(title, error)

    def _snapshot(self, subject: Subject, name: str, spoken: Spoken) -> Snapshot:
        return snapshot_of(
            subject.spoken(spoken),
            spoken.dialect,
            name=name,
            dialect_name=spoken.name,
            tokenizer=spoken.tokenizer,
            sources={owner: self._shown(place) for owner, place in subject.sources.items()},
        )

    def _require_ledger(self) -> None:
        """Check once a run that the ledger is whole and signs what is recorded, or nothing passes.

        Not while signing: what another process has entered may not be accepted yet.
        """
        if self._reason is not None:
            return
        if not self._is_verified:
            self._is_verified = True
            try:
                self._ledger.verify(self._folder.signed())
            except GuardError as error:
                self._fault = error
        if self._fault is not None:
            raise self._fault

    def _require_signed(self, comparison: Comparison) -> None:
        """Refuse to call a prompt the same, while signing too, whose last entry was never accepted, or is gone."""
        if self._reason is not None:
            self._ledger.verify(self._folder.signed(f"{comparison.name}.{comparison.dialect}"))

    def _outcome(self, snapshot: Snapshot, comparison: Comparison, title: str) -> str:
        match comparison.relation:
            case Relation.SAME:
                self._require_signed(comparison)
                if self._records or self._reason is not None:
                    self._folder.record(snapshot)  # what has the old ending gets the new one
                self._summary.add("same")
                return ""
            case Relation.MISSING if self._records or (self._reason is not None and self._is_known(comparison)):
                return self._record(snapshot, comparison, title)
            case Relation.MISSING:
                self._summary.add("missing", title)
                return f"{comparison.report()} Run `{self._remedies.record}`, read the file, and commit it."
            case _ if self._reason is not None:
                return self._sign(snapshot, comparison, title)
        self._summary.add(str(comparison.relation), _one_line(comparison))
        return f"{comparison.report()}\n{self._consequence(comparison)}\n{self._way_out}"

    def _is_known(self, comparison: Comparison) -> bool:
        """Say whether the ledger has bytes of a prompt whose file is gone."""
        last = self._ledger.last(comparison.name, comparison.dialect)
        return last is not None and bool(last.sha256_new)

    def _record(self, snapshot: Snapshot, comparison: Comparison, title: str) -> str:
        """Record for the first time, or as the ledger has it; what has other bytes there has to be signed."""
        last = self._ledger.last(snapshot.name, snapshot.dialect)
        if last is not None and last.sha256_new not in ("", snapshot.sha256):
            if self._reason is not None:
                return self._sign(snapshot, replace(comparison, sha256_old=last.sha256_new), title)
            self._summary.add("missing", title)
            return (
                f"{title}: it was signed before, and its file is gone. Bring it back, or sign it too.\n{self._way_out}"
            )

        def enter() -> Entry:
            if last is not None and last.sha256_new:
                return last  # brought back as it was
            cost = NotMeasured("nothing was recorded before")
            return self._ledger.append(comparison, reason=self._reason or RECORDED, cost=cost)

        self._folder.record(snapshot, enter)
        keep_line_ends(self._fixtures, self._root)
        self._accepted[title] = snapshot.sha256
        self._summary.add("recorded", f"{title}, {len(snapshot.data):,} bytes")
        return ""

    def _sign(self, snapshot: Snapshot, comparison: Comparison, title: str) -> str:
        """Accept a prompt; the ledger is told why."""
        if self._accepted.setdefault(title, snapshot.sha256) != snapshot.sha256:
            raise NotSignedOff("another test of this run has other bytes under this name.", remedy="Give each a name.")
        assert self._reason is not None, "nothing is signed without a reason"
        entry = self._ledger.append(comparison, reason=self._reason, cost=self._cost(comparison))
        self._folder.accept(snapshot, entry)
        keep_line_ends(self._fixtures, self._root)
        self._summary.add("signed", f"{_one_line(comparison)} [entry {entry.n}]")
        return ""

    def _cost(self, comparison: Comparison) -> Cost | NotMeasured:
        if comparison.relation is Relation.EXTENDED:
            return NotMeasured("nothing that was cached is lost")
        return self._meter.cost(comparison.move.n_lost if comparison.move else 0)

    def _consequence(self, comparison: Comparison) -> str:
        if comparison.move is None:
            return "  cost    nothing that was cached is lost; only what was added is read."
        return f"  cost    {self._meter.cost(comparison.move.n_lost)}"

    @property
    def _way_out(self) -> str:
        return f"If it has to be so: {self._remedies.sign}"

    def _shown(self, place: str) -> str:
        """Return `place` from the project's root, if it lies there: reports are read on other machines too."""
        return place.removeprefix(f"{self._root}/")


def _one_line(comparison: Comparison) -> str:
    """Return the first line of the report, and whose byte it is."""
    first = comparison.report().splitlines()[0]
    return f"{first} {comparison.move.span}" if comparison.move else first
