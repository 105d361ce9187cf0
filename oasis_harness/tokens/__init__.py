"""Bytes to ids: an exact, reversible tokenizer that encodes deltas, never histories.

Only template scaffold may become special tokens; what a user or a tool wrote stays text. This room never renders and
never sees an event.
"""

from .seam import Seam
from .tokenizer import Tokenizer, byte_tokenizer, load_tokenizer

__all__ = ["Seam", "Tokenizer", "byte_tokenizer", "load_tokenizer"]
