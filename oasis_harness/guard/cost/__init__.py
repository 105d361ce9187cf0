"""What a token of the prompt costs: the speed of reading, measured then and there on the engine that pays it.

Where nothing was measured there is a reason and no number.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .meter import Meter as Meter
    from .rates import Cost as Cost
    from .rates import NotMeasured as NotMeasured
    from .rates import PrefillRate as PrefillRate
    from .rates import measure_prefill as measure_prefill
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "Cost": ".rates",
            "Meter": ".meter",
            "NotMeasured": ".rates",
            "PrefillRate": ".rates",
            "measure_prefill": ".rates",
        },
    )
