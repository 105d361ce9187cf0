"""The ledger: nothing in it can be changed without being told, and nothing gets in without a reason."""

import json
import multiprocessing
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.canonical import canonical_json, digest
from oasis_harness.errors import BrokenLedger, NotSignedOff
from oasis_harness.guard import Comparison, Cost, Ledger, NotMeasured, PrefillRate, Relation, Snapshot, SnapshotFolder
from oasis_harness.guard.snapshots import Signed, git_identity

Lines = list[bytes]

NOON = datetime(2025, 3, 9, 12, 0, 7, 999, tzinfo=UTC)
RATE = PrefillRate("tiny", "Linux x86_64, 2 cores", 250.04, 3, 0.0123, 256)
UNKNOWN = NotMeasured("there is no engine here")


def ledger_at(path: Path) -> Ledger:
    return Ledger(path, who=lambda: "Ada <ada@example.org>", clock=lambda: NOON)


def moves(n: int) -> list[Comparison]:
    """Return `n` moves of one prompt, each from where the one before it led."""
    return [
        Comparison(Relation.MISSING, "head", "chatml", None, 0, 9, f"{at:x}" * 64, f"{at + 1:x}" * 64)
        for at in range(n)
    ]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return ledger_at(tmp_path / "fixtures" / "ledger.jsonl")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger of five entries."""
    ledger = ledger_at(tmp_path_factory.mktemp("written") / "ledger.jsonl")
    for number, move in enumerate(moves(5)):
        ledger.append(move, reason=f"reason {number}, größer", cost=UNKNOWN if number % 2 else Cost(RATE, 100))
    return ledger.path.read_bytes()


def broken(path: Path, data: bytes) -> BrokenLedger:
    """Check that neither reading nor appending takes `data`, nor touches it."""
    path.write_bytes(data)
    with pytest.raises(BrokenLedger) as verifying:
        ledger_at(path).verify()
    with pytest.raises(BrokenLedger) as appending:
        ledger_at(path).append(moves(1)[0], reason="why not", cost=UNKNOWN)
    assert str(verifying.value) == str(appending.value) and path.read_bytes() == data
    assert f"ledger.jsonl, line {verifying.value.values['line']}: " in str(verifying.value)
    return verifying.value


# Entries


def test_an_entry_says_what_moved_who_why_when_and_at_what_cost(ledger: Ledger, tmp_path: Path) -> None:
    """And the line in the file says the same."""
    folder, new = SnapshotFolder(tmp_path), Snapshot("head", "chatml", b"ac", (), 2, (97, 99), "", "t")
    folder.record(Snapshot("head", "chatml", b"ab", (), 2, (97, 98), "", "t"))
    comparison = folder.compare(new)
    entry = ledger.append(comparison, reason=" clearer \n", cost=Cost(RATE, 1))
    fields = json.loads(ledger.path.read_bytes())
    assert fields.pop("cost") == {
        "model": "tiny",
        "machine": "Linux x86_64, 2 cores",
        "tokens_per_s": 250.0,
        "n_runs": 3,
        "spread": 0.012,
        "n_tokens_a_run": 256,
        "n_tokens": 1,
        "s_per_conversation": 0.003999,
    }
    assert fields == {
        "n": 1,
        "previous": "",
        "name": "head",
        "dialect": "chatml",
        "n_bytes": 1,
        "span": "end of prompt",
        "n_tokens_lost": 1,
        "reason": "clearer",
        "who": "Ada <ada@example.org>",
        "when": "2025-03-09T12:00:07Z",
        "cost_reason": "",
        "sha256_old": comparison.sha256_old,
        "sha256_new": new.sha256,
        "digest": entry.digest,
    }
    assert ledger.entries() == (entry,)


def test_what_was_not_measured_says_why(ledger: Ledger) -> None:
    entry = ledger.append(moves(1)[0], reason="new", cost=UNKNOWN)
    assert entry.cost is None and entry.cost_reason == "there is no engine here"


@pytest.mark.slow
@given(reasons=st.lists(st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip), max_size=5))
def test_what_was_appended_is_read_back(tmp_path_factory: pytest.TempPathFactory, reasons: list[str]) -> None:
    ledger = ledger_at(tmp_path_factory.mktemp("ledger") / "ledger.jsonl")
    appended = [ledger.append(move, reason=why, cost=UNKNOWN) for move, why in zip(moves(len(reasons)), reasons)]  # noqa: B905 - equally long
    assert ledger.entries() == tuple(appended)
    assert [entry.reason for entry in appended] == [reason.strip() for reason in reasons]
    assert [entry.previous for entry in appended] == ["", *(entry.digest for entry in appended)][: len(appended)]


def test_a_time_zone_of_the_clock_does_not_matter(tmp_path: Path) -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    ledger = Ledger(tmp_path / "ledger.jsonl", who=lambda: "Ada", clock=lambda: there)
    assert ledger.append(moves(1)[0], reason="x", cost=UNKNOWN).when == "2025-03-09T12:00:07Z"


@pytest.mark.parametrize("reason", ["", " ", "\n\t", "\u00a0"])
def test_a_blank_reason_is_refused(ledger: Ledger, reason: str) -> None:
    with pytest.raises(NotSignedOff, match="Say why"):
        ledger.append(moves(1)[0], reason=reason, cost=UNKNOWN)
    assert not ledger.path.exists()


@pytest.mark.parametrize("relation", [Relation.SAME, Relation.UNUSED])
def test_what_did_not_move_cannot_be_signed(ledger: Ledger, relation: Relation) -> None:
    with pytest.raises(NotSignedOff, match="nothing to sign"):
        ledger.append(Comparison(relation, "head", "chatml"), reason="x", cost=UNKNOWN)


def test_a_ledger_that_does_not_exist_yet_is_empty(ledger: Ledger) -> None:
    ledger.verify()
    assert ledger.entries() == ()


# Tampering


@pytest.mark.slow
@given(data=st.data())
def test_any_changed_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, data: st.DataObject
) -> None:
    """The line that is named is the one it stands in."""
    at = data.draw(st.integers(0, len(written) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[at]))
    changed = written[:at] + bytes([byte]) + written[at + 1 :]
    error = broken(tmp_path_factory.mktemp("flip") / "ledger.jsonl", changed)
    assert error.values["line"] == written[:at].count(b"\n") + 1


@given(data=st.data())
def test_any_removed_or_inserted_bytes_are_found(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, data: st.DataObject
) -> None:
    """All but whole lines at the end."""
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(written)), st.integers(0, len(written)))))
    changed = written[:start] + data.draw(st.binary(max_size=3)) + written[end:]
    if changed != written and not (written.startswith(changed) and changed[-1:] in (b"", b"\n")):
        broken(tmp_path_factory.mktemp("cut") / "ledger.jsonl", changed)


@given(order=st.lists(st.integers(0, 4), max_size=7))
def test_lines_in_any_other_order_are_found(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, order: list[int]
) -> None:
    """Removed, repeated or exchanged: only the beginning of the ledger is a ledger."""
    lines = written.splitlines(keepends=True)
    path = tmp_path_factory.mktemp("order") / "ledger.jsonl"
    data = b"".join(lines[number] for number in order)
    if order == list(range(len(order))):
        path.write_bytes(data)
        assert len(ledger_at(path).entries()) == len(order)
    else:
        broken(path, data)


KINDS: dict[str, tuple[Callable[[Lines], Lines], int, str]] = {
    "changed": (lambda lines: [lines[0], lines[1].replace(b"reason 1", b"reason 9"), *lines[2:]], 2, "was changed"),
    "removed": (lambda lines: [lines[0], *lines[2:]], 2, "entry 2 is not here: it was removed"),
    "reordered": (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2, "reordered"),
    "repeated": (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3, "inserted or repeated"),
    "torn": (lambda lines: [*lines[:4], lines[4][:-20]], 5, "torn"),
    "no line end": (lambda lines: [*lines[:4], lines[4][:-1]], 5, "torn"),
    "an empty line": (lambda lines: [lines[0], b"\n", *lines[1:]], 2, "was changed"),
    "spaces": (lambda lines: [lines[0].replace(b'"n":1', b'"n": 1'), *lines[1:]], 1, "was changed"),
    "true for 1": (lambda lines: [lines[0].replace(b'"n":1', b'"n":true'), *lines[1:]], 1, "was changed"),
    "CRLF": (
        lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
        1,
        "line ends were changed by the checkout",
    ),
    "a key more": (lambda lines: [lines[0].replace(b'{"n"', b'{"m":1,"n"'), *lines[1:]], 1, "was changed"),
    "deep": (lambda lines: [b"[" * 99999 + b"\n"], 1, "was changed"),
    "no object": (lambda lines: [b"1\n"], 1, "was changed"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_damage_is_told_by_its_name(tmp_path: Path, written: bytes, kind: str) -> None:
    damage, line, told = KINDS[kind]
    error = broken(tmp_path / "ledger.jsonl", b"".join(damage(written.splitlines(keepends=True))))
    assert error.values["line"] == line and told in str(error)


def test_a_line_that_was_exchanged_and_signed_anew_is_told(tmp_path: Path, written: bytes) -> None:
    """Its own digest fits; that of the line after it does not follow."""
    lines = written.splitlines(keepends=True)
    body = json.loads(lines[1])
    del body["digest"]
    body["reason"] = "another"
    body["digest"] = digest(body["previous"].encode(), canonical_json(body))
    error = broken(tmp_path / "ledger.jsonl", b"".join([lines[0], canonical_json(body) + b"\n", *lines[2:]]))
    assert error.values["line"] == 3 and "does not follow" in str(error)


@pytest.mark.parametrize("number", [True, 1.0, "1", None])
def test_a_number_of_another_type_is_told(tmp_path: Path, written: bytes, number: object) -> None:
    """With a digest that fits: it would be equal to 1 all the same."""
    body = json.loads(written.splitlines()[0]) | {"n": number}
    del body["digest"]
    body["digest"] = digest(b"", canonical_json(body))
    assert broken(tmp_path / "ledger.jsonl", canonical_json(body) + b"\n").values["line"] == 1


def test_removed_last_lines_are_seen_by_the_snapshots_they_signed(tmp_path: Path) -> None:
    """A chain alone cannot show that."""
    ledger, folder = ledger_at(tmp_path / "ledger.jsonl"), SnapshotFolder(tmp_path / "prompts")
    folder.record(Snapshot("head", "chatml", b"0", ()))
    for data in (b"1", b"2"):
        new = Snapshot("head", "chatml", data, ())
        folder.accept(new, ledger.append(folder.compare(new), reason="x", cost=UNKNOWN))
    ledger.verify(folder.signed())
    first, _ = ledger.path.read_bytes().splitlines(keepends=True)
    for left in (first, b""):
        ledger.path.write_bytes(left)
        ledger.verify()
        with pytest.raises(BrokenLedger, match=r"the entry that signed head\.chatml was removed"):
            ledger.verify(folder.signed())


def test_bytes_that_were_recorded_around_the_ledger_are_seen(tmp_path: Path) -> None:
    """Removing a signed snapshot and recording another is no way to move it."""
    ledger, folder = ledger_at(tmp_path / "ledger.jsonl"), SnapshotFolder(tmp_path / "prompts")
    old, new, third = (Snapshot("head", "chatml", data, ()) for data in (b"0", b"1", b"2"))
    folder.record(old)
    folder.accept(new, ledger.append(folder.compare(new), reason="x", cost=UNKNOWN))
    for path in folder.path.iterdir():
        path.unlink()
    folder.record(third)
    with pytest.raises(NotSignedOff, match="entry 1 of the ledger"):
        ledger.verify(folder.signed())
    entry = ledger.append(folder.compare(new), reason="back again", cost=UNKNOWN)
    folder.accept(new, entry)
    ledger.verify(folder.signed())


def test_a_sign_off_of_nothing_that_is_recorded_is_no_fault(ledger: Ledger) -> None:
    """A snapshot that was dropped, and one that was never signed."""
    entry = ledger.append(moves(1)[0], reason="x", cost=UNKNOWN)
    ledger.verify([Signed("other", "chatml", None, "f" * 64)])
    ledger.verify([Signed("head", "chatml", None, entry.sha256_new)])
    with pytest.raises(NotSignedOff):
        ledger.verify([Signed("head", "chatml", entry.digest, "f" * 64)])


# Writing


def _append_often(path: Path, n: int) -> None:
    for move in moves(n):
        ledger_at(path).append(move, reason="x", cost=UNKNOWN)


@pytest.mark.slow
def test_processes_that_append_at_once_wait_for_each_other(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("spawn")
    workers = [processes.Process(target=_append_often, args=(tmp_path / "ledger.jsonl", 10)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [entry.n for entry in ledger_at(tmp_path / "ledger.jsonl").entries()] == list(range(1, 31))


def test_a_disk_that_fills_up_leaves_whole_lines(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append(moves(1)[0], reason="x", cost=UNKNOWN)
    before = ledger.path.read_bytes()

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ledger.append(moves(2)[1], reason="y", cost=UNKNOWN)
    assert ledger.path.read_bytes() == before


# Who


@pytest.fixture
def no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which git knows nobody."""
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    return monkeypatch


def test_who_signs_is_who_would_commit(no_git: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The settings of the repository, and before them the environment, as git has it."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for key, value in (("user.name", "Grace"), ("user.email", "grace@example.org")):
        subprocess.run(["git", "-C", str(tmp_path), "config", key, value], check=True)
    below = tmp_path / "fixtures" / "not made yet"
    assert git_identity(below) == "Grace <grace@example.org>"
    subprocess.run(["git", "-C", str(tmp_path), "config", "author.email", "g@example.org"], check=True)
    assert git_identity(below) == "Grace <g@example.org>"
    no_git.setenv("GIT_AUTHOR_NAME", "Ada")
    assert git_identity(below) == "Ada <g@example.org>"


def test_nobody_is_told_so(no_git: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where git has no settings, and where there is no git."""
    assert git_identity(tmp_path) == "unknown: no git identity"
    no_git.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
    assert git_identity(tmp_path) == "ada@example.org"
    no_git.delenv("GIT_AUTHOR_EMAIL")
    no_git.setenv("PATH", str(tmp_path))
    entry = Ledger(tmp_path / "ledger.jsonl").append(moves(1)[0], reason="x", cost=UNKNOWN)
    assert entry.who == "unknown: no git identity"
