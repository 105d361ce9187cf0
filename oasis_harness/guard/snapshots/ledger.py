r"""The ledger of recorded, moved and removed prompts: JSON Lines, append-only, each line chained to the one before it.

    {"n":1,"previous":"","name":"head","dialect":"smollm2","n_bytes":19,"span":"head/system",…,"digest":"sha256:…"}

    sha256_old   sha256_new   reason
    ""           "9f86…"      "recorded"             for the first time: the one reason that is given by itself
    "9f86…"      "60303…"     "a clearer question"   bytes moved, or were appended
    "60303…"     ""           "the agent is gone"    removed; a renamed prompt is one removed and one recorded

A prompt that was recorded before there were entries for that has none, and stands all the same.

A line that was changed, removed, inserted or put elsewhere is named. What a chain alone cannot show is that its last
lines were removed: so each snapshot's manifest carries the digest of the entry that last signed it, and `verify` looks
for it. Whoever rewrites the ledger and the snapshots together is seen by version control only: the chain is no
signature. Two branches that both recorded or signed meet in its last lines: the one that comes second takes
ledger and prompts of the first, and records and signs behind them again.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oasis_harness.canonical import canonical_json
from oasis_harness.chain import append_bytes, link, open_locked, whole_lines
from oasis_harness.errors import BrokenLedger, NotSignedOff

from ..relation import Relation
from ..textdiff import CHECKOUT
from .moves import Comparison

if TYPE_CHECKING:
    from ..cost import Cost, NotMeasured

__all__ = ["RECORDED", "Entry", "Ledger", "Signed", "git_identity"]

RECORDED = "recorded"
"""The reason of a prompt that is recorded for the first time, where nobody gave another."""

NOBODY = "unknown: no git identity"


@dataclass(frozen=True, slots=True)
class Entry:
    """One prompt that was recorded, moved or removed."""

    n: int
    """Counted from 1."""
    previous: str
    """Digest of the entry before; empty for the first."""
    name: str
    dialect: str
    n_bytes: int
    """Offset of the first byte that moved, or was added."""
    span: str
    """Whose byte it is now; empty where none moved."""
    n_tokens_lost: int | None
    """Tokens that must be read again; None where they were not counted."""
    reason: str
    who: str
    when: str
    """UTC, ISO 8601, to the second."""
    cost: Mapping[str, object] | None
    """What was measured, see `Cost.to_json`; None where nothing was."""
    cost_reason: str
    """Why nothing was; empty where something was."""
    sha256_old: str
    """Empty where nothing was recorded before."""
    sha256_new: str
    """Empty where it was removed."""
    digest: str

    def to_json(self) -> bytes:
        """Return the canonical JSON of this entry: a line of the file, without its end."""
        return canonical_json({field.name: getattr(self, field.name) for field in fields(Entry)})

    def body(self) -> bytes:
        """Return what the digest covers: everything but itself."""
        names = [field.name for field in fields(Entry) if field.name != "digest"]
        return canonical_json({name: getattr(self, name) for name in names})


@dataclass(frozen=True, slots=True)
class Signed:
    """What the manifest of a snapshot says of its sign-off."""

    name: str
    dialect: str
    entry: str | None
    """Digest of the entry that last signed it."""
    sha256: str
    """Of the bytes that were signed, or of all where none were."""


class Ledger:
    """The ledger in one file, which need not exist yet. `who` and `clock` are asked once an entry."""

    def __init__(
        self,
        path: Path | str,
        *,
        who: Callable[[], str] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.path = Path(path)
        self._who = who or (lambda: git_identity(self.path.parent))
        self._clock = clock

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first.

        Raises:
            BrokenLedger: A line is not what was appended there.
        """
        return _entries(self.path.read_bytes() if self.path.exists() else b"", self.path)

    def last(self, name: str, dialect: str) -> Entry | None:
        """Return the newest entry of a prompt.

        Raises:
            BrokenLedger: As `entries`.
        """
        own = [entry for entry in self.entries() if (entry.name, entry.dialect) == (name, dialect)]
        return own[-1] if own else None

    def verify(self, signed: Iterable[Signed] = ()) -> None:
        """Check the chain, and that it holds what the snapshots say was `signed` (`SnapshotFolder.signed()`).

        Raises:
            BrokenLedger: A line was changed, removed, inserted or put elsewhere; also the last ones, where a snapshot
                names them.
            NotSignedOff: A snapshot has other bytes than its last entry signs.
        """
        entries = self.entries()
        known = {entry.digest for entry in entries}
        last = {(entry.name, entry.dialect): entry for entry in entries}
        for one in signed:
            if one.entry is not None and one.entry not in known:
                raise _broken(
                    self.path, len(entries) + 1, f"the entry that signed {one.name}.{one.dialect} was removed"
                )
            _require_last(one, last.get((one.name, one.dialect)))

    def append(self, comparison: Comparison, *, reason: str, cost: "Cost | NotMeasured") -> Entry:
        """Sign a prompt that moved, grew, is recorded or removed, and return the entry, which is on disk then.

        Raises:
            NotSignedOff: There is no reason, or nothing moved.
            BrokenLedger: The ledger is damaged; nothing was appended.
        """
        if not reason.strip():
            raise NotSignedOff("a sign-off needs a reason, and this one is blank.", remedy="Say why the prompt moves.")
        if comparison.relation in (Relation.SAME, Relation.UNUSED):
            raise NotSignedOff(f"there is nothing to sign: {comparison}", remedy="Sign a prompt that moved.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open_locked(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode=0o666, waits=True)
        try:
            entries = self.entries()
            entry = self._entry(entries[-1] if entries else None, comparison, reason.strip(), cost)
            append_bytes(file, entry.to_json() + b"\n", is_synced=True)
        finally:
            os.close(file)
        return entry

    def _entry(self, last: Entry | None, comparison: Comparison, reason: str, cost: "Cost | NotMeasured") -> Entry:
        move, measured = comparison.move, cost.to_json()
        return _with_digest(
            {
                "n": last.n + 1 if last else 1,
                "previous": last.digest if last else "",
                "name": comparison.name,
                "dialect": comparison.dialect,
                "n_bytes": move.n_bytes if move else comparison.n_bytes_old,
                "span": move.span if move else "",
                "n_tokens_lost": move.n_lost if move else 0,
                "reason": reason,
                "who": self._who(),
                "when": self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "cost": measured,
                "cost_reason": "" if measured is not None else getattr(cost, "reason", ""),
                "sha256_old": comparison.sha256_old,
                "sha256_new": comparison.sha256_new,
            }
        )


def git_identity(folder: Path) -> str:
    """Return `name <email>` as git would sign a commit in `folder`: its environment first, then its settings."""
    name, email = (
        os.environ.get(f"GIT_AUTHOR_{key.upper()}")
        or _git_setting(f"author.{key}", folder)
        or _git_setting(f"user.{key}", folder)
        for key in ("name", "email")
    )
    return f"{name} <{email}>" if name and email else name or email or NOBODY


def _git_setting(key: str, folder: Path) -> str:
    place = next(one for one in [folder.resolve(), *folder.resolve().parents] if one.is_dir())
    try:
        done = subprocess.run(
            ["git", "config", "--get", key],
            cwd=place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # no git on this machine
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def _with_digest(body: dict[str, Any]) -> Entry:
    return Entry(**body, digest=link(body["previous"], canonical_json(body)))


def _entries(data: bytes, path: Path) -> tuple[Entry, ...]:
    lines, rest = whole_lines(data)
    if rest:
        told = "it is torn: the entry was not written to its end"
        raise _broken(path, len(lines) + 1, told, remedy="Remove that line, and sign again.")
    entries: list[Entry | None] = [_parsed(line) for line in lines]
    found: list[Entry] = []
    for number, entry in enumerate(entries, start=1):
        fault = _fault(entry, number, found[-1] if found else None, entries)
        if entry is None or fault:
            raise _broken(path, number, CHECKOUT if lines[number - 1].endswith(b"\r") else fault)
        found.append(entry)
    return tuple(found)


def _parsed(line: bytes) -> Entry | None:
    """Return the entry of a line, or None where it is not, to the byte, what `append` writes."""
    try:
        entry = Entry(**json.loads(line.decode("utf-8")))
        is_whole = entry.to_json() == line and link(entry.previous, entry.body()) == entry.digest
        return entry if is_whole and type(entry.n) is int else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _fault(entry: Entry | None, number: int, before: Entry | None, entries: list[Entry | None]) -> str:
    """Say what is wrong with line `number`, the lines before it being right."""
    if entry is None:
        return "it was changed: its digest does not fit what it says"
    if entry.n > number:
        is_later = any(one is not None and one.n == number for one in entries[number:])
        return f"entry {number} is {'further on: lines were reordered' if is_later else 'not here: it was removed'}"
    if entry.n < number:
        return f"entry {entry.n} stands here again: a line was inserted or repeated"
    if entry.previous != (before.digest if before else ""):
        return "it does not follow the line before it, which was changed or exchanged"
    return ""


def _require_last(one: Signed, last: Entry | None) -> None:
    if last is None or (last.digest == one.entry and last.sha256_new == one.sha256):
        return
    if one.entry is None and last.sha256_new == one.sha256:  # removed once, and recorded again as it was
        return
    raise NotSignedOff(
        f"{one.name}.{one.dialect} does not hold the bytes that entry {last.n} of the ledger signs.",
        remedy="Bring snapshots and ledger back from version control together, or sign what it should hold.",
        name=one.name,
        dialect=one.dialect,
        entry=last.n,
    )


def _broken(path: Path, number: int, fault: str, *, remedy: str = "") -> BrokenLedger:
    return BrokenLedger(
        f"{path.name}, line {number}: {fault}.",
        remedy=remedy or "Bring the ledger back from version control; entries are only ever appended.",
        path=path,
        line=number,
    )
