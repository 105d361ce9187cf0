"""Which tools a turn may call, or must: all of it is sampling, the prompt is the same under every choice.

A session of one's own gets one call a user turn, then an answer; an agent gets a few calls, then an answer. Since such
a model does not find the end of a text by itself either, replies and their text arguments are kept short.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from oasis_harness.engine import ModelInfo, Sampling, ToolChoice

__all__ = ["N_REQUIRED", "ChooseTools", "choose_tools", "is_driven", "required_then_none"]

ChooseTools: TypeAlias = Callable[[int], ToolChoice | None]
"""From the number of the turn in this run (from 1) to its tool choice; None leaves it to the session."""

N_REQUIRED = 3
"""Turns of an agent in which a call is required of a driven model."""
_MAX_TOKENS, _MAX_STRING = 160, 120


def choose_tools(
    sampling: Sampling,
    tool_choice: ToolChoice | str | None,
    info: ModelInfo,
    *,
    has_tools: bool,
    after_results: bool,
) -> Sampling:
    """Return `sampling` with the tool choice of one turn, the one place where it is decided.

    The caller's own `tool_choice` counts first, then the session's default. A model that never opens a call by itself
    is required to call a tool after a user turn, and to answer after results; its texts are kept short.
    """
    choice = ToolChoice(tool_choice or sampling.tool_choice)
    if info.opens_calls:
        return replace(sampling, tool_choice=choice)
    if not tool_choice and is_driven(sampling, info, has_tools=has_tools):
        choice = ToolChoice.NONE if after_results else ToolChoice.REQUIRED
    return replace(
        sampling,
        tool_choice=choice,
        max_tokens=min(sampling.max_tokens, _MAX_TOKENS),
        max_string=sampling.max_string or _MAX_STRING,
    )


def is_driven(sampling: Sampling, info: ModelInfo, *, has_tools: bool) -> bool:
    """Whether a tool choice is made for the model: it never opens a call by itself, and the session's is `auto`."""
    return has_tools and not info.opens_calls and sampling.tool_choice is ToolChoice.AUTO


def required_then_none(n_turns: int) -> ChooseTools:
    """Require a call in the first `n_turns`, then an answer: for models that never open a call by themselves."""
    return lambda turn: ToolChoice.REQUIRED if turn <= n_turns else ToolChoice.NONE
