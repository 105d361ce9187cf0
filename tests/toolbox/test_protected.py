"""What the tools that write leave alone, by whatever name it is reached."""

import os
import subprocess
from pathlib import Path

import pytest

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox import Workspace
from oasis_harness.toolbox.files import FileTools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a repository, and with a conversation and skills of the harness's."""
    root = tmp_path / "work"
    for name in [".git/config", ".git/hooks/sample", "sub/.hg/hgrc", "c.jsonl", "skills/a/SKILL.md", "src/a.py"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("old\n")
    return root


def refusals(root: Path, path: str, protected: tuple[Path, ...] = ()) -> list[str]:
    """Return what each tool that writes says of `path`; each has to refuse it."""
    files = FileTools(Workspace(root, protected))
    with pytest.raises(ToolRefused) as written:
        files.write_file(path, "x")
    with pytest.raises(ToolRefused) as edited:
        files.edit_file(path, "old", "new")
    return [str(written.value), str(edited.value)]


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".git/hooks/pre-commit", ".git/hooks/sample", "./src/../.git/config", ".git", "sub/.hg/hgrc",
        "sub/.git/config", ".svn/entries", ".GIT/config", ".Git/hooks/x", "src/.ＧＩＴ/x", ".g\u200cit/config",
    ],
)  # fmt: skip
def test_folders_of_version_control_are_not_written(root: Path, path: str) -> None:
    """Those that exist, those that a write would make, and names that some file system takes for theirs."""
    assert all("version control" in said for said in refusals(root, path))
    assert (root / ".git" / "config").read_text() == "old\n" and not (root / "sub" / ".git").exists()


def test_they_are_not_written_under_another_name(root: Path) -> None:
    (root / "link").symlink_to(".git")
    (root / "file").symlink_to(".git/config")
    (root / "sub" / "meta").mkdir()
    (root / "sub" / ".svn").symlink_to("meta")
    for path in ["link/config", "link/hooks/new", "file", "sub/meta/entries", "sub/meta"]:
        assert all("version control" in said for said in refusals(root, path)), path


def test_a_folder_that_a_gitfile_names_is_not_written(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--separate-git-dir", tmp_path / "meta", tmp_path], check=True)
    assert all("version control" in said for said in refusals(tmp_path, "meta/hooks/pre-commit"))
    assert all("version control" in said for said in refusals(tmp_path, ".git"))


@pytest.mark.parametrize("said", [b"", b"gitdir: a\0b", b"gitdir: " + b"x" * 5_000, b"\xff", None])
def test_a_gitfile_that_names_nothing_keeps_nothing_from_being_written(tmp_path: Path, said: bytes | None) -> None:
    """None is a pipe, which nobody writes to."""
    if said is None:
        os.mkfifo(tmp_path / ".git")
    else:
        (tmp_path / ".git").write_bytes(said)
    assert FileTools(Workspace(tmp_path)).write_file("a.py", "x\n") == "Created a.py, 1 lines."


def test_names_that_are_only_alike_are_written(root: Path) -> None:
    files = FileTools(Workspace(root))
    for path in [".gitignore", ".github/workflow.yml", "git/config", "src/.gitkeep", "x.git/y"]:
        assert files.write_file(path, "x\n") == f"Created {path}, 1 lines."


def test_a_hard_link_is_not_written(root: Path) -> None:
    """Its other name may be .git/config, or a file outside."""
    (root.parent / "secret").write_text("old\n")
    os.link(root / ".git" / "config", root / "notes.txt")
    os.link(root.parent / "secret", root / "src" / "b.txt")
    for path in ["notes.txt", "src/b.txt"]:
        assert "is a hard link" in refusals(root, path)[1]
    assert (root / ".git" / "config").read_text() == (root.parent / "secret").read_text() == "old\n"


@pytest.mark.parametrize(
    "path", ["c.jsonl", "skills/a/SKILL.md", "skills/b/SKILL.md", "link.jsonl", "C.JSONL", "new.ledger"]
)
def test_what_the_caller_protects_is_not_written(root: Path, path: str) -> None:
    """Files and folders, existing or not, and by another name."""
    (root / "link.jsonl").symlink_to("c.jsonl")
    protected = (root / "c.jsonl", root / "skills", root / "new.ledger")
    assert all("the harness keeps it for itself" in said for said in refusals(root, path, protected))
    assert FileTools(Workspace(root, protected)).edit_file("src/a.py", "old", "new") == "Edited src/a.py, line 1."


def test_a_protected_path_is_read_from_where_the_caller_stands(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "src")
    assert Workspace(root, (Path("../c.jsonl"),)).protected == (root.resolve() / "c.jsonl",)


def test_what_is_protected_can_be_read(root: Path) -> None:
    files = FileTools(Workspace(root, (root / "c.jsonl",)))
    assert files.read_file("c.jsonl") == files.read_file(".git/config") == "old"
