"""What in a prompt varies by turn or by machine, found in its bytes: clocks, ids, paths, names, counters.

Only the bytes are read; nothing is rendered again, `perturb` does that.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .findings import Allowed as Allowed
    from .findings import Finding as Finding
    from .findings import Machine as Machine
    from .findings import find_volatile as find_volatile
    from .masks import Mask as Mask
    from .masks import mask_of as mask_of
    from .patterns import Volatile as Volatile
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "Allowed": ".findings",
            "Finding": ".findings",
            "Machine": ".findings",
            "Mask": ".masks",
            "Volatile": ".patterns",
            "find_volatile": ".findings",
            "mask_of": ".masks",
        },
    )
