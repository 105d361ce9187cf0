"""The file: a line an event, written before the handle moves, and read back byte for byte and id for id."""

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest
from hypothesis import given

from oasis_harness.conversation import Conversation, ConversationFile, User, load, save
from oasis_harness.errors import BrokenChain, ConversationLocked, OutOfOrder

from .growing import HEAD, conversations, naive_ids, talk

USER = User(b"u")
TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]


def recorded(path: Path, n_turns: int = 2) -> Conversation:
    """A conversation of `n_turns` in the file `path`, which is closed again."""
    with ConversationFile(path) as file:
        return talk(Conversation(HEAD, sink=file.append), n_turns)


def histories(conversation: Conversation) -> list[tuple[str, bytes, tuple[int, ...]]]:
    return [(node.digest, node.sent, node.ids) for node in conversation.nodes()]


# There and back


@pytest.mark.slow
@given(conversation=conversations())
def test_what_is_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, conversation: Conversation) -> None:
    """Every event, byte and id, over all epochs; saving what was loaded gives the same file."""
    path = tmp_path_factory.getbasetemp() / "c.jsonl"
    save(conversation, path)
    loaded, written = load(path), path.read_bytes()
    assert histories(loaded) == histories(conversation)
    assert loaded.ids.tolist() == naive_ids(conversation) and loaded.n_expected == conversation.n_expected
    save(loaded, path)
    assert path.read_bytes() == written


def test_a_line_is_an_event(tmp_path: Path) -> None:
    """Digest, fact, bytes and ids, readable as it stands."""
    conversation = recorded(tmp_path / "c.jsonl", 1)
    line = (tmp_path / "c.jsonl").read_text("utf-8").splitlines()[1]
    assert line == (
        f'{{"digest":"{list(conversation.nodes())[1].digest}","body":'
        '{"event":{"kind":"user","text":"question 0"},"sent":"ab","ids":[1,0],"seam":""}}'
    )


def test_a_line_is_in_the_file_before_append_returns(tmp_path: Path) -> None:
    """Another reader sees it at once."""
    with ConversationFile(tmp_path / "c.jsonl") as file:
        conversation = Conversation(HEAD, sink=file.append)
        for _ in range(3):
            talk(conversation, 1)
            assert load(tmp_path / "c.jsonl").tip == conversation.tip == file.tip


def test_a_closed_file_is_opened_again_where_it_ended(tmp_path: Path) -> None:
    """Nothing was torn, so nothing is reported, and the next event follows the last line."""
    first = recorded(tmp_path / "c.jsonl")
    with ConversationFile(tmp_path / "c.jsonl") as file:
        assert file.recovery is None and file.tip is not None
        conversation = talk(Conversation.at(file.tip, sink=file.append), 1)
    assert histories(load(tmp_path / "c.jsonl")) == histories(conversation) != histories(first)


def test_line_ends_inside_texts_end_no_line(tmp_path: Path) -> None:
    """Of whatever kind, as text and as bytes."""
    conversation = Conversation(HEAD)
    for text in (b"\r", b"\n", b"\r\n", b"\x0b\x0c\x1c\x85", "\u0085\u2028\u2029".encode(), b"\0"):
        conversation.append(User(text), text, (1,))
    save(conversation, tmp_path / "c.jsonl")
    assert histories(load(tmp_path / "c.jsonl")) == histories(conversation)


def test_only_the_owner_can_read_what_was_said(tmp_path: Path) -> None:
    """The file, a saved copy, and what was put aside, under a umask that would allow all."""
    before = os.umask(0)
    try:
        conversation = recorded(tmp_path / "c.jsonl")
        save(conversation, tmp_path / "copy.jsonl")
        with (tmp_path / "c.jsonl").open("ab") as file:
            file.write(b"{")
        ConversationFile(tmp_path / "c.jsonl").close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"c.jsonl": 0o600, "copy.jsonl": 0o600, "c.jsonl.torn": 0o600}


def test_a_file_of_another_conversation_is_not_written_to(tmp_path: Path) -> None:
    """Its last line is not the parent of what comes."""
    recorded(tmp_path / "c.jsonl")
    with ConversationFile(tmp_path / "c.jsonl") as file:
        written = file.path.read_bytes()
        with pytest.raises(OutOfOrder, match=r"does not follow the last line of c.jsonl"):
            Conversation(HEAD, sink=file.append)
        assert file.path.read_bytes() == written


@pytest.mark.parametrize("read", [load, ConversationFile])
def test_a_missing_folder_or_file_is_an_ordinary_error(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """The operating system's own."""
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none" / "c.jsonl")


def test_an_empty_file_holds_no_conversation(tmp_path: Path) -> None:
    """It can be begun, but not loaded."""
    ConversationFile(tmp_path / "c.jsonl").close()
    with pytest.raises(BrokenChain, match="holds no event"):
        load(tmp_path / "c.jsonl")
    recorded(tmp_path / "c.jsonl")


# One writer


def test_a_second_writer_in_this_process_is_refused(tmp_path: Path) -> None:
    """A reader is not; and after close() the next may write."""
    recorded(tmp_path / "c.jsonl")
    with ConversationFile(tmp_path / "c.jsonl") as file:
        with pytest.raises(ConversationLocked, match=r"c\.jsonl is open for writing elsewhere"):
            ConversationFile(tmp_path / "c.jsonl")
        assert load(tmp_path / "c.jsonl").tip == file.tip
    file.close()
    ConversationFile(tmp_path / "c.jsonl").close()


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_second_writer_in_another_process_is_refused(tmp_path: Path) -> None:
    """While the first is open, and no longer."""
    code = "import sys; from oasis_harness.conversation import ConversationFile; ConversationFile(sys.argv[1])"
    with ConversationFile(tmp_path / "c.jsonl"):
        refused = python(code, tmp_path / "c.jsonl")
    assert refused.returncode == 1 and "ConversationLocked" in refused.stderr
    assert python(code, tmp_path / "c.jsonl").returncode == 0


def test_a_closed_file_takes_no_event(tmp_path: Path) -> None:
    """And says so."""
    with ConversationFile(tmp_path / "c.jsonl") as file:
        conversation = Conversation(HEAD, sink=file.append)
    with pytest.raises(ValueError, match=r"c\.jsonl is closed"):
        conversation.append(USER, b"x", (1,))
    assert len(conversation) == 1


MEDDLING: list[Callable[[Path], object]] = [
    lambda path: path.unlink(),
    lambda path: path.write_bytes(path.read_bytes()[:-9]),
    lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    lambda path: path.with_name("new").write_bytes(path.read_bytes()) and path.with_name("new").replace(path),
]


@pytest.mark.parametrize("meddle", MEDDLING)
def test_a_file_that_another_program_touched_is_written_to_no_more(
    tmp_path: Path, meddle: Callable[[Path], object]
) -> None:
    """Deleted, cut, lengthened or replaced: the conversation stands in memory, and can be saved elsewhere."""
    with ConversationFile(tmp_path / "c.jsonl") as file:
        conversation = talk(Conversation(HEAD, sink=file.append), 1)
        meddle(file.path)
        with pytest.raises(BrokenChain, match="changed, replaced or deleted by another program"):
            conversation.append(USER, b"x", (1,))
    save(conversation, tmp_path / "saved.jsonl")
    assert histories(load(tmp_path / "saved.jsonl")) == histories(conversation)


# Saving


def test_saving_over_an_open_conversation_is_refused(tmp_path: Path) -> None:
    """The file would be replaced under its writer, whose next events would be written nowhere."""
    with ConversationFile(tmp_path / "c.jsonl") as file:
        conversation = talk(Conversation(HEAD, sink=file.append), 1)
        with pytest.raises(ConversationLocked, match="save\\(\\) under another name"):
            save(conversation, tmp_path / "c.jsonl")
        talk(conversation, 1)
    assert load(tmp_path / "c.jsonl").tip == conversation.tip


def test_saving_a_fork_writes_what_led_to_it(tmp_path: Path) -> None:
    """And nothing of the branch it left."""
    conversation = talk(Conversation(HEAD), 2)
    branch = talk(conversation.fork(at=list(conversation.nodes())[2]), 3)
    save(branch, tmp_path / "c.jsonl")
    assert histories(load(tmp_path / "c.jsonl")) == histories(branch)


# A full disk


def fill(n_bytes: int, write: Callable[[], object]) -> None:
    """Call `write` where no file can grow past `n_bytes`; it must fail as on a full disk, half way through."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        with pytest.raises(OSError) as error:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.errno == errno.EFBIG


def test_on_a_full_disk_the_file_keeps_its_whole_lines_and_the_handle_its_tip(tmp_path: Path) -> None:
    """Half a line went in and was taken back; with room again, the same handle goes on."""
    with ConversationFile(tmp_path / "c.jsonl") as file:
        conversation = talk(Conversation(HEAD, sink=file.append), 1)
        written, tip = file.path.read_bytes(), conversation.tip
        fill(len(written) + 20, lambda: conversation.append(USER, b"x", (1,)))
        assert file.path.read_bytes() == written and conversation.tip is tip is file.tip
        talk(conversation, 1)
    assert histories(load(tmp_path / "c.jsonl")) == histories(conversation)


def test_a_save_on_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """And no half-written one beside it."""
    old = recorded(tmp_path / "c.jsonl", 1)
    longer = talk(old.fork(), 5)
    fill(300, lambda: save(longer, tmp_path / "c.jsonl"))
    assert histories(load(tmp_path / "c.jsonl")) == histories(old)
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


# Interrupts


def interrupt(action: Callable[[], object], at: int) -> bool:
    """Raise KeyboardInterrupt before the line number `at` that `action` runs in the room; say if it came so far."""
    left = at

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        nonlocal left
        if "/oasis_harness/conversation/" not in frame.f_code.co_filename:
            return None
        left -= event == "line"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_an_append_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The file always loads, with all that was appended; the handle goes on, or refuses and says why."""
    line, interrupted = 0, True
    while interrupted:
        path = tmp_path / f"{line}.jsonl"
        with ConversationFile(path) as file:
            conversation = talk(Conversation(HEAD, sink=file.append), 1)
            interrupted = interrupt(partial(conversation.append, USER, b"x", (1, 2)), line)
            assert conversation.ids.tolist() == naive_ids(conversation)
            known, stored = histories(conversation), histories(load(path))
            assert stored[: len(known)] == known and len(stored) - len(known) in (0, 1)
            try:
                conversation.append(User(b"again"), b"y", (3,))
            except OutOfOrder:
                assert len(stored) > len(known)
            else:
                assert histories(load(path)) == histories(conversation)
        line += 1
    assert line > 30
