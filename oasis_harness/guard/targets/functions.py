"""What a prompt is taken of, named on a command line: `module:function` or `path/to/file.py:function`."""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeGuard

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
    """Return the prompt of a session, an agent, a conversation, a head or a body, or of (system, tools, skills).

    Tools may be a list of JSON objects, as they go to an API.

    Raises:
        TypeError: `value` is none of them.
    """
    from oasis_harness.registry import Skills, Tools

    from .subjects import Subject

    parts = value if isinstance(value, tuple) or _is_head(value) else (value,)
    if not all(isinstance(part, str | Tools | Skills | list) for part in parts):
        return Subject.of(value)
    system, tools, skills = (
        next((part for part in parts if isinstance(part, kind)), None) for kind in (str, Tools | list, Skills)
    )
    return Subject.of_head(str(system or ""), tools, skills, {})  # type: ignore[arg-type]  # sorted by type above


def _is_head(value: object) -> TypeGuard[list[object]]:
    """Say whether a list holds the parts of a head rather than tools."""
    return isinstance(value, list) and not all(isinstance(part, Mapping) for part in value)
