"""Whether the requests of any agent only ever append, and where one does not, the block, leaf and kind of break.

A request is taken as blocks, in the order chat templates print them. Requests are read, never changed.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .append_only import assert_append_only as assert_append_only
    from .append_only import assert_prefix_stable as assert_prefix_stable
    from .append_only import check_requests as check_requests
    from .blocks import Body as Body
    from .blocks import Request as Request
    from .kinds import Diagnosis as Diagnosis
    from .kinds import Kind as Kind
    from .kinds import classify as classify
    from .recorder import RequestRecorder as RequestRecorder
    from .report import NotAppendOnly as NotAppendOnly
    from .report import Pair as Pair
    from .report import RequestReport as RequestReport
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "Body": ".blocks",
            "Diagnosis": ".kinds",
            "Kind": ".kinds",
            "NotAppendOnly": ".report",
            "Pair": ".report",
            "Request": ".blocks",
            "RequestRecorder": ".recorder",
            "RequestReport": ".report",
            "assert_append_only": ".append_only",
            "assert_prefix_stable": ".append_only",
            "check_requests": ".append_only",
            "classify": ".kinds",
        },
    )
