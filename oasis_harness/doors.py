"""A door whose rooms are entered only when a name behind it is first used.

    __all__, __getattr__, __dir__ = lazy_door(__name__, {"Session": ".session", "Turn": ".turn"})

What is heavy behind a door costs nothing until then. A module must not bear the name of what it holds: the import
system would put the module in the place of the function. Source of the idea: PEP 562.
"""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:  # `python -m oasis_harness` runs this file while its first path is the folder it was started in
    from collections.abc import Callable, Mapping

__all__ = ["lazy_door"]


def lazy_door(
    package: str, homes: "Mapping[str, str]"
) -> "tuple[list[str], Callable[[str], object], Callable[[], list[str]]]":
    """Return `__all__`, `__getattr__` and `__dir__` of `package`; `homes` says in which module each name lives."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return list(homes), find, names
