"""How a model is driven that never opens a call by itself, as the default model: all of it is sampling.

A session of one's own gets one call a user turn, then an answer; an agent gets a few calls, then an answer. Since such
a model does not find the end of a text by itself either, replies and their text arguments are kept short.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from oasis_harness.engine import Sampling, ToolChoice

__all__ = ["N_REQUIRED", "ChooseTools", "driven", "driven_choice", "required_then_none"]

ChooseTools: TypeAlias = Callable[[int], ToolChoice | None]
"""From the number of the turn in this run (from 1) to its tool choice; None leaves it to the session."""

N_REQUIRED = 3
"""Turns of an agent in which a call is required of a driven model."""
_MAX_TOKENS, _MAX_STRING = 160, 120


def driven(sampling: Sampling) -> Sampling:
    """Return `sampling` with replies and text arguments kept short."""
    return replace(
        sampling, max_tokens=min(sampling.max_tokens, _MAX_TOKENS), max_string=sampling.max_string or _MAX_STRING
    )


def driven_choice(*, after_results: bool) -> ToolChoice:
    """Require a call of a user turn, and an answer to results."""
    return ToolChoice.NONE if after_results else ToolChoice.REQUIRED


def required_then_none(n_turns: int) -> ChooseTools:
    """Require a call in the first `n_turns`, then an answer: for models that never open a call by themselves."""
    return lambda turn: ToolChoice.REQUIRED if turn <= n_turns else ToolChoice.NONE
