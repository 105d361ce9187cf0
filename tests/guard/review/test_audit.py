"""Against a base in a real repository, no way around the ledger ends green, and an honest one does."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from oasis_harness.canonical import canonical_json
from oasis_harness.chain import link
from oasis_harness.errors import NoBase
from oasis_harness.guard import Ledger, SnapshotFolder
from oasis_harness.guard.review import audit_prompts
from oasis_harness.guard.review.removed import remove_prompt
from tests.guard.repository import Repository

pytestmark = pytest.mark.slow

OLD, NEW = "You are careful.", "You are careless."


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two prompts, one of them signed once, committed as the base; one more was recorded before it had an entry."""
    made = Repository.at(tmp_path / "project")
    made.record("head", OLD)
    made.record("tail", "Be brief.")
    made.sign("tail", "Be very brief.")
    made.commit()
    return made


def told(repository: Repository, fixtures: str = "fixtures") -> str:
    """Return what the audit complains of, a line each."""
    report = audit_prompts(repository.root / fixtures, "main", root=repository.root)
    assert report.n_prompts == 2
    return "\n".join(map(str, report.faults))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rewritten(lines: list[bytes], change: Callable[[int, dict[str, object]], None]) -> bytes:
    """Return a ledger with the digests of its lines made anew."""
    previous, found = "", b""
    for number, line in enumerate(lines):
        body = json.loads(line)
        del body["digest"]
        change(number, body)
        body["previous"] = previous
        previous = body["digest"] = link(previous, canonical_json(body))
        found += canonical_json(body) + b"\n"
    return found


def forge(repository: Repository, name: str, system: str) -> None:
    """Exchange text and manifest by hand, so that they fit each other."""
    other = Repository.at(repository.root.parent / "forged")
    shutil.rmtree(other.fixtures, ignore_errors=True)
    other.record(name, system)
    for path in (other.fixtures / "prompts").iterdir():
        shutil.copy(path, repository.fixtures / "prompts" / path.name)
    manifest = repository.fixtures / "prompts" / f"{name}.chatml.json"
    lines = manifest.read_bytes().splitlines(keepends=True)
    unsigned = [b'"signed":null,\n' if line.startswith(b'"signed"') else line for line in lines]
    manifest.write_bytes(b"".join(b'"n_signed":0,\n' if line.startswith(b'"n_signed"') else line for line in unsigned))


def recorded_again(repository: Repository) -> None:
    """Ledger and all: what it knows cannot be recorded anew."""
    shutil.rmtree(repository.fixtures)
    repository.record("head", NEW)
    repository.record("tail", "Be very brief.")


def renamed(repository: Repository) -> None:
    repository.delete("head")
    repository.record("start", NEW)


def edited(repository: Repository) -> None:
    forge(repository, "head", NEW)


def text_edited(repository: Repository) -> None:
    path = repository.fixtures / "prompts" / "head.chatml.prompt"
    path.write_bytes(path.read_bytes().replace(b"careful", b"careless"))


def ledger_rewritten(repository: Repository) -> None:
    """The entry that recorded it is said to have recorded other bytes."""
    forge(repository, "head", NEW)
    path = repository.fixtures / "ledger.jsonl"
    new = sha256(repository.fixtures / "prompts" / "head.chatml.prompt")
    path.write_bytes(
        rewritten(path.read_bytes().splitlines(), lambda n, body: body.update({"sha256_new": new} if n == 0 else {}))
    )


def last_lines_removed(repository: Repository) -> None:
    forge(repository, "tail", NEW)
    path = repository.fixtures / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))


def reason_left_out(repository: Repository) -> None:
    """An entry as `sign` writes it, but for its reason."""
    repository.sign("head", NEW)
    path = repository.fixtures / "ledger.jsonl"
    lines = path.read_bytes().splitlines()
    data = rewritten(lines, lambda n, body: body.update({"reason": "recorded"} if n == 3 else {}))
    path.write_bytes(data)
    manifest = repository.fixtures / "prompts" / "head.chatml.json"
    digests = [json.loads(one[-1])["digest"].encode() for one in (lines, data.splitlines())]
    manifest.write_bytes(manifest.read_bytes().replace(*digests))


def another_dialect(repository: Repository) -> None:
    """The old file goes, and the prompt is recorded under another template's name."""
    for path in list((repository.fixtures / "prompts").glob("head.*")):
        path.write_bytes(path.read_bytes().replace(b'"dialect":"chatml"', b'"dialect":"mine"'))
        path.rename(path.with_name(path.name.replace("chatml", "mine")))


def entry_for_other_bytes(repository: Repository) -> None:
    """Signed once, and edited afterwards."""
    repository.sign("head", "You are kind.")
    forge(repository, "head", NEW)


def deleted(repository: Repository) -> None:
    repository.delete("head")


WAYS: dict[str, tuple[Callable[[Repository], None], str]] = {
    "recorded again": (recorded_again, "its bytes moved"),
    "deleted": (deleted, "it is gone"),
    "renamed": (renamed, "it is gone"),
    "edited by hand": (edited, "its bytes moved"),
    "text edited by hand": (text_edited, "its bytes moved"),
    "ledger rewritten": (ledger_rewritten, "its bytes moved"),
    "another dialect": (another_dialect, "it is gone"),
    "no reason": (reason_left_out, "entry 4 gives no reason"),
    "signed, then edited": (entry_for_other_bytes, "its bytes moved"),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_around_the_ledger_ends_green(repository: Repository, way: str) -> None:
    """The prompt is named, with its dialect, both digests and what to do."""
    act, fault = WAYS[way]
    old = sha256(repository.fixtures / "prompts" / "head.chatml.prompt")
    act(repository)
    text = repository.fixtures / "prompts" / "head.chatml.prompt"
    new = sha256(text)[:12] if text.exists() else "nothing"
    assert f"head.chatml ({old[:12]} → {new}): {fault}" in told(repository)
    repository.commit()
    assert f"head.chatml ({old[:12]} → {new}): {fault}" in told_of_the_commit_before(repository)


def told_of_the_commit_before(repository: Repository) -> str:
    return "\n".join(map(str, audit_prompts(repository.fixtures, "HEAD~1").faults))


def test_a_ledger_that_lost_or_changed_lines_is_named(repository: Repository) -> None:
    """With the line; what it signs is not believed."""
    last_lines_removed(repository)
    assert "ledger.jsonl: line 2 is not the base's" in told(repository) and "tail.chatml (" in told(repository)
    repository.git("checkout", "-q", ".")
    ledger_rewritten(repository)
    assert "ledger.jsonl: line 1 is not the base's" in told(repository)


def test_another_folder_is_no_way_around_either(repository: Repository) -> None:
    """The old one is compared too; while it stands, a new one proves nothing; moved whole, it is what it was."""
    repository.record("head", NEW, "other")
    assert "other: the base has no prompts here, but in fixtures" in told(repository, "other")
    shutil.rmtree(repository.root / "other")
    repository.fixtures.rename(repository.root / "other")
    assert told(repository, "other") == ""
    assert "head.chatml" in told(repository) and "it is gone" in told(repository)
    repository.delete("head", "other")
    assert "it is gone" in told(repository, "other")


def test_signed_changes_pass(repository: Repository) -> None:
    """Moved, moved twice, appended to, removed, renamed, new, and nothing at all."""
    assert told(repository) == ""
    repository.sign("head", NEW)
    repository.sign("head", NEW + " And slow.")
    repository.record("third", "Mend.")
    prompts, ledger = SnapshotFolder(repository.fixtures / "prompts"), Ledger(repository.fixtures / "ledger.jsonl")
    remove_prompt(prompts, ledger, "tail", "it is called end now")
    repository.record("end", "Be very brief.")
    assert told(repository) == ""
    repository.commit()
    assert told_of_the_commit_before(repository) == ""


def test_a_prompt_that_was_recorded_before_there_were_entries_stands(repository: Repository) -> None:
    """Until it moves; a new one without an entry does not."""
    repository.fixtures.joinpath("ledger.jsonl").unlink()
    repository.delete("tail")
    forge(repository, "head", OLD)
    forge(repository, "tail", "Be brief.")
    repository.commit()
    assert told(repository) == ""
    repository.delete("head")
    repository.record("head", NEW)
    assert "head.chatml (" in told(repository) and "entry 1 leads from nothing, which it was not" in told(repository)
    repository.git("checkout", "-q", ".")
    repository.fixtures.joinpath("ledger.jsonl").unlink()
    assert repository.sign("head", NEW) == "" and told(repository) == ""
    forge(repository, "third", "Mend.")
    assert "third.chatml (nothing → " in told(repository) and "no entry of the ledger records it" in told(repository)


def test_a_shallow_clone_says_what_to_fetch(repository: Repository, tmp_path: Path) -> None:
    """And a name that is none, and a folder that is in no repository."""
    repository.commit()
    url = repository.root.as_uri()
    subprocess.run(["git", "clone", "-q", "--depth=1", "--single-branch", url, str(tmp_path / "c")], check=True)
    with pytest.raises(NoBase, match=r"shallow.*git fetch --depth=1 origin \+dev:refs/remotes/origin/dev"):
        audit_prompts(tmp_path / "c" / "fixtures", "origin/dev")
    assert audit_prompts(tmp_path / "c" / "fixtures", "origin/main").faults == ()
    for ref in ("nosuch", "--all", "", "main:fixtures"):
        with pytest.raises(NoBase, match="is no commit of this clone"):
            audit_prompts(repository.fixtures, ref)
    with pytest.raises(NoBase, match="in no repository"):
        audit_prompts(tmp_path / "fixtures", "main")


def test_nothing_of_the_repository_is_run(repository: Repository, tmp_path: Path) -> None:
    """Hooks, a file system monitor and text conversions are programs too."""
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "diff.odd.textconv", "filter.odd.smudge", "filter.odd.clean"):
        repository.git("config", name, str(trap))
    repository.root.joinpath(".git/info/attributes").write_text("* diff=odd filter=odd\n", encoding="utf-8")
    shutil.copy(trap, repository.root / ".git" / "hooks" / "post-checkout")
    assert told(repository) == "" and not (tmp_path / "sprung").exists()


def test_a_manifest_with_the_ids_of_another_text_is_named(repository: Repository) -> None:
    """Where the tokenizer of the dialect is at hand."""
    from tests.tokens.training import gpt2

    dialects = repository.fixtures / "dialects"
    dialects.mkdir()
    template = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    dialects.joinpath("chatml.jinja").write_text(f"{template}{{% if add_generation_prompt %}}> {{% endif %}}", "utf-8")
    dialects.joinpath("chatml.tokenizer.json").write_bytes(gpt2().to_str().encode())
    repository.record("counted", "Count on me.")
    assert told(repository) == ""
    manifest = repository.fixtures / "prompts" / "counted.chatml.json"
    fields = json.loads(manifest.read_bytes())
    ids = canonical_json(fields["ids"])
    manifest.write_bytes(manifest.read_bytes().replace(ids, canonical_json([*fields["ids"][:-1], 5])))
    assert "counted.chatml" in told(repository) and "ids of its manifest are not those of its text" in told(repository)
