"""Damaged files: a torn end is put aside, anything else is refused by line number, and no byte is lost."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.canonical import canonical_json, digest
from oasis_harness.chain import link
from oasis_harness.conversation import Conversation, ConversationFile, Reply, User, load, save
from oasis_harness.conversation.events import VERSION
from oasis_harness.errors import BrokenChain

from .growing import HEAD, talk

Lines = list[bytes]

EPOCH = {"template": "sha256:aa", "arguments": "{}", "tokenizer": "sha256:bb"}
STORED = {
    "before-versions": "sha256:b2bdc2ea7bb1f35235a564f855002c01b5224c22513acfc11cf462f67b667c1a",
    "version-1": "sha256:05c6b77cff1360e8544f6b19413d3516f2dfb742e1f782c26c6ed5c26aa63928",
}
"""The digest of the last line of each file in fixtures/conversations."""


def chained(body: bytes) -> bytes:
    """Return the first line of a file."""
    return b'{"digest":"%s","body":%s}\n' % (link("", body).encode(), body)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of five events: text, bytes that are no text, and several scripts."""
    conversation = talk(Conversation(HEAD), 1)
    conversation.append(User("Größe 日本\u2028".encode()), b"\xff\x00", (2**32 - 1,))
    conversation.append(Reply(b"\xfe", "length", "auto", 1), b"\xfe", (0, 5), seam="plain")
    path = tmp_path_factory.mktemp("written") / "c.jsonl"
    save(conversation, path)
    return path.read_bytes()


def refused(path: Path, data: bytes) -> int:
    """Check that neither way of reading takes `data`, nor touches it; return the line that is named."""
    path.write_bytes(data)
    with pytest.raises(BrokenChain) as loading:
        load(path)
    with pytest.raises(BrokenChain) as opening:
        ConversationFile(path)
    assert str(loading.value) == str(opening.value) and loading.value.remedy
    assert path.read_bytes() == data and [file.name for file in path.parent.iterdir()] == [path.name]
    number = loading.value.values["line"]
    assert f"c.jsonl, line {number}: " in str(loading.value) and isinstance(number, int)
    return number


# Torn


@pytest.mark.slow
def test_a_last_line_torn_at_any_byte_is_put_aside(tmp_path: Path, written: bytes) -> None:
    """The conversation is that of the whole lines, the report says what was done, and the next event fits."""
    start = written.rindex(b"\n", 0, -1) + 1
    for end in range(start + 1, len(written)):
        path = tmp_path / str(end) / "c.jsonl"
        path.parent.mkdir()
        path.write_bytes(written[:end])
        assert len(load(path)) == 4
        with ConversationFile(path) as file:
            aside = path.with_name("c.jsonl.torn")
            assert file.recovery is not None and file.recovery.aside == aside and file.recovery.line == 5
            assert file.recovery.n_bytes == end - start
            assert path.read_bytes() == written[:start] and aside.read_bytes() == written[start:end] + b"\n"
            assert file.tip is not None
            Conversation.at(file.tip, sink=file.append).append(Reply(b"r", "stop", "auto", 0), b"r", (1,))
        assert len(load(path)) == 5


def test_a_head_torn_while_it_was_written_leaves_an_empty_file(tmp_path: Path, written: bytes) -> None:
    """A conversation can be begun in it."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(written[:40])
    with ConversationFile(path) as file:
        assert file.tip is None and file.recovery is not None and file.recovery.line == 1
        talk(Conversation(HEAD, sink=file.append), 1)
    assert len(load(path)) == 3


def test_a_second_tear_is_put_aside_behind_the_first(tmp_path: Path, written: bytes) -> None:
    """Neither is lost."""
    path = tmp_path / "c.jsonl"
    for torn in (b'{"digest":"sha256:12', b'{"di'):
        path.write_bytes(written + torn)
        ConversationFile(path).close()
    assert path.with_name("c.jsonl.torn").read_bytes() == b'{"digest":"sha256:12\n{"di\n'


@pytest.mark.parametrize("foreign", [b"not ours", b'{"name": "package"}', b'{"digest":"md5:', b"\0\0\0", b" "])
def test_a_file_that_is_not_ours_is_not_taken_for_a_torn_one(tmp_path: Path, foreign: bytes) -> None:
    """Putting its only line aside would empty it."""
    assert refused(tmp_path / "c.jsonl", foreign) == 1


@pytest.mark.parametrize("rest", [b"not ours", b"\0" * 4000, b" ", b'{"digest":"sha256:12\xff'])
def test_a_rest_behind_whole_lines_is_torn_whatever_it_holds(tmp_path: Path, written: bytes, rest: bytes) -> None:
    """After a power cut, some file systems leave NULs where the data was not written yet."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(written + rest)
    assert len(load(path)) == 5
    with ConversationFile(path) as file:
        assert file.recovery is not None and (file.recovery.line, file.recovery.n_bytes) == (6, len(rest))
    assert path.read_bytes() == written and path.with_name("c.jsonl.torn").read_bytes() == rest + b"\n"


def test_what_is_torn_is_not_written_through_a_link(tmp_path: Path, written: bytes) -> None:
    """A link that somebody left there would append to a file of theirs."""
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "c.jsonl").write_bytes(written + b"rest")
    (tmp_path / "c.jsonl.torn").symlink_to(tmp_path / "victim")
    with pytest.raises(BrokenChain, match=r"c\.jsonl\.torn is a link"):
        ConversationFile(tmp_path / "c.jsonl")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert (tmp_path / "c.jsonl").read_bytes() == written + b"rest"


@pytest.mark.parametrize("read", [load, ConversationFile])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "c.jsonl")
    with pytest.raises(BrokenChain, match="no regular file"):
        read(tmp_path / "c.jsonl")


# Releases


@pytest.mark.parametrize(("name", "digest"), STORED.items())
def test_what_a_release_wrote_is_read_and_its_bytes_stay(tmp_path: Path, name: str, digest: str) -> None:
    """One file for each form that was ever stored, with every kind of event."""
    stored = Path(__file__).parents[2] / "fixtures" / "conversations" / f"{name}.jsonl"
    conversation = load(stored)
    conversation.verify()
    assert (len(conversation), conversation.tip.digest) == (12, digest)
    save(conversation, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == stored.read_bytes()


def test_a_field_that_a_release_did_not_know_yet_does_not_make_its_lines_damaged(tmp_path: Path) -> None:
    """The digest covers the bytes as they were stored, with fewer fields than this release would write."""
    body = canonical_json({"event": {"kind": "head", "epoch": EPOCH, "system": "s"}, "sent": "", "ids": [], "seam": ""})
    (tmp_path / "c.jsonl").write_bytes(chained(body))
    conversation = load(tmp_path / "c.jsonl")
    assert conversation.head.tools == () and conversation.tip.data == body
    talk(conversation, 1).verify()


def test_a_file_of_a_later_release_is_refused_by_its_version(tmp_path: Path) -> None:
    head = {"kind": "head", "epoch": EPOCH, "system": "s", "version": VERSION + 1}
    body = canonical_json({"event": head, "sent": "", "ids": [], "seam": ""})
    (tmp_path / "c.jsonl").write_bytes(chained(body))
    with pytest.raises(BrokenChain, match=r"form 2, and this release reads forms up to 1\. Read it with the release"):
        load(tmp_path / "c.jsonl")


# Damaged


@pytest.mark.slow
@given(data=st.data())
def test_any_changed_byte_of_any_line_is_found(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, data: st.DataObject
) -> None:
    """Also one that leaves sound JSON, or makes two lines of one or one of two. The number is that of the line."""
    at = data.draw(st.integers(0, len(written) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[at]))
    path = tmp_path_factory.mktemp("flip") / "c.jsonl"
    assert refused(path, written[:at] + bytes([byte]) + written[at + 1 :]) == written[:at].count(b"\n") + 1


def replaced(number: int, old: bytes, new: bytes) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        assert old in lines[number - 1]
        return [line.replace(old, new, 1) if line is lines[number - 1] else line for line in lines]

    return change


DAMAGE: dict[str, tuple[int, Callable[[Lines], Lines]]] = {
    "swapped lines": (3, lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]),
    "a removed line": (3, lambda lines: [*lines[:2], *lines[3:]]),
    "a removed head": (1, lambda lines: lines[1:]),
    "a line twice": (4, lambda lines: [*lines[:3], lines[2], *lines[3:]]),
    "the head twice": (2, lambda lines: [lines[0], *lines]),
    "an empty line": (2, lambda lines: [lines[0], b"", *lines[1:]]),
    "foreign JSON": (2, lambda lines: [lines[0], b'{"role":"user","content":"hi"}', *lines[1:]]),
    "no JSON": (1, lambda lines: [b"hello", *lines]),
    "deep JSON": (2, lambda lines: [lines[0], b"[" * 9999, *lines[1:]]),
    "NUL bytes": (5, lambda lines: [*lines[:4], b"\0" * 80]),
    "a line end of another system": (1, lambda lines: [line + b"\r" for line in lines]),
    "another digest": (2, replaced(2, b'"sha256:', b'"sha256:0')),
    "another algorithm": (2, replaced(2, b'"sha256:', b'"sha1:')),
    "a word changed": (2, replaced(2, b"question", b"answer")),
    "an id changed": (5, replaced(5, b"[0,5]", b"[0,6]")),
    "an id too large": (5, replaced(5, b"[0,5]", b"[0,4294967296]")),
    "an id of a thousand digits": (5, replaced(5, b"[0,5]", b"[0," + b"9" * 1000 + b"]")),
    "an id of ten thousand digits": (5, replaced(5, b"[0,5]", b"[0," + b"9" * 10000 + b"]")),
    "a negative id": (5, replaced(5, b"[0,5]", b"[0,-5]")),
    "an id that is a fraction": (5, replaced(5, b"[0,5]", b"[0,5.0]")),
    "an id that is text": (5, replaced(5, b"[0,5]", b'[0,"5"]')),
    "an id that is true": (2, replaced(2, b"[1,0]", b"[true,0]")),
    "ids that are missing": (5, replaced(5, b',"ids":[0,5]', b"")),
    "text that is a number": (2, replaced(2, b'"question 0"', b"0")),
    "base64 that is a number": (4, replaced(4, b'"/wA="', b"5")),
    "base64 with stray bits": (4, replaced(4, b'"/wA="', b'"/wB="')),
    "text as base64": (2, replaced(2, b'"ab"', b'{"base64":"YWI="}')),
    "an event of no kind": (2, replaced(2, b'"kind":"user",', b"")),
    "an unknown kind": (2, replaced(2, b'"kind":"user"', b'"kind":"system"')),
    "another key": (2, replaced(2, b'{"kind"', b'{"more":1,"kind"')),
    "another key of the line": (2, replaced(2, b'{"digest"', b'{"more":1,"digest"')),
    "a key twice": (2, replaced(2, b'"sent":', b'"sent":"x","sent":')),
    "a space": (2, replaced(2, b'"sent":', b'"sent": ')),
    "an escape": (2, replaced(2, b"question", rb"\u0071uestion")),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_whole_but_damaged_line_is_refused_by_number(tmp_path: Path, written: bytes, kind: str) -> None:
    """And the file is left as it is."""
    number, damage = DAMAGE[kind]
    lines = damage(written.split(b"\n")[:-1])
    assert refused(tmp_path / "c.jsonl", b"".join(line + b"\n" for line in lines)) == number


def test_a_sound_line_out_of_order_is_refused(tmp_path: Path, written: bytes) -> None:
    """A second reply in a row, forged with a digest that fits."""
    line = written.split(b"\n")[4]
    body = canonical_json(json.loads(line)["body"])
    name = digest(json.loads(line)["digest"].encode(), body)
    forged = b'{"digest":"%s","body":%s}\n' % (name.encode(), body)
    assert refused(tmp_path / "c.jsonl", written + forged) == 6
    with pytest.raises(BrokenChain, match="nothing was asked"):
        load(tmp_path / "c.jsonl")


def test_what_stands_before_a_damaged_line_can_be_kept(tmp_path: Path, written: bytes) -> None:
    """The remedy of the message works."""
    lines = written.split(b"\n")[:3]
    (tmp_path / "c.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    assert len(load(tmp_path / "c.jsonl")) == 3
