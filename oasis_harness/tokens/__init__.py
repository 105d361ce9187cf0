"""Bytes to ids: an exact, reversible tokenizer that encodes deltas, never histories.

Only template scaffold may become special tokens; what a user or a tool wrote stays text. This room never renders and
never sees an event.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .loading import load_tokenizer as load_tokenizer
    from .seam import Seam as Seam
    from .seam import SeamCount as SeamCount
    from .tokenizer import N_NEAR as N_NEAR
    from .tokenizer import Tokenizer as Tokenizer
    from .tokenizer import byte_tokenizer as byte_tokenizer
else:  # the tokenizers library is loaded with the first file
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "N_NEAR": ".tokenizer",
            "Seam": ".seam",
            "SeamCount": ".seam",
            "Tokenizer": ".tokenizer",
            "byte_tokenizer": ".tokenizer",
            "load_tokenizer": ".loading",
        },
    )
