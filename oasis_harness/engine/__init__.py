"""A prompt in; a reply and an exact count of what was reused out.

The `Engine` protocol, the reuse check, and `ScriptedEngine`, the public test double. Engines know prompts, never
events: a divergence is a token index here, and whoever knows the conversation attaches the event to it.
"""

from .base import (
    CallParser,
    Engine,
    Finish,
    ModelCard,
    Outcome,
    Piece,
    Progress,
    Prompt,
    Sampling,
    Step,
    Timing,
    ToolChoice,
)
from .reuse import Cause, Policy, Reuse, check, measure
from .scripted import Faults, ScriptedEngine

__all__ = [
    "CallParser",
    "Cause",
    "Engine",
    "Faults",
    "Finish",
    "ModelCard",
    "Outcome",
    "Piece",
    "Policy",
    "Progress",
    "Prompt",
    "Reuse",
    "Sampling",
    "ScriptedEngine",
    "Step",
    "Timing",
    "ToolChoice",
    "check",
    "measure",
]
