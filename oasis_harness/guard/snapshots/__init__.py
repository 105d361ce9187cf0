"""The exact bytes of rendered prompts in plain files, the first byte that moved, and the ledger of who let it and why.

Only bytes decide. Nothing is rendered here but what `snapshot_of` is handed.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .commit import Commit as Commit
    from .folder import SnapshotFolder as SnapshotFolder
    from .ledger import RECORDED as RECORDED
    from .ledger import Entry as Entry
    from .ledger import Ledger as Ledger
    from .ledger import Signed as Signed
    from .ledger import git_identity as git_identity
    from .line_ends import keep_line_ends as keep_line_ends
    from .moves import Comparison as Comparison
    from .moves import Move as Move
    from .moves import Recorded as Recorded
    from .moves import Row as Row
    from .moves import Snapshot as Snapshot
    from .taking import snapshot_of as snapshot_of
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "RECORDED": ".ledger",
            "Commit": ".commit",
            "Comparison": ".moves",
            "Entry": ".ledger",
            "Ledger": ".ledger",
            "Move": ".moves",
            "Recorded": ".moves",
            "Row": ".moves",
            "Signed": ".ledger",
            "Snapshot": ".moves",
            "SnapshotFolder": ".folder",
            "git_identity": ".ledger",
            "keep_line_ends": ".line_ends",
            "snapshot_of": ".taking",
        },
    )
