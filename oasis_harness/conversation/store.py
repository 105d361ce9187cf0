"""A conversation's file: JSON Lines, one event a line, written before anything is asked of an engine.

    {"digest":"sha256:…","body":{"event":{"kind":"user","text":"…"},"sent":"…","ids":[1,2,3],"seam":"special"}}

A line reaches the operating system in one write, so a killed process loses at most the line it was writing. Such a
torn last line is put aside in `<name>.torn` and reported; a line that is whole but wrong is refused by number. One
writer at a time: the file is locked (flock) while it is open. Only its owner can read it (mode 0600).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from oasis_harness.chain import append_bytes, open_locked, whole_lines
from oasis_harness.errors import BrokenChain, ConversationLocked, OutOfOrder
from oasis_harness.whole_file import write_whole

from .events import Body
from .log import Conversation
from .node import Node

__all__ = ["ConversationFile", "Recovery", "load", "save"]

_OPENING = b'{"digest":"sha256:'


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was done about a torn last line."""

    line: int
    """Number of the torn line, from 1."""
    n_bytes: int
    """Bytes that were put aside."""
    aside: Path
    """Where they lie now."""


class ConversationFile:
    """An open, locked conversation file; pass its `append` to a conversation as sink.

    Raises:
        ConversationLocked: It is open for writing elsewhere.
        BrokenChain: A line is damaged other than by a torn end.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.tip: Node | None = None
        """The last node written."""
        self.recovery: Recovery | None = None
        """What was done about a torn last line when the file was opened."""
        self._n_bytes = 0
        self._file = _open_locked(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, node: Node) -> None:
        """Write `node` as one line; on return the operating system has it.

        Raises:
            OutOfOrder: The node does not follow the last line.
            BrokenChain: Another program changed, replaced or deleted the file.
            OSError: The disk is full or gone; the file is cut back to its last whole line.
        """
        if node.parent != self.tip:
            raise OutOfOrder(
                f"{node!r} does not follow the last line of {self.path.name} ({self.tip!r}).",
                remedy="Write each conversation to a file of its own; save() a fork under a new name.",
            )
        self._require_untouched()
        line = _line(node)
        try:
            append_bytes(self._file, line)
            self.tip, self._n_bytes = node, self._n_bytes + len(line)
        except BaseException:  # an interrupt between the two as well: a line that is not known here would stand twice
            os.ftruncate(self._file, self._n_bytes)
            raise

    def close(self) -> None:
        """Close the file and release its lock. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _read(self) -> None:
        data = self.path.read_bytes()
        self._n_bytes = _whole(data, self.path)
        self.tip = _nodes(data[: self._n_bytes], self.path)
        if self._n_bytes < len(data):
            self.recovery = self._put_aside(data)

    def _put_aside(self, data: bytes) -> Recovery:
        torn = data[self._n_bytes :]
        aside = self.path.with_name(self.path.name + ".torn")
        file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            append_bytes(file, torn + b"\n")
        finally:
            os.close(file)
        os.ftruncate(self._file, self._n_bytes)
        return Recovery(line=data.count(b"\n") + 1, n_bytes=len(torn), aside=aside)

    def _require_untouched(self) -> None:
        if self._file < 0:
            raise ValueError(f"{self.path} is closed.")
        state = os.fstat(self._file)
        if state.st_nlink == 0 or state.st_size != self._n_bytes:
            raise BrokenChain(
                f"{self.path} was changed, replaced or deleted by another program while it was open.",
                remedy="Nothing is lost yet: save() the conversation under a new name.",
                path=self.path,
            )


def load(path: Path | str) -> Conversation:
    """Read a conversation without taking its lock; a torn last line is ignored.

    Raises:
        FileNotFoundError: There is no such file.
        BrokenChain: A damaged line, or a file without a head.
    """
    path = Path(path)
    data = path.read_bytes()
    tip = _nodes(data[: _whole(data, path)], path)
    if tip is None:
        raise BrokenChain(
            f"{path} holds no event.", remedy="Name a conversation file written by this package.", path=path
        )
    return Conversation.at(tip)


def save(conversation: Conversation, path: Path | str) -> None:
    """Write the whole conversation to `path`, all of it or nothing.

    Raises:
        ConversationLocked: A conversation is being written there.
    """
    path = Path(path)
    held = _open_locked(path, os.O_RDONLY) if path.exists() else -1
    try:
        write_whole(path, map(_line, conversation.nodes()), mode=0o600)
    finally:
        if held >= 0:
            os.close(held)


@dataclass(frozen=True, slots=True)
class _Line:
    digest: str
    body: Body


_LINE: TypeAdapter[_Line] = TypeAdapter(_Line)


def _line(node: Node) -> bytes:
    return b'{"digest":"' + node.digest.encode() + b'","body":' + node.data + b"}\n"


def _whole(data: bytes, path: Path) -> int:
    """Return how many bytes of `data` are whole lines; what follows must be the beginning of one."""
    lines, rest = whole_lines(data)
    if not _OPENING.startswith(rest[: len(_OPENING)]):
        raise _broken(path, len(lines) + 1, "it is not the beginning of an event")
    return len(data) - len(rest)


def _nodes(data: bytes, path: Path) -> Node | None:
    """Rebuild the chain in `data` (whole lines) and return its last node."""
    tip: Node | None = None
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            tip = _node(line, tip)
        except (ValueError, OutOfOrder) as error:
            raise _broken(path, number, _reason(error)) from None
    return tip


def _node(line: bytes, parent: Node | None) -> Node:
    stored = _LINE.validate_json(line, strict=True)
    node = Node.after(parent, stored.body)
    if node.digest != stored.digest:
        raise ValueError(f"the digest is {stored.digest}, the content gives {node.digest}")
    if _line(node) != line + b"\n":
        raise ValueError("it says more than was written")  # other spacing or escapes, another key, one key twice
    return node


def _broken(path: Path, number: int, reason: str) -> BrokenChain:
    return BrokenChain(
        f"{path}, line {number}: {reason}.",
        remedy="The file was changed or damaged; go back to a copy, or keep the lines before it.",
        path=path,
        line=number,
    )


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the line"
    return f"{where}: {first['msg']}"


def _open_locked(path: Path, flags: int) -> int:
    try:
        return open_locked(path, flags, mode=0o600, waits=False)
    except BlockingIOError:
        raise ConversationLocked(
            f"{path} is open for writing elsewhere.",
            remedy="Wait until it is closed, load() a copy, or save() under another name.",
            path=path,
        ) from None
