"""A file of lines that only grows, each line chained to the one before it: locked, appended whole or not at all.

    link("", b'{"n":1}')                   'sha256:f2c1…'    the first line of a chain
    link("sha256:f2c1…", b'{"n":2}')       'sha256:88d0…'    says also which line it follows

What the conversation file and the ledger of the guard have in common. What a line says, and how a fault in one is
explained, is theirs. The digests are a hash chain, no signature: whoever rewrites every line is not seen by it.
"""

import fcntl
import os
from pathlib import Path

from oasis_harness.canonical import digest

__all__ = ["append_bytes", "link", "open_locked", "whole_lines"]


def link(previous: str, body: bytes) -> str:
    """Return the digest of a line that says `body` after the line of digest `previous` (empty for the first)."""
    return digest(previous.encode(), body)


def open_locked(path: Path, flags: int, *, mode: int, waits: bool) -> int:
    """Open `path` and take its exclusive lock (flock), which the file's close releases; return the descriptor.

    Raises:
        BlockingIOError: Another open file holds the lock, and this call does not wait.
        OSError: The file cannot be opened, or its file system knows no locks.
    """
    file = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(file)
        raise
    return file


def append_bytes(file: int, data: bytes, *, is_synced: bool = False) -> None:
    """Append all of `data`, or, after a full disk or an interrupt, none of it; with `is_synced` to the disk itself.

    Raises:
        OSError: The disk is full or gone; the file is as it was.
    """
    n_before = os.fstat(file).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(file, view) :]
        if is_synced:
            os.fsync(file)
    except BaseException:  # an interrupt too: what the caller was not told of must not stay
        os.ftruncate(file, n_before)
        raise


def whole_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines that were written to their end, without their line feeds, and the rest, which was not."""
    *lines, rest = data.split(b"\n")
    return lines, rest
