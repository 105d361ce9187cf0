r"""The exact bytes of rendered prompts, in plain files that a person can read and diff.

    fixtures/prompts/head.smollm2.prompt    the bytes, exactly; no newline is added
    fixtures/prompts/head.smollm2.json      beside it: digests, tokens, and whose each byte is, one key a line

A text ends in `.prompt` because pytest runs what stands behind `>>>` in every `test*.txt`. One that was recorded as
`.txt` is read as it is, and renamed when it is recorded or accepted the next time.

Nothing is overwritten without a sign-off: a prompt that moved needs the ledger's entry, whose digest the manifest then
carries. Files are read and written in binary and replaced whole, under a lock on the folder. Snapshot files come from
syrupy; that their moves are signed is ours.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oasis_harness.errors import BadSnapshotName, NotSignedOff
from oasis_harness.whole_file import write_whole

from ..relation import Relation
from ..textdiff import Why
from .ledger import Entry, Signed
from .manifests import bad_snapshot, read_recorded, to_manifest
from .moves import Comparison, Move, Recorded, Snapshot, compare_prompts, rows_of

__all__ = ["Comparison", "Move", "Snapshot", "SnapshotFolder", "Why"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_DIALECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_-])?")
_DEVICE = re.compile(r"(?i)con|prn|aux|nul|com\d|lpt\d")
"""Names no file can have on Windows, where a repository may be checked out."""


class SnapshotFolder:
    """A folder of recorded prompts, `fixtures/prompts` by custom. It is made when the first is recorded."""

    ENDINGS = (".prompt", ".txt")
    """Of the texts: the one that is written, and the one that was before."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def compare(self, snapshot: Snapshot) -> Comparison:
        """Compare `snapshot` with what is recorded under its name and dialect.

        Raises:
            BadSnapshotName: It cannot be the name of a file.
            BadSnapshot: What is recorded was edited by hand, damaged, or rewritten by the checkout.
        """
        _require_names(snapshot.name, snapshot.dialect)
        with self._locked(fcntl.LOCK_SH):
            return compare_prompts(self._read(snapshot.name, snapshot.dialect), snapshot)

    def record(self, snapshot: Snapshot, enter: Callable[[], Entry] | None = None) -> None:
        """Record a prompt for the first time. Recording the same bytes again does nothing.

        `enter` makes the ledger's entry, and is called once it is certain that nothing is recorded.

        Raises:
            NotSignedOff: Other bytes are recorded.
            BadSnapshotName, BadSnapshot: As `compare`.
        """
        _require_names(snapshot.name, snapshot.dialect)
        self.path.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX):
            old = self._read(snapshot.name, snapshot.dialect)
            if old is None:
                entry = enter() if enter else None
                self._write(_recorded(snapshot, entry.digest if entry else None, len(snapshot.data) if entry else 0))
            elif old.data != snapshot.data:
                raise _not_signed(compare_prompts(old, snapshot), "it is recorded already, with other bytes")
            else:
                self._rename(snapshot.name, snapshot.dialect)

    def accept(self, snapshot: Snapshot, entry: Entry | None = None) -> None:
        """Overwrite what is recorded. Where a byte moved, `entry` is the ledger's entry that signs it.

        Raises:
            NotSignedOff: A byte moved and there is no entry, or it signs another prompt.
            BadSnapshotName, BadSnapshot: As `compare`.
        """
        _require_names(snapshot.name, snapshot.dialect)
        self.path.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX):
            old = self._read(snapshot.name, snapshot.dialect)
            comparison = compare_prompts(old, snapshot)
            if entry is None:
                if comparison.relation is Relation.MOVED:
                    raise _not_signed(comparison, "a byte of it moved, and no ledger entry signs that")
                self._write(_recorded(snapshot, old.signed if old else None, old.n_signed if old else 0))
            elif (entry.name, entry.dialect, entry.sha256_new) != (snapshot.name, snapshot.dialect, snapshot.sha256):
                raise _not_signed(comparison, f"entry {entry.n} of the ledger signs {entry.name}.{entry.dialect}")
            else:
                self._write(_recorded(snapshot, entry.digest, len(snapshot.data)))

    def remove(self, name: str, dialect: str, entry: Entry) -> None:
        """Remove what is recorded, if it is; `entry` is the ledger's entry that signs that.

        Raises:
            NotSignedOff: The entry signs something else.
            BadSnapshotName: As `compare`.
        """
        _require_names(name, dialect)
        if (entry.name, entry.dialect, entry.sha256_new) != (name, dialect, ""):
            gone = Comparison(Relation.REMOVED, name, dialect)
            raise _not_signed(gone, f"entry {entry.n} of the ledger does not remove it")
        with self._locked(fcntl.LOCK_EX):
            for path in (*self._texts(name, dialect), self._manifest(name, dialect)):
                path.unlink(missing_ok=True)

    def recorded(self, name: str, dialect: str) -> Recorded:
        """Return what is recorded.

        Raises:
            LookupError: Nothing is.
            BadSnapshotName, BadSnapshot: As `compare`.
        """
        _require_names(name, dialect)
        with self._locked(fcntl.LOCK_SH):
            found = self._read(name, dialect)
        if found is None:
            raise LookupError(f"{name}.{dialect} is not recorded in {self.path}")
        return found

    def list(self) -> tuple[str, ...]:
        """Return what is recorded, as `name.dialect`, sorted."""
        files = self.path.iterdir() if self.path.is_dir() else ()
        stems = {path.stem for path in files if path.suffix in (*self.ENDINGS, ".json")}
        return tuple(sorted(stem for stem in stems if _is_ours(stem)))

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each recorded text as it stands, by `name.dialect`; "" where only a manifest is."""
        with self._locked(fcntl.LOCK_SH):
            texts = {stem: self._text(*_parts(stem)) for stem in self.list()}
            return {
                stem: hashlib.sha256(text.read_bytes()).hexdigest() if text.exists() else ""
                for stem, text in texts.items()
            }

    def unused(self, used: Iterable[str | tuple[str, str]]) -> tuple[Comparison, ...]:
        """Return what is recorded and not among `used`: names, `name.dialect`, or (name, dialect).

        A name alone stands for all its dialects.

        Raises:
            BadSnapshot: As `compare`.
        """
        known = {one if isinstance(one, str) else ".".join(one) for one in used}
        left = [stem for stem in self.list() if stem not in known and stem.partition(".")[0] not in known]
        with self._locked(fcntl.LOCK_SH):
            return tuple(compare_prompts(self._read(*_parts(stem)), None) for stem in left)

    def signed(self, *stems: str) -> tuple[Signed, ...]:
        """Return which ledger entry signed which bytes, for `Ledger.verify`: of `stems`, or of all that is recorded.

        Raises:
            BadSnapshot: As `compare`.
        """
        with self._locked(fcntl.LOCK_SH):
            every = [self._read(*_parts(stem)) for stem in stems or self.list()]
        return tuple(_signed(one) for one in every if one is not None)

    def _read(self, name: str, dialect: str) -> Recorded | None:
        text, manifest = self._text(name, dialect), self._manifest(name, dialect)
        if not text.exists() and not manifest.exists():
            return None
        if text.suffix == ".prompt" and (old := text.with_suffix(".txt")).exists():
            raise bad_snapshot(old, f"stands beside {text.name}.", "Remove the one that is not meant.")
        for path, other in ((text, manifest), (manifest, text)):
            if not path.exists():
                raise bad_snapshot(other, f"stands without {path.name}.", f"Bring {path.name} back, or remove both.")
        recorded = read_recorded(text, manifest)
        if (recorded.name, recorded.dialect) != (name, dialect):
            told = f"holds {recorded.name}.{recorded.dialect}, one file to this file system."
            raise bad_snapshot(manifest, told, "Give one of the two another name.")
        return recorded

    def _write(self, recorded: Recorded) -> None:
        self._rename(recorded.name, recorded.dialect)
        text, manifest = self._text(recorded.name, recorded.dialect), self._manifest(recorded.name, recorded.dialect)
        for path, data in ((text, recorded.data), (manifest, to_manifest(recorded))):
            write_whole(path, [data])

    def _rename(self, name: str, dialect: str) -> None:
        """Give a text that has the old ending the new one."""
        new, old = self._texts(name, dialect)
        if old.exists() and not new.exists():
            old.rename(new)

    def _texts(self, name: str, dialect: str) -> tuple[Path, Path]:
        new, old = (self.path / f"{name}.{dialect}{ending}" for ending in self.ENDINGS)
        return new, old

    def _text(self, name: str, dialect: str) -> Path:
        new, old = self._texts(name, dialect)
        return old if old.exists() and not new.exists() else new

    def _manifest(self, name: str, dialect: str) -> Path:
        return self.path / f"{name}.{dialect}.json"

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        """Hold the folder, so that no other process sees a text without its manifest."""
        if not self.path.is_dir():
            yield
            return
        folder = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, kind)
            yield
        finally:
            os.close(folder)


def _recorded(snapshot: Snapshot, signed: str | None, n_signed: int) -> Recorded:
    return Recorded(
        snapshot.name,
        snapshot.dialect,
        snapshot.data,
        rows_of(snapshot.spans),
        snapshot.ids,
        snapshot.template,
        snapshot.tokenizer,
        signed,
        n_signed,
    )


def _signed(one: Recorded) -> Signed:
    data = one.data[: one.n_signed] if one.signed else one.data
    return Signed(one.name, one.dialect, one.signed, hashlib.sha256(data).hexdigest())


def _not_signed(comparison: Comparison, fault: str) -> NotSignedOff:
    return NotSignedOff(
        f"{comparison.name}.{comparison.dialect} cannot be overwritten: {fault}.",
        remedy="Append an entry with the reason to the ledger, and accept the prompt with that entry.",
        comparison=comparison,
    )


def _require_names(name: str, dialect: str) -> None:
    for what, value, pattern in (("snapshot", name, _NAME), ("dialect", dialect, _DIALECT)):
        if not pattern.fullmatch(value) or _DEVICE.fullmatch(value.partition(".")[0]):
            dots = " (dots too, inside)" if pattern is _DIALECT else ""
            raise BadSnapshotName(
                f"a {what} cannot be called {value[:120]!r}: it is part of a file name.",
                remedy=f"Use up to 100 ASCII letters, digits, - and _{dots}, a letter or digit first.",
                name=value,
            )


def _is_ours(stem: str) -> bool:
    name, dialect = _parts(stem)
    return bool(_NAME.fullmatch(name) and _DIALECT.fullmatch(dialect))


def _parts(stem: str) -> tuple[str, str]:
    name, _, dialect = stem.partition(".")
    return name, dialect
