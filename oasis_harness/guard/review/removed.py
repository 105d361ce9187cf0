"""A recorded prompt taken away on purpose: the ledger is told why, then its files go.

remove_prompt(prompts, ledger, "head", reason)          head in every dialect
remove_prompt(prompts, ledger, "head.qwen3", reason)    in one
"""

from oasis_harness.errors import NotSignedOff

from ..cost import NotMeasured
from ..relation import Relation
from ..snapshots import Comparison, Entry, Ledger, SnapshotFolder

__all__ = ["remove_prompt"]


def remove_prompt(prompts: SnapshotFolder, ledger: Ledger, stem: str, reason: str) -> tuple[Entry, ...]:
    """Sign the removal of a recorded prompt, and remove its files, which may be gone already; return the entries.

    Raises:
        NotSignedOff: Neither the folder nor the ledger knows it, or the reason is blank.
        BadSnapshot: What is recorded does not fit its manifest.
        BrokenLedger: The ledger is damaged.
    """
    signed = {f"{entry.name}.{entry.dialect}": entry for entry in ledger.entries()}
    recorded = prompts.list()
    known = {*recorded, *(one for one, entry in signed.items() if entry.sha256_new)}
    stems = sorted(one for one in known if stem in (one, one.partition(".")[0]))
    if not stems:
        raise NotSignedOff(
            f"there is no recorded prompt {stem!r} to remove, and the ledger has none.",
            remedy="Bring its files back from version control first, if they are gone.",
            name=stem,
        )
    return tuple(_removed(prompts, ledger, one, signed.get(one), reason) for one in stems)


def _removed(prompts: SnapshotFolder, ledger: Ledger, stem: str, last: Entry | None, reason: str) -> Entry:
    name, _, dialect = stem.partition(".")
    if last is not None and not last.sha256_new:
        entry = last  # signed already, and its files were left
    else:
        sha256 = prompts.recorded(name, dialect).sha256 if stem in prompts.list() else last.sha256_new if last else ""
        gone = Comparison(Relation.REMOVED, name, dialect, sha256_old=sha256)
        entry = ledger.append(gone, reason=reason, cost=NotMeasured("it is removed"))
    prompts.remove(name, dialect, entry)
    return entry
