"""The workspace: one folder, and the paths that stay inside it.

What the model sees of a path is relative to the workspace, with forward slashes: an absolute path would put the
machine into the conversation. A path is resolved once, symlinks followed, and checked; what it led to is then opened
step by step without following any (`beneath`), so that no symlink that is put there meanwhile leads out.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oasis_harness.registry import ToolRefused

from .beneath import folder_beneath, open_root, opened, read_beneath
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
        self.require(target)
        return target

    def require(self, target: Path) -> None:
        """Refuse a `target` that does not exist, and say where to look.

        Raises:
            ToolRefused: It does not exist.
        """
        with self.refusing(target):
            if not target.exists():
                parents = target.relative_to(self.root).parents
                folder = next((parent.as_posix() for parent in parents if (self.root / parent).is_dir()), ".")
                hint = f'list_dir(path="{printable(folder)}") shows what there is.'
                raise ToolRefused(f"There is no {self.shown(target)}. {hint}")

    @contextmanager
    def folder(self, target: Path, *, makes: bool = False) -> Iterator[int]:
        """Open the folder `target` step by step from the root, so that a symlink put there meanwhile is refused.

        With `makes`, what is missing is made. The descriptor is to open from, and not to list.

        Raises:
            OSError: A step is missing, no folder or a symlink.
        """
        with (
            opened(open_root(self.root)) as root,
            opened(folder_beneath(root, target.relative_to(self.root).parts, makes=makes)) as folder,
        ):
            yield folder

    @contextmanager
    def folder_of(self, target: Path, *, makes: bool = False) -> Iterator[int]:
        """Open the folder that `target` is in, as `folder` does, and refuse what the system refuses in the block.

        Raises:
            ToolRefused: It cannot be opened, or `target` is the workspace itself.
        """
        if target == self.root:
            raise ToolRefused('. is a folder. Use list_dir(path=".").')
        with self.refusing(target), self.folder(target.parent, makes=makes) as folder:
            yield folder

    def read_bytes(self, path: str) -> tuple[Path, bytes]:
        """Read a text file of at most MAX_FILE_BYTES.

        Raises:
            ToolRefused: It is missing, a folder, a device, binary or too large.
        """
        target = self.existing(path)
        with self.folder_of(target) as folder:
            return target, self.read_in(folder, target)

    def read_in(self, folder: int, target: Path) -> bytes:
        """Read the file `target` from its open folder, as `read_bytes` does.

        Raises:
            OSError: It cannot be read.
            ToolRefused: It is a folder, a device, binary or too large.
        """
        name = self.shown(target)
        found = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            raise ToolRefused(f'{name} is a folder. Use list_dir(path="{name}").')
        if not stat.S_ISREG(found.st_mode):
            raise ToolRefused(f"{name} is not a regular file.")
        if found.st_size > MAX_FILE_BYTES:
            remedy = "Use search, or shell with sed or head."
            raise ToolRefused(f"{name} has {found.st_size} bytes, too many to read. {remedy}")
        data = read_beneath(folder, [target.name], MAX_FILE_BYTES)
        if data is None:
            raise ToolRefused(f"{name} changed while it was read. Read it again.")
        if b"\0" in data:
            raise ToolRefused(f"{name} is a binary file of {len(data)} bytes. Use shell to look into it.")
        return data

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
