"""Search the files of a workspace for a regular expression, in bounded time.

Files come in the byte order of their paths, so that two machines list the same matches in the same order. Symlinks,
binary files, oversized files, files that may not be read, and the folders of version control and caches are passed
over. The work is done by a process that can be killed (`searching`); what it found until then is kept:

    src/a.py:3: needle
    [time ran out after 10 s in src/huge.js; files before it: 41. Narrow the pattern or the path]
"""

import json
import os
import selectors
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from oasis_harness.registry import ToolRefused

from .process import running
from .searching import raw_name
from .workspace import Workspace, printable

__all__ = ["SearchTools"]

_MAX_MATCHES = 200


@dataclass(frozen=True, slots=True)
class SearchTools:
    """The search tool of one workspace; its docstring is what the model reads."""

    workspace: Workspace
    time_s: float = 10.0
    """How long one search may take, in seconds."""

    def search(self, pattern: str, path: str = ".", limit: int = 50) -> str:
        """Search files for a regular expression; gives file:line: text.

        Args:
            pattern: Python regular expression.
            path: File or folder to search.
            limit: Most matches.
        """
        target = self.workspace.existing(path)
        limit = min(max(limit, 1), _MAX_MATCHES)
        request = self._request(target, pattern, limit)
        found = _Found()
        try:
            for kind, value in _answers(request, time.monotonic() + self.time_s):
                found.take(kind, value)
        except OSError as error:
            raise ToolRefused(f"The search could not be started: {error.strerror}.") from None
        if found.refusal:
            remedy = r"To find . * + ? ( ) [ { | \ literally, put a backslash before each."
            raise ToolRefused(f"{pattern!r} is not a regular expression: {found.refusal}. {remedy}")
        return found.text(limit, self.time_s)

    def _request(self, target: Path, pattern: str, limit: int) -> bytes:
        parts = [raw_name(part) for part in target.relative_to(self.workspace.root).parts]
        root = raw_name(str(self.workspace.root))
        request = {"root": root, "parts": parts, "pattern": pattern, "limit": limit, "time_s": self.time_s}
        return json.dumps(request).encode()


def _answers(request: bytes, deadline: float) -> Iterator[tuple[str, str | int]]:
    """Yield what the searching process says; at the deadline `("late", 0)`, and the process is killed."""
    waiting = b""
    with running("searching", request) as process, selectors.DefaultSelector() as selector:
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        while (remaining := deadline - time.monotonic()) > 0:
            if not selector.select(remaining):
                continue
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                return
            *lines, waiting = (waiting + chunk).split(b"\n")
            yield from map(json.loads, lines)
    yield "late", 0


@dataclass(slots=True)
class _Found:
    """What the searching process has said so far."""

    matches: list[str] = field(default_factory=list)
    n_files: int = 0
    """Files begun, the last one included."""
    file: str = ""
    """The name of the last file begun, for the model."""
    refusal: str = ""
    is_late: bool = False
    n_too_deep: int | None = None
    """Folders not walked; None before the search came to its end."""

    def take(self, kind: str, value: str | int) -> None:
        match kind, value:
            case "file", str(name):
                self.n_files += 1
                self.file = printable(os.fsdecode(name.encode("latin-1")))
            case "match", str(line):
                self.matches.append(f"{self.file}:{line}")
            case "refused", str(why):
                self.refusal = why
            case "end", int(number):
                self.n_too_deep = number
            case _:
                self.is_late = True

    def text(self, limit: int, time_s: float) -> str:
        """Return the result as the model reads it."""
        if len(self.matches) > limit:
            hint = "narrow the pattern or the path to see others"
            return "\n".join([*self.matches[:limit], f"[first {limit} matches; {hint}]"])
        if self.n_too_deep is None:
            why = f"time ran out after {time_s:g} s" if self.is_late else "the search broke off"
            place = f" in {self.file}" if self.file else ""
            remedy = "Narrow the pattern or the path"
            return "\n".join([*self.matches, f"[{why}{place}; files before it: {max(self.n_files - 1, 0)}. {remedy}]"])
        lines = self.matches or [f"[no match in {self.n_files} files]"]
        passed_over = [f"[folders too deep to search: {self.n_too_deep}]"] if self.n_too_deep else []
        return "\n".join([*lines, *passed_over])
