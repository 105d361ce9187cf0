"""The loop: a session that sends and records, and an agent that runs the tools its model calls.

Everything it sends is recorded before the engine is asked, and everything it recorded is sent as it was.
"""

from .loop import (
    ALLOW_ALL,
    Agent,
    AgentEvent,
    CallFinished,
    CallStarted,
    Finished,
    Reason,
)
from .reasoning import ReasoningPolicy
from .session import Session
from .tool_policy import N_REQUIRED, ChooseTools, required_then_none
from .turn import Turn, Usage

__all__ = [
    "ALLOW_ALL",
    "N_REQUIRED",
    "Agent",
    "AgentEvent",
    "CallFinished",
    "CallStarted",
    "ChooseTools",
    "Finished",
    "Reason",
    "ReasoningPolicy",
    "Session",
    "Turn",
    "Usage",
    "required_then_none",
]
