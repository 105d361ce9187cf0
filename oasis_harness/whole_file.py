"""Put a file in place whole: no reader, no crash and no second writer ever sees half of it; and read one whole.

Written beside its target under a name of its own, flushed to the disk, then renamed over it, which POSIX does in one
step. What stood there before stays until then, and passes on its permissions, its owner and its extended attributes,
as far as the system lets it. What others lay down is read only where it is a file of a bearable size: a pipe would be
waited for, and a device has no end.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["read_whole", "write_whole"]


def read_whole(path: Path, *, n_most_bytes: int) -> bytes:
    """Return the content of `path`. Never waits for a writer.

    Raises:
        OSError: It cannot be read, is no regular file, or has more than `n_most_bytes`; `strerror` says which.
    """
    _require_regular(path.stat().st_mode, path)  # before it is opened: that alone can move a device
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        _require_regular(os.fstat(file).st_mode, path)
        data = opened.read(n_most_bytes + 1) if os.fstat(file).st_size <= n_most_bytes else None
    if data is None or len(data) > n_most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {n_most_bytes:,} bytes", str(path))
    return data


def _require_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


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
