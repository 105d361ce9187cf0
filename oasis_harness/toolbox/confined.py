"""What a command may touch: it writes in the workspace and the temp folder only, and has no network unless allowed.

Two mechanisms, the first that works is taken: bubblewrap (`bwrap`), in which the rest of the disk is read-only, other
processes are not to be seen and there is no network at all; Landlock, with what `landlock` says it does not cover. A
command that fails in them says so itself:

    touch: cannot touch '/etc/x': Read-only file system
    [exit code 1]

What both leave open: reading whatever the user may read, and sockets that are files, such as Docker's.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .landlock import landlock_version
from .protected import VERSION_CONTROL, gitfile_target

__all__ = ["Confinement", "Sandbox", "sandbox_here"]

_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"))
"""What Landlock has to allow by name; bubblewrap makes devices of its own."""
_TRIAL_S = 20


class Sandbox(StrEnum):
    """What confines the commands of the shell tool."""

    AUTO = "auto"
    """Bubblewrap, else Landlock, else nothing, and the first result says so."""
    BUBBLEWRAP = "bubblewrap"
    """This one; where it does not work, no command is run."""
    LANDLOCK = "landlock"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where commands may write, and whether they have a network."""

    root: Path
    """The workspace; its `.git`, `.hg` and `.svn` are read-only where the mechanism can except it."""
    read_only: tuple[Path, ...] = ()
    """More that is read-only where the mechanism can except it."""
    has_network: bool = False

    def writable(self) -> list[str]:
        return [str(Path(tempfile.gettempdir()).resolve()), str(self.root)]

    def _excepted(self) -> list[str]:
        """Return what is read-only within a folder that is not: of version control at the top, and what a caller names.

        A command may have made `.git` a symlink to `/`: to bind that would undo all that was bound before.
        """
        named = [self.root / name for name in VERSION_CONTROL] + list(self.read_only)
        if (folder := gitfile_target(self.root)) is not None:
            named.append(folder)
        places = {place.resolve() for place in named if place.exists()}
        writable = set(map(Path, self.writable()))
        return sorted(str(place) for place in places if place not in writable and writable & set(place.parents))

    def bubblewrap_words(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs `words` in bubblewrap."""
        binds = [word for place in self.writable() for word in ("--bind", place, place)]
        binds += [word for place in self._excepted() for word in ("--ro-bind", place, place)]
        network = [] if self.has_network else ["--unshare-net"]
        alone = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--as-pid-1", *_capabilities(), *network]
        system = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        return [_bubblewrap(self.root) or "bwrap", *alone, *system, *binds, "--chdir", "/", "--", *words]

    def landlock_request(self) -> dict[str, object]:
        """Return what a supervisor needs to know to confine a command by Landlock."""
        return {"writable": [*self.writable(), *_DEVICES], "has_network": self.has_network}


def sandbox_here(wish: Sandbox, confinement: Confinement) -> Sandbox | None:
    """Return what confines commands here, `OFF` where nothing does; None where what is wished does not work."""
    candidates = (Sandbox.BUBBLEWRAP, Sandbox.LANDLOCK) if wish is Sandbox.AUTO else (wish,)
    fallback = Sandbox.OFF if wish is Sandbox.AUTO else None
    return next((candidate for candidate in candidates if _works(candidate, confinement)), fallback)


def _works(sandbox: Sandbox, confinement: Confinement) -> bool:
    if sandbox is Sandbox.BUBBLEWRAP:
        return bool(_bubblewrap(confinement.root)) and _runs(confinement)
    return sandbox is Sandbox.OFF or landlock_version() > 0


def _bubblewrap(root: Path) -> str | None:
    """Find the program on PATH, but none that a model may have put into the workspace."""
    found = shutil.which("bwrap")
    return found if found and Path(found).is_absolute() and not Path(found).resolve().is_relative_to(root) else None


@functools.cache  # containers often lack the rights it needs; what it may do does not change while we run
def _runs(confinement: Confinement) -> bool:
    try:
        command = confinement.bubblewrap_words(["/bin/sh", "-c", "exit 7"])
        done = subprocess.run(command, cwd="/", env={}, capture_output=True, timeout=_TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 7


def _capabilities() -> list[str]:
    """Take from root what would let it undo the confinement, and leave it the files of others."""
    if os.geteuid():
        return []
    kept = ["--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_CHOWN", "--cap-add", "CAP_FOWNER"]
    return ["--cap-drop", "ALL", *kept]
