"""What a prompt is taken of, named on a command line: `module:function` or `path/to/file.py:function`."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .subjects import Subject

__all__ = ["call_target", "load_target", "subject_of"]


def load_target(target: str) -> Callable[..., object]:
    """Return the function that `target` names; the folder of a file becomes the first that modules are looked for in.

    Raises:
        TypeError: It is no function.
        ImportError, AttributeError: There is none; also whatever the module raises when it is loaded.
    """
    place, _, name = target.rpartition(":")
    if not place.endswith(".py"):
        function = getattr(import_module(place), name)
    else:
        folder, file = os.path.split(os.path.abspath(place))  # noqa: PTH100 - pathlib costs every child its import
        sys.path.insert(0, folder)
        function = getattr(import_module(file.removesuffix(".py")), name)
    if not callable(function):
        raise TypeError(f"{target} is {function!r}. Name a function without arguments.")
    return function  # type: ignore[no-any-return]  # an attribute of a module that is not known here


def call_target(target: str) -> object:
    """Load the function and return what it returns; it is called without arguments.

    Raises:
        ValueError: `target` has no colon.
    """
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise ValueError(f"The target is {target!r}. Write module:function or path/to/file.py:function.")
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109 - as above
        sys.path.insert(0, here)
    return load_target(target)()


def subject_of(value: object) -> "Subject":
    """Return the prompt of a session, an agent, a conversation or a head, or of (system, tools, skills).

    Raises:
        TypeError: `value` is none of them.
    """
    from oasis_harness.registry import Skills, Tools

    from .subjects import Subject

    parts = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(part, str | Tools | Skills) for part in parts):
        return Subject.of(value)
    system, tools, skills = (
        next((part for part in parts if isinstance(part, kind)), None) for kind in (str, Tools, Skills)
    )
    return Subject.of_head(str(system or ""), tools, skills, {})  # type: ignore[arg-type]  # sorted by type above
