"""How what is sent stands to what was sent, recorded or rendered before it: the one enum every check answers with."""

from enum import StrEnum

__all__ = ["Relation"]


class Relation(StrEnum):
    """One of these; the first three are what all is about, the others are met in one check only."""

    SAME = "same"
    EXTENDED = "extended"
    """All of the earlier bytes, and then more: no byte moved."""
    MOVED = "moved"
    """A byte of the earlier ones is not there, or not the same."""
    SHRUNK = "shrunk"
    """Of a request: the end of the earlier one is missing, and nothing came in its place."""
    NEW = "new conversation"
    """Of a request: it begins a conversation, and nothing is expected of it."""
    UNDECLARED = "undeclared conversation"
    """Of a request: it begins one more than were declared."""
    MISSING = "missing"
    """Of a snapshot: nothing is recorded yet."""
    UNUSED = "unused"
    """Of a snapshot: it is recorded, and nothing rendered it."""
    REMOVED = "removed"
    """Of a snapshot: it is taken away on purpose, for a reason."""
    FAILED = "failed"
    """Of a head on another machine: it could not be rendered."""
