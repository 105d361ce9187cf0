"""The beginning and the end of what a command prints, bounded while it is read.

A command that prints 100 MB costs 8 KB: of `first`, a hundred million bytes and `last` the model reads

    first
    y
    [99992011 bytes left out]
    y
    last
"""

import codecs
from dataclasses import dataclass, field

__all__ = ["BoundedOutput"]

_KEPT = 4_000
"""Bytes kept of the beginning of the output, and as many of its end."""


@dataclass(slots=True)
class BoundedOutput:
    """The first and the last _KEPT bytes of a stream."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    n_left_out: int = 0

    def add(self, chunk: bytes) -> None:
        room = _KEPT - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = max(len(self.tail) - _KEPT, 0)
        del self.tail[:excess]
        self.n_left_out += excess

    def text(self) -> str:
        if not self.n_left_out:
            return (self.head + self.tail).decode("utf-8", "backslashreplace")
        # A character that the cut went through is dropped at the end of the head and at the start of the tail.
        head = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(bytes(self.head))
        whole = next((n for n in range(4) if self.tail[n] & 0xC0 != 0x80), 0)
        tail = self.tail[whole:].decode("utf-8", "backslashreplace")
        return f"{head}\n[{self.n_left_out} bytes left out]\n{tail}"
