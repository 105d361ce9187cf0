"""The process that searches: it walks a folder, reads files and runs an expression that a model wrote.

Python's `re` takes exponential time for some expressions (`(a|a)*$`), and holds the interpreter meanwhile: no timeout
and no Ctrl-C comes through. So it runs here, where it can be killed. It imports the standard library alone, because
`process` starts it without this package. Request on stdin, answers on stdout, one JSON array a line:

    {"root": "/home/me/work", "parts": ["src"], "pattern": "def .*", "limit": 50, "time_s": 10}

    ["file", "src/a.py"]
    ["match", "12: def main():"]
    ["end", 0]

`["refused", "why"]` says that the pattern is no expression; `end` counts the folders that were too deep. Names are file
system bytes in Latin-1, since JSON has no bytes.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from .beneath import folder_beneath, open_root, opened, read_beneath

__all__ = ["MAX_FILE_BYTES", "main", "raw_name"]

MAX_FILE_BYTES = 10_000_000
"""Larger files are left to the shell: the tools here hold a file in memory."""

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".venv", "venv", "node_modules", "__pycache__"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"}
)
_MAX_DEPTH = 300
"""Folders within folders that are walked: each is opened from the top, so the cost grows with the depth."""
_MAX_LINE = 200
_BEFORE = 80
"""Characters of a long line shown before the match."""

_WINDOW, _OVERLAP = 2_000, 500
"""Characters of a long line searched at once: `.*x` is quadratic, and a minified file is one line."""


def main() -> None:
    """Answer the one request on stdin."""
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)  # end at once: no handler of Python runs inside an expression
    request = json.load(sys.stdin.buffer)
    signal.setitimer(signal.ITIMER_REAL, request["time_s"] + 1)  # where nobody is left to kill this process
    try:
        expression = re.compile(request["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        _answer("refused", str(error))
        return
    parts = tuple(os.fsdecode(part.encode("latin-1")) for part in request["parts"])
    with opened(open_root(Path(os.fsdecode(request["root"].encode("latin-1"))))) as root:
        _search(expression, root, parts, request["limit"])


def raw_name(name: str) -> str:
    """Return the bytes of a file name as JSON can carry them."""
    return os.fsencode(name).decode("latin-1")


def _answer(kind: str, value: str | int) -> None:
    os.write(1, json.dumps([kind, value]).encode() + b"\n")


def _search(expression: re.Pattern[str], root: int, parts: tuple[str, ...], limit: int) -> None:
    n_found, too_deep = 0, [0]
    for file in _files(root, parts, too_deep):
        _answer("file", raw_name("/".join(file)))
        for line in _matches(expression, root, file):
            _answer("match", line)
            n_found += 1
            if n_found > limit:
                return
    _answer("end", too_deep[0])


def _files(root: int, parts: tuple[str, ...], too_deep: list[int]) -> Iterator[tuple[str, ...]]:
    """Walk what `parts` name in byte order, or yield it where it is a file; count in `too_deep` what was not walked."""
    pending = [(parts, True)]
    while pending:
        place, may_be_folder = pending.pop()
        if not may_be_folder:
            yield place
            continue
        if len(place) - len(parts) > _MAX_DEPTH:
            too_deep[0] += 1
            continue
        try:
            with opened(folder_beneath(root, place)) as folder:
                inside = _inside(folder)
        except NotADirectoryError:
            yield place
            continue
        except OSError:
            continue
        pending += [((*place, name), is_folder) for name, is_folder in inside]


def _inside(folder: int) -> list[tuple[str, bool]]:
    """Return the names of an open folder that are searched, last first, and whether each is a folder."""
    with opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)) as listed, os.scandir(listed) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if _is_searched(entry)]
    return sorted(found, key=lambda item: os.fsencode(item[0]) + b"/" * item[1], reverse=True)


def _is_searched(entry: "os.DirEntry[str]") -> bool:
    if entry.is_dir(follow_symlinks=False):
        return entry.name not in _SKIPPED
    return entry.is_file(follow_symlinks=False)


def _matches(expression: re.Pattern[str], root: int, file: tuple[str, ...]) -> Iterator[str]:
    """Yield `line number: text` for each line that matches."""
    try:
        data = read_beneath(root, file, MAX_FILE_BYTES)
    except OSError:
        return
    if data is None or b"\0" in data:
        return
    for number, line in enumerate(data.decode("utf-8-sig", "backslashreplace").split("\n"), start=1):
        line = line.removesuffix("\r")
        if (match := _first_match(expression, line)) is not None:
            yield f"{number}: {_around(line, match.start())}"


def _first_match(expression: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Search a line; one longer than _WINDOW in overlapping windows, whose ends count as line ends."""
    for start in range(0, max(len(line) - _OVERLAP, 1), _WINDOW - _OVERLAP):
        if (match := expression.search(line, start, start + _WINDOW)) is not None:
            return match
    return None


def _around(line: str, place: int) -> str:
    """Cut a long line to the part around `place`."""
    if len(line) <= _MAX_LINE:
        return line
    start = min(max(place - _BEFORE, 0), len(line) - _MAX_LINE)
    stop = start + _MAX_LINE
    return "…" * (start > 0) + line[start:stop] + "…" * (stop < len(line))
