"""Bytes to ids: an exact, reversible tokenizer that encodes deltas, never histories.

Only template scaffold may become special tokens; what a user or a tool wrote stays text. This room never renders and
never sees an event.
"""

from .proof import prove_seam
from .seam import Because, Seam, SeamCount, SeamExample, SeamProof, Verdict
from .tokenizer import N_NEAR, Tokenizer, byte_tokenizer, load_tokenizer

__all__ = [
    "N_NEAR",
    "Because",
    "Seam",
    "SeamCount",
    "SeamExample",
    "SeamProof",
    "Tokenizer",
    "Verdict",
    "byte_tokenizer",
    "load_tokenizer",
    "prove_seam",
]
