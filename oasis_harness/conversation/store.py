"""A conversation's file: JSON Lines, one event a line, written before anything is asked of an engine.

    {"digest":"sha256:…","body":{"event":{"kind":"user","text":"…"},"sent":"…","ids":[1,2,3],"seam":"special"}}

A line reaches the operating system in one write, so a killed process loses at most the line it was writing. Such a
torn last line is put aside in `<name>.torn` and reported; a line that is whole but wrong is refused by number. One
writer at a time: the file is locked (flock) while it is open.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from oasis_harness.errors import BrokenChain, ConversationLocked, OutOfOrder

from .events import Body
from .log import Conversation, Node

__all__ = ["ConversationFile", "Recovery", "load", "save"]


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
        ConversationLocked: Another process has it open for writing.
        BrokenChain: A line is damaged other than by a torn end.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._lock()
            self.tip, self.recovery = self._read()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, node: Node) -> None:
        """Write `node` as one line; on return the operating system has it.

        Raises:
            OutOfOrder: The node does not follow the last line.
            OSError: The disk is full or gone; the file is cut back to its last whole line.
        """
        if node.parent != self.tip:
            raise OutOfOrder(
                f"{node!r} does not follow the last line of {self.path.name} ({self.tip!r}).",
                remedy="Write each conversation to a file of its own; save() a fork under a new name.",
            )
        end = os.fstat(self._file).st_size
        try:
            _write_all(self._file, _line(node))
        except OSError:
            os.ftruncate(self._file, end)
            raise
        self.tip = node

    def close(self) -> None:
        """Close the file and release its lock. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConversationLocked(
                f"{self.path} is being written by another process.",
                remedy="Wait for it to end, or load() a copy of the file.",
                path=self.path,
            ) from None

    def _read(self) -> tuple[Node | None, Recovery | None]:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        tip = read_nodes(data[:whole], str(self.path))
        if whole == len(data):
            return tip, None
        return tip, self._put_aside(data, whole)

    def _put_aside(self, data: bytes, whole: int) -> Recovery:
        aside = self.path.with_name(self.path.name + ".torn")
        with aside.open("ab") as file:
            file.write(data[whole:] + b"\n")
        os.ftruncate(self._file, whole)
        return Recovery(line=data.count(b"\n") + 1, n_bytes=len(data) - whole, aside=aside)


def read_nodes(data: bytes, name: str) -> Node | None:
    """Rebuild the chain in `data` (whole lines) and return its last node.

    Raises:
        BrokenChain: A line that is not JSON, not an event, or whose digest does not match; the message has its number.
    """
    tip: Node | None = None
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            tip = _node(line, tip)
        except ValueError as error:
            raise BrokenChain(
                f"{name}, line {number}: {_reason(error)}.",
                remedy="The file was changed or damaged; go back to a copy, or keep the lines before it.",
                path=name,
                line=number,
            ) from None
    return tip


def load(path: Path | str) -> Conversation:
    """Read a conversation without taking its lock; a torn last line is ignored.

    Raises:
        FileNotFoundError: There is no such file.
        BrokenChain: A damaged line, or a file without a head.
    """
    data = Path(path).read_bytes()
    tip = read_nodes(data[: data.rfind(b"\n") + 1], str(path))
    if tip is None:
        raise BrokenChain(
            f"{path} holds no event.", remedy="Name a conversation file written by this package.", path=path
        )
    return Conversation.at(tip)


def save(conversation: Conversation, path: Path | str) -> None:
    """Write the whole conversation to `path`, all of it or nothing."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            for node in conversation.nodes():
                file.write(_line(node))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Line:
    digest: str
    body: Body


_LINE: TypeAdapter[_Line] = TypeAdapter(_Line)


def _line(node: Node) -> bytes:
    return b'{"digest":"' + node.digest.encode() + b'","body":' + node.data + b"}\n"


def _node(line: bytes, parent: Node | None) -> Node:
    stored = _LINE.validate_json(line, strict=True)
    node = Node.after(parent, stored.body)
    if node.digest != stored.digest:
        raise ValueError(f"the digest is {stored.digest}, the content gives {node.digest}")
    return node


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the line"
    return f"{where}: {first['msg']}"


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
