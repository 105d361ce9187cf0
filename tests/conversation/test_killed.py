"""A writer killed with SIGKILL: every event that append() returned for is in the file, and at most one more."""

import os
import random
import signal
from pathlib import Path

import pytest

from oasis_harness.conversation import Conversation, ConversationFile, Note, load

from .growing import HEAD


def write_for_ever(path: Path, announce: int) -> None:
    """Continue the conversation in `path`; write each digest to `announce` once append() has returned."""
    file = ConversationFile(path)
    conversation = Conversation.at(file.tip, sink=file.append) if file.tip else Conversation(HEAD, sink=file.append)
    while True:
        digest = conversation.append(Note(b"n" * 50)).digest
        os.write(announce, digest.ljust(2000).encode() + b"\n")  # a pipe holds 64 KiB: it cannot run far ahead


def announced_before_kill(path: Path, n_events: int) -> list[str]:
    """Let a child write to `path`, kill it after `n_events`, and return the digests it had announced."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # a fork needs no imports: fifty of them take a second
        try:
            write_for_ever(path, write)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        lines = [pipe.readline() for _ in range(n_events)]
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, "the child ended by itself"
        return [line.decode().strip() for line in [*lines, *pipe.readlines()]]


@pytest.mark.slow
def test_fifty_kills_lose_nothing_that_was_announced(tmp_path: Path) -> None:
    """One file, continued by one child after another, each killed at a moment of its own."""
    chance = random.Random(11)
    path, known = tmp_path / "c.jsonl", 0
    for _ in range(50):
        announced = announced_before_kill(path, chance.randint(1, 16))
        conversation = load(path)  # checks every digest
        digests = [node.digest for node in conversation.nodes()]
        at = digests.index(announced[0])
        assert digests[at : at + len(announced)] == announced
        assert len(digests) - at - len(announced) in (0, 1)
        assert at - known in (0, 1)  # the child before may have been killed between writing and announcing
        known = len(digests)
    assert known > 200
