r"""The line of `.gitattributes` that keeps a checkout from changing the line ends of what is recorded.

    fixtures/** -text           in the project's root, added where it is missing
    ** -text                    in the folder itself, where it lies elsewhere or git would read its name as a pattern

A recorded prompt is bytes; with core.autocrlf git would write \r\n into it on some machines.
"""

import os
import re
from pathlib import Path

from oasis_harness.chain import append_bytes, open_locked

__all__ = ["keep_line_ends"]

_PLAIN = re.compile(r"[\w./-]+", re.ASCII)


def keep_line_ends(fixtures: Path, root: Path) -> None:
    """Add the line for `fixtures` to the `.gitattributes` of `root`, unless it is there.

    Raises:
        OSError: The file cannot be written.
    """
    folder, place = fixtures.resolve(), root.resolve()
    name = folder.relative_to(place).as_posix() if folder.is_relative_to(place) else ""
    if not _PLAIN.fullmatch(name) or name == ".":
        place, name = folder, ""
    line = f"{name}/** -text".removeprefix("/").encode()
    file = open_locked(place / ".gitattributes", os.O_RDWR | os.O_CREAT | os.O_APPEND, mode=0o666, waits=True)
    try:
        held = (place / ".gitattributes").read_bytes()
        if line not in held.splitlines():
            append_bytes(file, (b"" if held[-1:] in (b"", b"\n") else b"\n") + line + b"\n")
    finally:
        os.close(file)
