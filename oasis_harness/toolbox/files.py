"""Read, list, write and edit files of a workspace.

What a small model needs decides the form: plain text without line numbers (it would copy them into an edit), a last
line that says what was left out and how to get it, and refusals that show the call to send instead.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oasis_harness.registry import ToolRefused
from oasis_harness.whole_file import write_whole

from .beneath import opened
from .edit import edit_bytes
from .workspace import Workspace, printable, shortened

__all__ = ["FileTools"]

_MAX_LINE = 500
_MAX_CHARACTERS = 16_000
_MAX_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class FileTools:
    """The file tools of one workspace; their docstrings are what the model reads."""

    workspace: Workspace

    def read_file(self, path: str, offset: int = 1, limit: int = 200) -> str:
        """Read lines of a text file.

        Args:
            path: Relative to the workspace.
            offset: First line, from 1.
            limit: Most lines to read.
        """
        target, data = self.workspace.read_bytes(path)
        lines = data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n").removesuffix("\n").split("\n")
        if lines == [""]:
            return "[empty file]"
        first = max(offset, 1)
        if first > len(lines):
            raise ToolRefused(f"{self.workspace.shown(target)} ends at line {len(lines)}, before line {first}.")
        kept = _bounded(lines[first - 1 : first - 1 + max(limit, 1)])
        last = first - 1 + len(kept)
        if len(kept) == len(lines):
            return "\n".join(kept)
        hint = "" if last == len(lines) else f", continue with offset={last + 1}"
        return "\n".join([*kept, f"[lines {first}-{last} of {len(lines)}{hint}]"])

    def list_dir(self, path: str = ".") -> str:
        """List a folder; names of folders end with a slash."""
        target = self.workspace.existing(path)
        shown = self.workspace.shown(target)
        if not target.is_dir():
            raise ToolRefused(f'{shown} is a file. Use read_file(path="{shown}").')
        with self.workspace.refusing(target), self.workspace.folder(target) as folder:
            found = _entries(folder)
        names = [printable(os.fsdecode(name)) + "/" * is_folder for name, is_folder in found]
        if len(names) > _MAX_ENTRIES:
            names[_MAX_ENTRIES:] = [f"[{_MAX_ENTRIES} of {len(names)} entries; use search or shell for the others]"]
        return "\n".join(names) or "[empty folder]"

    def write_file(self, path: str, content: str) -> str:
        """Create a new file. To change an existing one use edit_file."""
        target = self.workspace.writable(path)
        shown = self.workspace.shown(target)
        with self.workspace.refusing(target):
            if target.exists():
                call = f'edit_file(path="{shown}", old="text to replace", new="text to put there")'
                raise ToolRefused(f"{shown} exists already and was left as it is. To change it use {call}.")
        with self.workspace.folder_of(target, makes=True) as folder:
            _create(folder, target.name, content.encode("utf-8"))
        return f"Created {shown}, {content.count(chr(10)) + (content[-1:] not in ('', chr(10)))} lines."

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace text in a file.

        Args:
            path: Relative to the workspace.
            old: Text to replace, exactly as in the file; it must occur once.
            new: Text to put there.
        """
        target = self.workspace.writable(path)
        self.workspace.require(target)
        with self.workspace.folder_of(target) as folder:
            data = self.workspace.read_in(folder, target)
            edited, message = edit_bytes(data, old, new, shown=self.workspace.shown(target))
            if not os.access(target.name, os.W_OK, dir_fd=folder):
                raise ToolRefused(f"{self.workspace.shown(target)} is read-only.")
            write_whole(Path(target.name), [edited], folder=folder)
        return message


def _entries(folder: int) -> list[tuple[bytes, bool]]:
    """Return the names in an open folder in byte order, and whether each is a folder itself."""
    with opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)) as listed, os.scandir(listed) as entries:
        return sorted((os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries)


def _bounded(lines: list[str]) -> list[str]:
    """Cut long lines, then stop before the line that would go over _MAX_CHARACTERS."""
    kept: list[str] = []
    n_characters = 0
    for line in lines:
        short = shortened(line, _MAX_LINE)
        n_characters += len(short) + 1
        if n_characters > _MAX_CHARACTERS:
            break
        kept.append(short)
    return kept


def _create(folder: int, name: str, data: bytes) -> None:
    """Write a file that must not exist yet; leave nothing behind when that fails half way."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        raise
