"""Whether the requests of any agent only ever append, and where one does not, the block, leaf and kind of break.

A request is taken as blocks, in the order chat templates print them. Requests are read, never changed.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .append_only import NotAppendOnly as NotAppendOnly
    from .append_only import Pair as Pair
    from .append_only import RequestReport as RequestReport
    from .append_only import assert_append_only as assert_append_only
    from .append_only import assert_prefix_stable as assert_prefix_stable
    from .append_only import check_requests as check_requests
    from .blocks import Body as Body
    from .blocks import Request as Request
    from .kinds import Diagnosis as Diagnosis
    from .kinds import Kind as Kind
    from .kinds import classify as classify
    from .recorder import RequestRecorder as RequestRecorder
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "Body": ".blocks",
            "Diagnosis": ".kinds",
            "Kind": ".kinds",
            "NotAppendOnly": ".append_only",
            "Pair": ".append_only",
            "Request": ".blocks",
            "RequestRecorder": ".recorder",
            "RequestReport": ".append_only",
            "assert_append_only": ".append_only",
            "assert_prefix_stable": ".append_only",
            "check_requests": ".append_only",
            "classify": ".kinds",
        },
    )
