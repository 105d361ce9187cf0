"""Proof in CI: what in a prompt head varies by turn or by machine, found in its bytes and by rendering it elsewhere.

`find_volatile` reads the bytes of a head and names the clocks, paths and ids in them; `perturb_head` renders a head
again in processes with another hash seed, time zone, folder order, clock and so on, and names the field that moved.
`SnapshotFolder` keeps the bytes of rendered prompts and names the byte that moved, `Ledger` says who let it and why,
and `measure_prefill` what it costs. `check_requests` holds the requests of any agent to append-only, `classify` names
the kind of a break. The pytest plugin does all that in a test, `review` for a command. This room never changes a prompt
and never prints; importing it loads only the standard library. What is not here is at the door of its wing.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .cost import Cost as Cost
    from .cost import NotMeasured as NotMeasured
    from .cost import PrefillRate as PrefillRate
    from .cost import measure_prefill as measure_prefill
    from .perturb import Variation as Variation
    from .perturb import perturb_head as perturb_head
    from .relation import Relation as Relation
    from .requests import Kind as Kind
    from .requests import NotAppendOnly as NotAppendOnly
    from .requests import Request as Request
    from .requests import RequestReport as RequestReport
    from .requests import assert_append_only as assert_append_only
    from .requests import assert_prefix_stable as assert_prefix_stable
    from .requests import check_requests as check_requests
    from .requests import classify as classify
    from .snapshots import Comparison as Comparison
    from .snapshots import Ledger as Ledger
    from .snapshots import Snapshot as Snapshot
    from .snapshots import SnapshotFolder as SnapshotFolder
    from .snapshots import snapshot_of as snapshot_of
    from .volatile import Allowed as Allowed
    from .volatile import Finding as Finding
    from .volatile import Machine as Machine
    from .volatile import Volatile as Volatile
    from .volatile import find_volatile as find_volatile
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "Allowed": ".volatile",
            "Comparison": ".snapshots",
            "Cost": ".cost",
            "Finding": ".volatile",
            "Kind": ".requests",
            "Ledger": ".snapshots",
            "Machine": ".volatile",
            "NotAppendOnly": ".requests",
            "NotMeasured": ".cost",
            "PrefillRate": ".cost",
            "Relation": ".relation",
            "Request": ".requests",
            "RequestReport": ".requests",
            "Snapshot": ".snapshots",
            "SnapshotFolder": ".snapshots",
            "Variation": ".perturb",
            "Volatile": ".volatile",
            "assert_append_only": ".requests",
            "assert_prefix_stable": ".requests",
            "check_requests": ".requests",
            "classify": ".requests",
            "find_volatile": ".volatile",
            "measure_prefill": ".cost",
            "perturb_head": ".perturb",
            "snapshot_of": ".snapshots",
        },
    )
