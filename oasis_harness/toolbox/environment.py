"""Which variables of the environment reach a command: those that programs need, and none that hold keys.

A list of what may pass, not of what may not: nobody knows the names of all secrets. With `OPENAI_API_KEY`, `PATH`,
`LC_ALL` and `HOME` set, a command sees `PATH`, `LC_ALL` and `HOME`.
"""

from collections.abc import Iterable, Mapping

__all__ = ["PASSED_NAMES", "passed_environment"]

PASSED_NAMES = frozenset({"PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL", "VIRTUAL_ENV"})
"""Beside these, every name that begins with `LC_`."""


def passed_environment(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return what of `environment` a command may see: the usual names, and `more`."""
    names = PASSED_NAMES.union(more)
    return {name: value for name, value in environment.items() if name in names or name.startswith("LC_")}
