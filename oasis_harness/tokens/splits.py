"""What is known of how a tokenizer cuts ordinary text before any merge; nothing is cut here."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Splits", "Words"]


class Words(StrEnum):
    """What becomes a word of its own, within which merges happen."""

    WHOLE = "whole"
    """All of a text."""
    BEFORE_SPACE = "before space"
    """Each space, with what follows up to the next one."""
    PATTERN = "pattern"
    """Each match of a regular expression, and each stretch between two."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Splits:
    """How ordinary text is cut: first at texts of fixed ids, then into words."""

    words: Words = Words.UNKNOWN
    pattern: str = ""
    """The regular expression, for `Words.PATTERN`."""
    fixed: tuple[bytes, ...] = ()
    """Texts that are no special tokens and yet have ids of their own wherever they stand, the longest first."""
    is_merges_only: bool = False
    """Whether a word's ids are those of its merges; a word that is looked up whole may have others."""
