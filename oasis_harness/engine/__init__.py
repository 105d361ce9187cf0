"""A prompt in; a reply and an exact count of what was reused out.

The `Engine` protocol, the reuse check, and `ScriptedEngine`, the public test double. Engines know prompts, never
events: a divergence is a token index here, and whoever knows the conversation attaches the event to it.
"""

from .base import (
    Completion,
    Engine,
    Finish,
    ModelInfo,
    Piece,
    Progress,
    Prompt,
    Sampling,
    Step,
    Timing,
    ToolChoice,
)
from .reuse import Cause, Policy, Reuse, check_reuse, measure_reuse
from .scripted import Faults, ScriptedEngine

__all__ = [
    "Cause",
    "Completion",
    "Engine",
    "Faults",
    "Finish",
    "ModelInfo",
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
    "check_reuse",
    "measure_reuse",
]
