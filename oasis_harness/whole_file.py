"""Put a file in place whole: no reader, no crash and no second writer ever sees half of it.

Written beside its target under a name of its own, flushed to the disk, then renamed over it, which POSIX does in one
step. What stood there before stays until then, and passes on its permissions, its owner and its extended attributes,
as far as the system lets it.
"""

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]

_NOT_PASSED_ON = "security.capability"
"""Rights of a program: the system takes them from a file that is written to, and so does this."""


def write_whole(path: Path, parts: Iterable[bytes], *, mode: int | None = None, folder: int | None = None) -> None:
    """Write `parts` as the whole content of `path`; without `mode` it keeps the permissions it had, or gets usual ones.

    With `folder`, the descriptor of an open folder, `path` is a name in that folder, wherever the folder is moved to.

    Raises:
        OSError: The folder is missing, full or may not be written; the old content stays.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(part, flags, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.writelines(parts)
            opened.flush()
            if mode is None:
                _pass_on(path, folder, file)
            os.fsync(file)
        os.replace(part, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise


def _pass_on(path: Path, folder: int | None, file: int) -> None:
    """Give the open `file` the owner, attributes and permissions of `path`, where that exists."""
    try:
        old = os.stat(path, dir_fd=folder)
    except FileNotFoundError:
        return
    with suppress(PermissionError):
        os.fchown(file, -1, old.st_gid)
    with suppress(PermissionError):
        os.fchown(file, old.st_uid, -1)
    with suppress(OSError):
        _copy_attributes(path, folder, file)
    new = os.fstat(file)
    is_kept = (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode) if is_kept else old.st_mode & 0o777)  # no set-user-id of another user


def _copy_attributes(path: Path, folder: int | None, file: int) -> None:
    """Copy the extended attributes that may be copied; Python knows them on Linux only."""
    if not hasattr(os, "listxattr"):
        return
    source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        for name in os.listxattr(source):
            if name != _NOT_PASSED_ON:
                with suppress(OSError):
                    os.setxattr(file, name, os.getxattr(source, name))
    finally:
        os.close(source)
