"""A conversation's file: JSON Lines, one event a line, written before anything is asked of an engine.

    {"digest":"sha256:…","body":{"event":{"kind":"user","text":"…"},"sent":"…","ids":[1,2,3],"seam":"special"}}

A line reaches the operating system in one write, so a killed process loses at most the line it was writing; with
`is_synced` it reaches the disk too, so a power cut loses no more. A torn last line is put aside in `<name>.torn` and
reported; a line that is whole but wrong is refused by number. The bytes of a line are kept as some release wrote them:
its digest covers them, not what this release would write. One writer at a time: the file is locked (flock) while it is
open. Only its owner can read it (mode 0600). Where a line cannot be written, the whole conversation, that line
included, is written to another file, which the error names.
"""

import errno
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from oasis_harness.chain import append_bytes, link, open_locked, whole_lines
from oasis_harness.errors import BrokenChain, ConversationLocked, NotRecorded, OutOfOrder
from oasis_harness.whole_file import write_whole

from .events import VERSION, Body, Head
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

    `is_synced` flushes each line to the disk, which costs milliseconds; `rescue` is the folder for conversations whose
    file fails, by default one in the user's state folder.

    Raises:
        ConversationLocked: It is open for writing elsewhere.
        BrokenChain: A line is damaged other than by a torn end, or it is no regular file.
    """

    def __init__(self, path: Path | str, *, is_synced: bool = False, rescue: Path | None = None) -> None:
        self.path = Path(path)
        self._is_synced = is_synced
        self._rescue = rescue
        self.tip: Node | None = None
        """The last node written."""
        self.recovery: Recovery | None = None
        """What was done about a torn last line when the file was opened."""
        self._n_bytes = 0
        self._seen: _Seen | None = None
        self._file = _open_locked(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            self._read()
            self._seen = _Seen.of(self._file)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, node: Node) -> None:
        """Write `node` as one line; on return the operating system has it.

        Raises:
            OutOfOrder: The node does not follow the last line.
            NotRecorded: The disk is full or gone, or another program changed, replaced or deleted the file. Its whole
                lines stay; the conversation and `node` are in the file that the error names.
        """
        if node.parent != self.tip:
            raise OutOfOrder(
                f"{node!r} does not follow the last line of {self.path.name} ({self.tip!r}).",
                remedy="Write each conversation to a file of its own; save() a fork under a new name.",
            )
        if self._file < 0:
            raise ValueError(f"{self.path} is closed.")
        try:
            self._require_untouched()
            self._append(node)
        except OSError as error:
            reason = f"{self.path} cannot be written: {error.strerror or error}"
            raise rescued(node, self.path, reason, self._rescue) from error
        except _Touched as error:
            raise rescued(node, self.path, str(error), self._rescue) from None

    def _append(self, node: Node) -> None:
        line = _line(node)
        try:
            append_bytes(self._file, line, is_synced=self._is_synced)
            self.tip, self._n_bytes = node, self._n_bytes + len(line)
        except BaseException:  # an interrupt between the two as well: a line that is not known here would stand twice
            os.ftruncate(self._file, self._n_bytes)
            raise
        finally:
            self._seen = _Seen.of(self._file)

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
        file = _open_regular(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
        try:
            append_bytes(file, torn + b"\n")
        finally:
            os.close(file)
        os.ftruncate(self._file, self._n_bytes)
        return Recovery(line=data.count(b"\n") + 1, n_bytes=len(torn), aside=aside)

    def _require_untouched(self) -> None:
        """Look whether the path still leads to this file, and the file is as it was left."""
        try:
            is_here = os.path.samestat(self.path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            is_here = False
        if not is_here or (_Seen.of(self._file) != self._seen and not self._holds_its_lines()):
            raise _Touched(f"{self.path} was changed, replaced or deleted by another program while it was open")

    def _holds_its_lines(self) -> bool:
        """Whether the file says what was written to it, byte for byte: a copy or a touch changes its times only."""
        nodes = Conversation.at(self.tip).nodes() if self.tip is not None else ()
        return self.path.read_bytes() == b"".join(map(_line, nodes))


def load(path: Path | str) -> Conversation:
    """Read a conversation without taking its lock; a torn last line is ignored.

    Raises:
        FileNotFoundError: There is no such file.
        BrokenChain: A damaged line, a file without a head, or no regular file.
    """
    path = Path(path)
    with os.fdopen(_open_regular(path, os.O_RDONLY), "rb") as file:
        data = file.read()
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
class _Seen:
    """What a file was like after it was written last."""

    n_bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, file: int) -> Self:
        state = os.fstat(file)
        return cls(state.st_size, state.st_mtime_ns, state.st_ctime_ns)


class _Touched(Exception):
    """Another program had its hands in the file."""


_LINE = re.compile(rb'\{"digest":"(sha256:[0-9a-f]{64})","body":(.*)\}', re.DOTALL)


def _line(node: Node) -> bytes:
    return b'{"digest":"' + node.digest.encode() + b'","body":' + node.data + b"}\n"


def _whole(data: bytes, path: Path) -> int:
    """Return how many bytes of `data` are whole lines; what follows one of ours is torn, whatever it holds."""
    lines, rest = whole_lines(data)
    if not lines and not _OPENING.startswith(rest[: len(_OPENING)]):
        raise _broken(path, 1, "it is not the beginning of an event")
    return len(data) - len(rest)


def _nodes(data: bytes, path: Path) -> Node | None:
    """Rebuild the chain in `data` (whole lines) and return its last node."""
    tip: Node | None = None
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            tip = _node(line, tip)
        except _Newer as error:
            remedy = "Read it with the release that wrote it, or a later one."
            raise _broken(path, number, str(error), remedy=remedy) from None
        except (ValueError, OutOfOrder) as error:
            raise _broken(path, number, _reason(error)) from None
    return tip


def _node(line: bytes, parent: Node | None) -> Node:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError("it is no line of a conversation")
    stored, data = found[1].decode(), found[2]
    digest = link(parent.digest if parent is not None else "", data)
    if digest != stored:
        raise ValueError(f"the digest is {stored}, the content gives {digest}")
    body = Body.from_json(data)
    if isinstance(body.event, Head) and body.event.version > VERSION:
        raise _Newer(f"it is stored in form {body.event.version}, and this release reads forms up to {VERSION}")
    return Node.after(parent, body, data)


class _Newer(ValueError):
    """The file is of a later release."""


def _broken(path: Path, number: int, reason: str, *, remedy: str = "") -> BrokenChain:
    return BrokenChain(
        f"{path}, line {number}: {reason}.",
        remedy=remedy or "The file was changed or damaged; go back to a copy, or keep the lines before it.",
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
        file = open_locked(path, flags | os.O_NONBLOCK, mode=0o600, waits=False)
    except BlockingIOError:
        raise ConversationLocked(
            f"{path} is open for writing elsewhere.",
            remedy="Wait until it is closed, load() a copy, or save() under another name.",
            path=path,
        ) from None
    return _regular(file, path)


def _open_regular(path: Path, flags: int) -> int:
    try:
        return _regular(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600), path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _no_file(path, "a link") from None


def _regular(file: int, path: Path) -> int:
    """Return `file`, which must be a regular one: a pipe would be waited for, a device read without end."""
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise _no_file(path, "no regular file")


def _no_file(path: Path, what: str) -> BrokenChain:
    return BrokenChain(f"{path} is {what}.", remedy="Remove it, or name another file.", path=path)


def rescued(node: Node, path: Path, reason: str, folder: Path | None = None) -> NotRecorded:
    """Write the conversation that ends with `node` beside the failing `path`, and return the error that names it."""
    name = f"{path.stem}-{node.digest.removeprefix('sha256:')[:12]}.jsonl"
    for place in [folder] if folder is not None else [_state_folder(), Path(tempfile.gettempdir())]:
        try:
            place.mkdir(parents=True, exist_ok=True)
            save(Conversation.at(node), place / name)
        except (OSError, ConversationLocked):
            continue
        remedy = f"All of it is in {place / name}: go on with Session.load() of that file."
        return NotRecorded(f"{reason}.", remedy=remedy, path=path, rescued=place / name)
    remedy = "It could not be written elsewhere either: save() the session's conversation where there is room."
    return NotRecorded(f"{reason}.", remedy=remedy, path=path, rescued=None)


def _state_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("oasis-harness")) / "rescued"
