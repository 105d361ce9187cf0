"""What happened: the append-only log of one conversation, and the file it lives in.

Events are facts, chained by digest; each carries the bytes and token ids that were really sent for it. This room never
renders, never tokenises and never asks an engine; nothing in it edits, reorders or drops an event.
"""

from .epoch import Epoch
from .events import (
    Body,
    Compaction,
    Event,
    Head,
    Note,
    Opening,
    ReasoningDropped,
    Reply,
    ToolResult,
    ToolResults,
    ToolsAdded,
    User,
)
from .log import Conversation
from .node import Node, epoch_nodes, last_sent
from .store import ConversationFile, Recovery, load, save

__all__ = [
    "Body",
    "Compaction",
    "Conversation",
    "ConversationFile",
    "Epoch",
    "Event",
    "Head",
    "Node",
    "Note",
    "Opening",
    "ReasoningDropped",
    "Recovery",
    "Reply",
    "ToolResult",
    "ToolResults",
    "ToolsAdded",
    "User",
    "epoch_nodes",
    "last_sent",
    "load",
    "save",
]
