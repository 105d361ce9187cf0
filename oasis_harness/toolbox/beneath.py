"""Open what is beneath a folder, one step at a time, so that no symlink can lead elsewhere.

A path that was checked and is then opened by its name may lead elsewhere meanwhile: a folder on the way was swapped for
a symlink. Here each step is opened from the one before it (`openat` with `O_NOFOLLOW`), as in Go's `os.Root` and in
Linux's `openat2` with `RESOLVE_BENEATH`. A symlink is an error, wherever it stands.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["folder_beneath", "open_beneath", "open_root", "opened", "read_beneath"]

_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""A folder to step through: where there is O_PATH, it need not be readable, as with a path."""


@contextmanager
def opened(descriptor: int) -> Iterator[int]:
    """Close `descriptor` at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_root(path: Path) -> int:
    """Open the folder that everything is beneath; the caller closes it.

    Raises:
        OSError: It is missing, no folder, or a symlink.
    """
    return os.open(path, _FOLDER | os.O_NOFOLLOW)


def folder_beneath(root: int, parts: Sequence[str], *, makes: bool = False) -> int:
    """Open the folder that `parts` name beneath the open folder `root`; the caller closes it.

    With `makes`, what is missing is made. The descriptor is to open from, and not to list.

    Raises:
        OSError: A part is missing, no folder, a symlink, or no name at all.
    """
    folder = os.dup(root)
    for part in parts:
        with opened(folder):
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(_name(part), dir_fd=folder)
            folder = os.open(_name(part), _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    return folder


def open_beneath(root: int, parts: Sequence[str], flags: int, mode: int = 0o666) -> int:
    """Open the file that `parts` name beneath the open folder `root`; the caller closes it.

    Raises:
        OSError: A part is missing, a symlink, or no name at all.
    """
    with opened(folder_beneath(root, parts[:-1])) as folder:
        return os.open(_name(parts[-1]), flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def read_beneath(root: int, parts: Sequence[str], max_bytes: int) -> bytes | None:
    """Read a regular file; None where it is no regular file or has more than `max_bytes`.

    Raises:
        OSError: It cannot be opened or read.
    """
    with opened(open_beneath(root, parts, os.O_RDONLY | os.O_NONBLOCK)) as descriptor:  # a pipe would block
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    return data if len(data) <= max_bytes else None


def _name(part: str) -> str:
    """Return `part` where it names something in its folder, and not the folder above or a path."""
    if part in ("", ".", "..") or "/" in part:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return part
