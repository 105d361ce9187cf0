"""The workspace: one folder, and the paths that stay inside it.

What the model sees of a path is relative to the workspace, with forward slashes: an absolute path would put the
machine into the conversation. This is a guard against mistakes of a model, not against a hostile process that swaps
a symlink between check and use.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oasis_harness.registry import ToolRefused

from .protected import protecting
from .searching import MAX_FILE_BYTES

__all__ = ["MAX_FILE_BYTES", "Workspace", "printable", "shortened"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that the tools work in."""

    root: Path
    """Absolute, without symlinks; it is never shown to the model."""
    protected: tuple[Path, ...] = ()
    """Files and folders, existing or not, that the tools do not write: what the harness keeps for itself."""

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise NotADirectoryError(f"The workspace {self.root} is not a folder. Create it or name another.")
        object.__setattr__(self, "root", self.root.resolve())
        object.__setattr__(self, "protected", tuple(path.resolve() for path in self.protected))

    def resolve(self, path: str) -> Path:
        """Return where `path` leads, symlinks followed; it need not exist.

        Raises:
            ToolRefused: It leads out of the workspace, or is no path at all.
        """
        try:
            target = (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of symlinks, a NUL, a lone surrogate
            raise ToolRefused(f"{path!r} is not a usable path. Send one like src/main.py.") from None
        if not target.is_relative_to(self.root):
            raise ToolRefused(f"{path!r} is outside the workspace. Send a path relative to it, like src/main.py.")
        return target

    def writable(self, path: str) -> Path:
        """Return where `path` leads, to what may be written or created; every tool that writes asks here.

        Raises:
            ToolRefused: It leads out of the workspace, is protected (see `protected`), or has a second name, which may
                lie anywhere.
        """
        target = self.resolve(path)
        if why := protecting(self.root, target, self.protected):
            raise ToolRefused(f"{self.shown(target)} is not written: {why}. Write another file.")
        with self.refusing(target), suppress(FileNotFoundError, NotADirectoryError):
            if target.is_file() and target.stat().st_nlink > 1:
                remedy = "Write a new file with write_file instead."
                raise ToolRefused(f"{self.shown(target)} is a hard link, its other names may be anywhere. {remedy}")
        return target

    def shown(self, target: Path) -> str:
        """Return the name of `target` for the model."""
        return printable(target.relative_to(self.root).as_posix())

    def existing(self, path: str) -> Path:
        """Return where `path` leads, to something that exists.

        Raises:
            ToolRefused: It does not exist or leads out of the workspace.
        """
        target = self.resolve(path)
        with self.refusing(target):
            if not target.exists():
                parents = target.relative_to(self.root).parents
                folder = next((parent.as_posix() for parent in parents if (self.root / parent).is_dir()), ".")
                hint = f'list_dir(path="{printable(folder)}") shows what there is.'
                raise ToolRefused(f"There is no {self.shown(target)}. {hint}")
        return target

    def read_bytes(self, path: str) -> tuple[Path, bytes]:
        """Read a text file of at most MAX_FILE_BYTES.

        Raises:
            ToolRefused: It is missing, a folder, a device, binary or too large.
        """
        target = self.existing(path)
        name = self.shown(target)
        with self.refusing(target):
            if target.is_dir():
                raise ToolRefused(f'{name} is a folder. Use list_dir(path="{name}").')
            if not target.is_file():
                raise ToolRefused(f"{name} is not a regular file.")
            if (n_bytes := target.stat().st_size) > MAX_FILE_BYTES:
                raise ToolRefused(
                    f"{name} has {n_bytes} bytes, too many to read. Use search, or shell with sed or head."
                )
            data = target.read_bytes()
        if b"\0" in data:
            raise ToolRefused(f"{name} is a binary file of {len(data)} bytes. Use shell to look into it.")
        return target, data

    @contextmanager
    def refusing(self, target: Path) -> Iterator[None]:
        """Turn an OSError, whose text holds an absolute path, into a ToolRefused that does not."""
        try:
            yield
        except OSError as error:
            raise ToolRefused(f"{self.shown(target)}: {error.strerror or 'cannot be used'}.") from None


def printable(name: str) -> str:
    """Escape in a file name, visibly, what is not text and what would break the line."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def shortened(line: str, n_characters: int) -> str:
    """Cut a long line, and say how much is missing."""
    missing = len(line) - n_characters
    return line if missing <= 0 else f"{line[:n_characters]}… [{missing} more characters]"
