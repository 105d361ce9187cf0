"""Search the files of a workspace for a regular expression.

Files come in the byte order of their paths, so that two machines list the same matches in the same order. Symlinks,
binary files, oversized files, files that may not be read, and the folders of version control and caches are passed
over.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oasis_harness.registry import ToolRefused

from .workspace import MAX_FILE_BYTES, Workspace

__all__ = ["SearchTools"]

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".venv", "venv", "node_modules", "__pycache__"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"}
)
_MAX_MATCHES = 200
_MAX_LINE = 200
_BEFORE = 80
"""Characters of a long line shown before the match."""

_WINDOW, _OVERLAP = 2_000, 500
"""Characters of a long line searched at once: `.*x` is quadratic, and a minified file is one line."""


@dataclass(frozen=True, slots=True)
class SearchTools:
    """The search tool of one workspace; its docstring is what the model reads."""

    workspace: Workspace

    def search(self, pattern: str, path: str = ".", limit: int = 50) -> str:
        """Search files for a regular expression; gives file:line: text.

        Args:
            pattern: Python regular expression.
            path: File or folder to search.
            limit: Most matches.
        """
        expression = _compiled(pattern)
        target = self.workspace.existing(path)
        limit = min(max(limit, 1), _MAX_MATCHES)
        matches: list[str] = []
        n_files = 0
        for file in _files(target):
            n_files += 1
            for line in _matches(expression, file):
                matches.append(f"{self.workspace.shown(file)}:{line}")
                if len(matches) > limit:
                    hint = "narrow the pattern or the path to see others"
                    return "\n".join([*matches[:limit], f"[first {limit} matches; {hint}]"])
        return "\n".join(matches) or f"[no match in {n_files} files]"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        remedy = r"To find . * + ? ( ) [ { | \ literally, put a backslash before each."
        raise ToolRefused(f"{pattern!r} is not a regular expression: {error}. {remedy}") from None


def _files(target: Path) -> Iterator[Path]:
    """Walk `target` in byte order; iterative, since a model may have nested folders beyond Python's recursion limit."""
    pending = [target]
    while pending:
        place = pending.pop()
        if not place.is_dir():
            yield place
            continue
        try:
            with os.scandir(place) as entries:
                inside = [entry for entry in entries if _is_searched(entry)]
        except OSError:
            continue
        inside.sort(key=lambda entry: os.fsencode(entry.name) + b"/" * entry.is_dir(), reverse=True)
        pending += [place / entry.name for entry in inside]


def _is_searched(entry: "os.DirEntry[str]") -> bool:
    if entry.is_dir(follow_symlinks=False):
        return entry.name not in _SKIPPED
    return entry.is_file(follow_symlinks=False)


def _matches(expression: re.Pattern[str], file: Path) -> Iterator[str]:
    """Yield `line number: text` for each line that matches."""
    try:
        if not file.is_file() or file.stat().st_size > MAX_FILE_BYTES:
            return
        data = file.read_bytes()
    except OSError:
        return
    if b"\0" in data:
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
