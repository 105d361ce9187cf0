"""Whether what is recorded here is what a base recorded, or led from there by entries of the ledger with reasons.

    base, by git           here                                     what is said
    head.chatml 9f86d0…    head.chatml 9f86d0…                      nothing
    head.chatml 9f86d0…    head.chatml 60303a…, and an entry        nothing: it is signed
                           9f86d0… → 60303a… "a clearer question"
    head.chatml 9f86d0…    head.chatml 60303a…                      its bytes moved, and no entry leads there
    head.chatml 9f86d0…    start.chatml 9f86d0…, "recorded"         head.chatml is gone, and no entry removes it
    ledger of 4 lines      ledger with another line 2               line 2 is not the base's

The files here cannot prove anything of themselves: who edits a prompt can write a manifest and a ledger that fit. The
base is what somebody else agreed to, the branch that a change goes into, so its ledger has to be the beginning of the
one here. What runs the tests, and whether the base is guarded, is for version control to say.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oasis_harness.errors import GuardError, OasisError
from oasis_harness.sequences import first_difference
from oasis_harness.tokens import load_tokenizer

from ..snapshots import RECORDED, Commit, Entry, Ledger, Recorded, SnapshotFolder

__all__ = ["AuditReport", "Unsigned", "audit_prompts"]

_MANIFEST = re.compile(r"(?:(?P<folder>.*)/)?prompts/(?P<stem>[^/]+)\.json")
_N_DIGITS = 12
_AGAIN = 'Bring ledger and prompts of the base back, render again, and sign: `pytest --oasis-sign "why"`.'
_LEDGER = "Bring the base's ledger back, merge the base first if it went on, and record and sign behind it again."


@dataclass(frozen=True, slots=True)
class Unsigned:
    """Something that differs from the base, or does not fit, and that no entry of the ledger explains."""

    where: str
    """`name.dialect`, or the file."""
    fault: str
    remedy: str
    sha256_old: str = ""
    """In the base; empty where it was not recorded."""
    sha256_new: str = ""
    """Here; empty where it is gone."""

    def __str__(self) -> str:
        old, new = (digest[:_N_DIGITS] or "nothing" for digest in (self.sha256_old, self.sha256_new))
        led = f" ({old} → {new})" if self.sha256_old or self.sha256_new else ""
        return f"{self.where}{led}: {self.fault} {self.remedy}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit came to."""

    ref: str
    digest: str
    """Of the base's commit."""
    n_prompts: int
    """Recorded in the base."""
    faults: tuple[Unsigned, ...]


@dataclass(frozen=True, slots=True)
class _Base:
    """What a folder of fixtures holds in the base."""

    ledger: bytes = b""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each text, by `name.dialect`."""


def audit_prompts(fixtures: Path, ref: str, *, root: Path | None = None) -> AuditReport:
    """Compare the prompts recorded in `fixtures`, and in other folders beneath `root`, with those of the commit `ref`.

    Without a `root` in the repository all of its folders are compared. Nothing is written, checked out or run.

    Raises:
        NoBase: There is no such commit here, or no git.
    """
    commit = Commit.at(fixtures, ref)
    own = commit.place(fixtures)
    scope = commit.place(root) if root is not None and root.resolve().is_relative_to(commit.root) else "."
    bases = {at: base for at, base in _bases(commit, own).items() if at == own or scope in (".", *_above(at))}
    faults = tuple(_all_faults(commit, own, bases))
    return AuditReport(ref, commit.digest, sum(len(base.prompts) for base in bases.values()), faults)


def _above(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _bases(commit: Commit, own: str) -> dict[str, _Base]:
    """Return what every folder with recorded prompts holds in the base, and `own`, whether it has any or not."""
    files = commit.files()
    found: dict[str, dict[str, tuple[str, str]]] = {own: {}}
    for path, manifest in files.items():
        match = _MANIFEST.fullmatch(path)
        texts = [path.removesuffix(".json") + ending for ending in SnapshotFolder.ENDINGS] if match else []
        text = next((files[one] for one in texts if one in files), "")
        if match and text:
            found.setdefault(match["folder"] or ".", {})[match["stem"]] = manifest, text
    ledgers = {folder: files.get(f"{folder}/ledger.jsonl".removeprefix("./"), "") for folder in found}
    pairs = [blob for stems in found.values() for both in stems.values() for blob in both]
    data = {"": b"", **commit.read([*pairs, *filter(None, ledgers.values())])}
    bases = {}
    for folder, stems in found.items():
        ours = {stem: text for stem, (manifest, text) in stems.items() if data[manifest].startswith(b'{\n"name":"')}
        prompts = {stem: hashlib.sha256(data[text]).hexdigest() for stem, text in ours.items()}
        if prompts or folder == own:
            bases[folder] = _Base(data[ledgers[folder]], prompts)
    return bases


def _all_faults(commit: Commit, own: str, bases: dict[str, _Base]) -> Iterator[Unsigned]:
    """Compare each folder with itself; one that is new takes the place of those that are gone."""
    is_new = not (bases[own].prompts or bases[own].ledger)
    moved = [folder for folder in bases if is_new and folder != own and not _prompts(commit.root / folder).list()]
    for folder, base in bases.items():
        if folder in moved:
            yield from _faults(base, commit.root / own)
        elif folder != own or not moved:
            yield from _faults(base, commit.root / folder)
        if is_new and folder != own and folder not in moved:
            yield Unsigned(
                own,
                f"the base has no prompts here, but in {folder}, where they still stand: these are new.",
                f"Compare with {folder}, or move that folder, ledger and all.",
            )


def _prompts(fixtures: Path) -> SnapshotFolder:
    return SnapshotFolder(fixtures / "prompts")


def _faults(base: _Base, fixtures: Path) -> Iterator[Unsigned]:
    prompts, ledger = _prompts(fixtures), Ledger(fixtures / "ledger.jsonl")
    here = prompts.digests()
    misfits = list(_misfits(prompts, here, base))
    entries, new, broken = _entries(base, ledger)
    yield from broken
    yield from misfits
    for stem in sorted({*base.prompts, *here, *(_stem(entry) for entry in new)}):
        old = [entry for entry in entries if _stem(entry) == stem]
        start = base.prompts.get(stem, old[-1].sha256_new if old else "")
        fault = _fault(start, here.get(stem, ""), [entry for entry in new if _stem(entry) == stem])
        if fault:
            yield Unsigned(stem, *_advised(fault, stem, here), base.prompts.get(stem, ""), here.get(stem, ""))
    if not (broken or misfits):
        yield from _unverified(prompts, ledger)
        yield from _undecodable(prompts, here, fixtures)


def _stem(entry: Entry) -> str:
    return f"{entry.name}.{entry.dialect}"


def _entries(base: _Base, ledger: Ledger) -> tuple[tuple[Entry, ...], tuple[Entry, ...], list[Unsigned]]:
    """Return the entries of the base and those behind them; none, and what is wrong, where they are no chain."""
    data = ledger.path.read_bytes() if ledger.path.exists() else b""
    if not data.startswith(base.ledger):
        line = data[: first_difference(base.ledger, data)].count(b"\n") + 1
        fault = f"line {line} is not the base's: entries are only ever appended, and what it signs is not believed."
        return (), (), [Unsigned(ledger.path.name, fault, _LEDGER)]
    try:
        entries = ledger.entries()
    except GuardError as error:
        return (), (), [Unsigned(ledger.path.name, str(error), "")]
    n_base = base.ledger.count(b"\n")
    return entries[:n_base], entries[n_base:], []


def _fault(start: str, end: str, entries: list[Entry]) -> str:
    """Follow the entries of one prompt from the digest it had to the one it has; say where that does not lead."""
    at = start
    for entry in entries:
        if entry.sha256_old != at:
            return f"entry {entry.n} leads from {entry.sha256_old[:_N_DIGITS] or 'nothing'}, which it was not."
        if not entry.reason.strip() or (entry.reason == RECORDED and entry.sha256_old):
            return f"entry {entry.n} gives no reason."
        at = entry.sha256_new
    if at == end:
        return ""
    if not start and not entries:
        return "it is new, and no entry of the ledger records it."
    return "its bytes moved, and no entry of the ledger leads there." if end else "it is gone, and no entry removes it."


def _advised(fault: str, stem: str, here: Mapping[str, str]) -> tuple[str, str]:
    if stem not in here:
        return fault, f'Bring it back, or sign that: `oasis prefix sign --removed {stem} --reason "why"`.'
    if fault.startswith("it is new"):
        return fault, "Remove its files and record it again: `pytest --oasis-record`."
    return fault, _AGAIN


def _misfits(prompts: SnapshotFolder, here: Mapping[str, str], base: _Base) -> Iterator[Unsigned]:
    for stem, digest in here.items():
        try:
            _recorded(prompts, stem)
        except GuardError as error:
            yield Unsigned(stem, str(error), "", base.prompts.get(stem, ""), digest)


def _recorded(prompts: SnapshotFolder, stem: str) -> Recorded:
    name, _, dialect = stem.partition(".")
    return prompts.recorded(name, dialect)


def _unverified(prompts: SnapshotFolder, ledger: Ledger) -> Iterator[Unsigned]:
    try:
        ledger.verify(prompts.signed())
    except GuardError as error:
        yield Unsigned(ledger.path.name, str(error), "")


def _undecodable(prompts: SnapshotFolder, here: Mapping[str, str], fixtures: Path) -> Iterator[Unsigned]:
    """Find manifests whose ids are not those of their text, in dialects whose tokenizer is here."""
    for stem in here:
        recorded = _recorded(prompts, stem)
        path = fixtures / "dialects" / f"{recorded.dialect}.tokenizer.json"
        if recorded.ids is None or not path.is_file():
            continue
        try:
            tokenizer = load_tokenizer(path)
            is_other = tokenizer.digest == recorded.tokenizer and tokenizer.decode(recorded.ids) != recorded.data
        except (OasisError, ValueError, IndexError, KeyError, OverflowError) as error:
            yield Unsigned(stem, f"its ids cannot be read: {error}", _AGAIN, here[stem], here[stem])
            continue
        if is_other:
            yield Unsigned(stem, "the ids of its manifest are not those of its text.", _AGAIN, here[stem], here[stem])
