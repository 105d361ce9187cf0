"""Proof in CI: what in a prompt head varies by turn or by machine, found in its bytes and by rendering it elsewhere.

`find_volatile` reads the bytes of a head and names the clocks, paths and ids in them; `perturb` renders a head again
in processes with another hash seed, time zone, folder order, clock and so on, and names the field that moved.
`SnapshotFolder` keeps the bytes of rendered prompts and names the byte that moved, `Ledger` says who let it and why,
and `measure_prefill` what it costs. `check_requests` holds the requests of any agent to append-only, `classify` names
the kind of a break. The pytest plugin does all that in a test, `Desk` for a command. This room never changes a prompt
and never prints; importing it loads only the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .blocks import Request
    from .cost import Cost, CostRow, NotMeasured, PrefillRate, Trade, compare, costs_of, measure_prefill
    from .desk import Bill, Checked, Desk, Part
    from .kinds import Diagnosis, Kind, classify
    from .ledger import Entry, Ledger, Signed, git_identity
    from .moves import Category, Comparison, Move, Snapshot
    from .requests import (
        NotAppendOnly,
        Pair,
        Relation,
        RequestReport,
        assert_append_only,
        assert_prefix_stable,
        check_requests,
    )
    from .shown import Why
    from .snapshots import SnapshotFolder, snapshot_of
    from .variance import Moved, Outcome, Report, Verdict, perturb
    from .variations import ALL, Listing, Variation
    from .volatile import Allowed, Finding, Machine, Volatile, find_volatile

# No module here is named after one of its functions: loading it would put the module in the function's place.
_MODULES = {
    "ALL": "variations",
    "Allowed": "volatile",
    "Bill": "desk",
    "Category": "moves",
    "Checked": "desk",
    "Comparison": "moves",
    "Cost": "cost",
    "CostRow": "cost",
    "Desk": "desk",
    "Diagnosis": "kinds",
    "Entry": "ledger",
    "Finding": "volatile",
    "Kind": "kinds",
    "Ledger": "ledger",
    "Listing": "variations",
    "Machine": "volatile",
    "Move": "moves",
    "Moved": "variance",
    "NotAppendOnly": "requests",
    "NotMeasured": "cost",
    "Outcome": "variance",
    "Pair": "requests",
    "Part": "desk",
    "PrefillRate": "cost",
    "Relation": "requests",
    "Report": "variance",
    "Request": "blocks",
    "RequestReport": "requests",
    "Signed": "ledger",
    "Snapshot": "moves",
    "SnapshotFolder": "snapshots",
    "Trade": "cost",
    "Variation": "variations",
    "Verdict": "variance",
    "Volatile": "volatile",
    "Why": "shown",
    "assert_append_only": "requests",
    "assert_prefix_stable": "requests",
    "check_requests": "requests",
    "classify": "kinds",
    "compare": "cost",
    "costs_of": "cost",
    "find_volatile": "volatile",
    "git_identity": "ledger",
    "measure_prefill": "cost",
    "perturb": "variance",
    "snapshot_of": "snapshots",
}

__all__ = [
    "ALL",
    "Allowed",
    "Bill",
    "Category",
    "Checked",
    "Comparison",
    "Cost",
    "CostRow",
    "Desk",
    "Diagnosis",
    "Entry",
    "Finding",
    "Kind",
    "Ledger",
    "Listing",
    "Machine",
    "Move",
    "Moved",
    "NotAppendOnly",
    "NotMeasured",
    "Outcome",
    "Pair",
    "Part",
    "PrefillRate",
    "Relation",
    "Report",
    "Request",
    "RequestReport",
    "Signed",
    "Snapshot",
    "SnapshotFolder",
    "Trade",
    "Variation",
    "Verdict",
    "Volatile",
    "Why",
    "assert_append_only",
    "assert_prefix_stable",
    "check_requests",
    "classify",
    "compare",
    "costs_of",
    "find_volatile",
    "git_identity",
    "measure_prefill",
    "perturb",
    "snapshot_of",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
