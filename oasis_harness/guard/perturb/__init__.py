"""A prompt head rendered again in other surroundings, each in a fresh process, and the field whose bytes are others.

Other hash seeds, time zones, folder orders, clocks: what a machine or a moment can differ in, as constants.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .child import fields_of as fields_of
    from .runs import Moved as Moved
    from .runs import PerturbReport as PerturbReport
    from .runs import VariedHead as VariedHead
    from .runs import perturb_head as perturb_head
    from .variations import ALL as ALL
    from .variations import Listing as Listing
    from .variations import Variation as Variation
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "ALL": ".variations",
            "Listing": ".variations",
            "Moved": ".runs",
            "PerturbReport": ".runs",
            "Variation": ".variations",
            "VariedHead": ".runs",
            "fields_of": ".child",
            "perturb_head": ".runs",
        },
    )
