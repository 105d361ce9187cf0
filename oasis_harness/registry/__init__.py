"""What the model may use: tools and skills, in one frozen order.

A Python function becomes a tool: its signature and docstring give the schema the model reads, byte for byte the same
on every machine and in every registration order. A folder with a SKILL.md becomes a skill: one line in the prompt
head, the body on demand. This room never renders a prompt, never decides whether a call is allowed, and never runs a
tool unless its `call` is asked to.
"""

from .interrupts import Interrupt, on_interrupt
from .skills import Skill, Skills, frozen_tools
from .tools import Effect, Group, Tool, ToolRefused, Tools

__all__ = [
    "Effect",
    "Group",
    "Interrupt",
    "Skill",
    "Skills",
    "Tool",
    "ToolRefused",
    "Tools",
    "frozen_tools",
    "on_interrupt",
]
