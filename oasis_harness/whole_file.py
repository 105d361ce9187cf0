"""Put a file in place whole: no reader, no crash and no second writer ever sees half of it.

Written beside its target under a name of its own, flushed to the disk, then renamed over it, which POSIX does in one
step. What stood there before stays until then.
"""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_whole"]


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
