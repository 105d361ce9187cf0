"""Put a file in place whole: no reader, no crash and no second writer ever sees half of it; and read one whole.

Written beside its target under a name of its own, flushed to the disk, then renamed over it, which POSIX does in one
step. What stood there before stays until then. What others lay down is read only where it is a file of a bearable size:
a pipe would be waited for, and a device has no end.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterable
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


def write_whole(path: Path, parts: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write `parts` as the whole content of `path`; without `mode` it keeps the permissions it had, or gets usual ones.

    Raises:
        OSError: The folder is missing, full or may not be written; the old content stays.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.writelines(parts)
            opened.flush()
            os.fsync(file)
        if mode is None and path.exists():
            part.chmod(path.stat().st_mode & 0o7777)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
