"""The chained file beneath the conversation and the ledger: whole lines, one writer, all or nothing."""

import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.canonical import digest
from oasis_harness.chain import append_bytes, link, open_locked, whole_lines

APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND


@given(st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line)), st.binary(max_size=9))
def test_whole_lines_takes_apart_what_was_joined(lines: list[bytes], rest: bytes) -> None:
    rest = rest.replace(b"\n", b"")
    assert whole_lines(b"".join(line + b"\n" for line in lines) + rest) == (lines, rest)


def test_a_link_names_what_is_said_and_after_what() -> None:
    first = link("", b"one")
    assert first == digest(b"", b"one")
    assert len({first, link(first, b"one"), link("", b"two"), link(first, b"")}) == 4


def test_a_second_writer_is_told_at_once_or_waits(tmp_path: Path) -> None:
    held = open_locked(tmp_path / "chain", APPENDING, mode=0o600, waits=False)
    with pytest.raises(BlockingIOError):
        open_locked(tmp_path / "chain", APPENDING, mode=0o600, waits=False)
    os.close(held)
    os.close(open_locked(tmp_path / "chain", APPENDING, mode=0o600, waits=True))


def test_a_file_that_cannot_be_locked_is_not_left_open(tmp_path: Path) -> None:
    """256 refusals would use up the descriptors of a process that leaks one each time."""
    held = open_locked(tmp_path / "chain", APPENDING, mode=0o600, waits=False)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for _ in range(16):
        with pytest.raises(BlockingIOError):
            open_locked(tmp_path / "chain", APPENDING, mode=0o600, waits=False)
    assert (len(list(Path("/proc/self/fd").iterdir())) if before else 0) == before
    os.close(held)


def test_what_does_not_fit_leaves_no_half_line(tmp_path: Path) -> None:
    """A file-size limit stands for the full disk: the first bytes are written, the rest are refused."""
    file = open_locked(tmp_path / "chain", APPENDING, mode=0o600, waits=False)
    append_bytes(file, b"whole\n")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        with pytest.raises(OSError, match="File too large"):
            append_bytes(file, b"x" * 100 + b"\n", is_synced=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    append_bytes(file, b"next\n")
    os.close(file)
    assert (tmp_path / "chain").read_bytes() == b"whole\nnext\n"
