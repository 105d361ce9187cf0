"""The budget of one render, in steps and characters, and how a value is measured against it.

It counts and reads no clock: a template that is stopped here is stopped on every machine.
"""

from collections.abc import ItemsView, KeysView, Mapping, Set, ValuesView
from types import NoneType
from typing import Any

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

from oasis_harness.errors import TemplateRunaway

__all__ = ["INT_BITS", "ITEM", "STEPS", "Budget", "Purse", "measure", "require_text", "runaway"]

STEPS = 4_000_000
"""A step is about one node of the syntax tree evaluated, or 1024 characters looked at."""
STEPS_PER_MESSAGE = 20_000
STEPS_PER_CHARACTER = 2
CHARACTERS = 32_000_000
"""Characters written, in total; an item of a list counts as `ITEM` of them."""
CHARACTERS_PER_CHARACTER = 64
ITEM = 64
"""A string of its own takes as much memory as this many ASCII characters."""
NESTING = 200
"""Lists within lists; CPython's own `hash` of a tuple overflows the C stack far below any memory bound."""
INT_BITS = 65_536
DEEPEST = 100
"""Macro calls within macro calls; Python itself allows about 150 from an empty stack."""


class Budget:
    """What one render may still spend. What its inputs add is counted only when the rest is used up."""

    __slots__ = ("_inputs", "characters", "depth", "steps")

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.steps = STEPS
        self.characters = CHARACTERS
        self.depth = 0
        self._inputs: Mapping[str, Any] | None = inputs

    def spend(self, characters: int, steps: int = 1) -> None:
        """Pay for `characters` that may be written and `steps` that may be taken.

        Raises:
            TemplateRunaway: Less is left.
        """
        self.characters -= characters
        self.steps -= steps + (characters >> 10)
        if self.characters < 0 or self.steps < 0:
            self._overdraw()

    def enter(self) -> None:
        """Go one macro call deeper."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise runaway(f"its recursion goes deeper than {DEEPEST} calls")

    def _overdraw(self) -> None:
        if self._inputs is not None:
            n_characters = measure(self._inputs)
            self.steps += STEPS_PER_CHARACTER * n_characters + STEPS_PER_MESSAGE * len(self._inputs["messages"])
            self.characters += CHARACTERS_PER_CHARACTER * n_characters
            self._inputs = None
        if self.characters < 0:
            raise runaway("it writes more than the conversation explains")
        if self.steps < 0:
            raise runaway("it takes more steps than the conversation explains")


class Purse:
    """What several renders may spend together; a render that has begun is paid for, and the next one refused."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def require(self) -> None:
        """Refuse another render where nothing is left.

        Raises:
            TemplateRunaway: Nothing is.
        """
        if self.steps <= 0:
            raise runaway("it takes more steps in all its trials than any template should")

    def pay(self, budget: Budget) -> None:
        """Pay for what was spent of `budget`."""
        self.steps -= max(1, STEPS - budget.steps + (CHARACTERS - budget.characters >> 10))


def runaway(reason: str) -> TemplateRunaway:
    """Return the error that stops a template."""
    return TemplateRunaway(
        f"the chat template was stopped: {reason}.",
        remedy="Look at it before you use this model: no ordinary template gets near the bounds.",
        reason=reason,
    )


def measure(value: object, budget: Budget | None = None) -> int:
    """Return about how many characters `value` has when it is written out, each item `ITEM` more.

    Raises:
        TemplateRunaway: `budget` has less than that, or it is nested deeper than `NESTING`.
    """
    size, level = 0, [value]
    for _ in range(NESTING):
        below: list[object] = []
        for item in level:
            size += len(item) if type(item) is str else _shallow(item, below)
            if budget is not None and size > budget.characters:
                budget.spend(size)
                budget.characters += size
        if not below:
            return size
        level = below
    raise runaway(f"a value is nested deeper than {NESTING}")


def require_text(value: object) -> None:
    """Refuse to write out anything but texts, numbers, truth values, None, and lists and dicts of them.

    Other objects are written with their address, which is another in every process. What is nested deeper than
    `NESTING` is refused elsewhere.

    Raises:
        jinja2.exceptions.SecurityError: There is such an object in it.
    """
    level = [value]
    for _ in range(NESTING):
        below: list[object] = []
        for item in level:
            if type(item) is dict:
                below += [*item, *item.values()]
            elif isinstance(item, list | tuple | KeysView | ValuesView | ItemsView):
                below += item
            elif not isinstance(item, _TEXTS):
                raise SecurityError(f"it writes out an object of type {type(item).__name__}")
        if not below:
            return
        level = below


_TEXTS = (str, bytes, int, float, NoneType, range, Undefined)


def _shallow(value: Any, below: list[object]) -> int:
    """Return the size of `value` without its items, which are added to `below`."""
    kind = type(value)
    if kind is dict:
        below += value
        below += value.values()
    elif isinstance(value, list | tuple):
        below += value
    elif isinstance(value, str | bytes):
        return len(value)
    elif isinstance(value, int):
        return 4 + value.bit_length()
    elif kind in (float, NoneType):
        return ITEM
    elif isinstance(value, Namespace):
        return _shallow(value._Namespace__attrs, below)  # its repr writes them out
    elif isinstance(value, Mapping):
        return _shallow(dict(value), below)
    elif isinstance(value, Set | KeysView | ValuesView | ItemsView):
        below += value
    elif kind is not range:
        return ITEM
    return ITEM * len(value)
