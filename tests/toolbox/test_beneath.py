"""Paths are opened step by step: what is swapped for a symlink between check and use leads nowhere."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox import Workspace
from oasis_harness.toolbox.beneath import folder_beneath, open_beneath, open_root, opened, read_beneath
from oasis_harness.toolbox.files import FileTools
from oasis_harness.toolbox.search import SearchTools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a folder with a secret, with a folder that can be swapped for a symlink to it."""
    for name, text in [("outside/a.txt", "SECRET"), ("work/d/a.txt", "open"), ("work/spare/a.txt", "open")]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "work"


def swap(root: Path) -> None:
    """Put a symlink to the secret folder where the folder `d` was."""
    (root / "d").rename(root / "away")
    (root / "d").symlink_to(root.parent / "outside")


def test_a_folder_that_was_swapped_after_the_check_is_not_entered(root: Path) -> None:
    workspace = Workspace(root)
    target = workspace.resolve("d/a.txt")
    swap(root)
    for makes in (False, True):
        with pytest.raises(ToolRefused, match=r"^d/a\.txt: "), workspace.folder_of(target, makes=makes):
            pass


def test_a_folder_that_is_open_stays_the_same(root: Path) -> None:
    workspace = Workspace(root)
    target = workspace.resolve("d/a.txt")
    with workspace.folder_of(target) as folder:
        swap(root)
        assert workspace.read_in(folder, target) == b"open"


def test_a_file_that_was_swapped_for_a_symlink_is_not_read(root: Path) -> None:
    workspace = Workspace(root)
    target = workspace.resolve("d/a.txt")
    with workspace.folder_of(target) as folder:
        target.unlink()
        target.symlink_to(root.parent / "outside" / "a.txt")
        with pytest.raises(ToolRefused, match="not a regular file"):
            workspace.read_in(folder, target)
        with pytest.raises(OSError, match="symbolic links"):
            read_beneath(folder, ["a.txt"], 100)


@pytest.mark.parametrize("part", ["..", ".", "", "a/b", "/etc"])
def test_only_names_are_steps(root: Path, part: str) -> None:
    with opened(open_root(root)) as folder:
        for parts in ([part], [part, "a.txt"], ["d", part]):
            with pytest.raises(OSError, match="Invalid argument"):
                open_beneath(folder, parts, os.O_RDONLY)
            with pytest.raises(OSError, match="Invalid argument"):
                folder_beneath(folder, parts, makes=True)


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with opened(open_root(root)) as folder:
        assert read_beneath(folder, ["pipe"], 100) is None


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_be_passed_but_not_listed_is_passed(root: Path) -> None:
    (root / "d").chmod(stat.S_IXUSR)
    try:
        assert FileTools(Workspace(root)).read_file("d/a.txt") == "open"
    finally:
        (root / "d").chmod(0o700)


_SWAPS = """
import contextlib, itertools, os, sys
os.chdir(sys.argv[1])
os.symlink(sys.argv[2], "link")
names = map("junk{}".format, itertools.count())
for old, new in itertools.cycle([("d", "away"), ("link", "d"), ("d", "link"), ("away", "d")]):
    while True:
        try:
            os.rename(old, new)
            break
        except OSError:  # a tool has made the folder meanwhile
            with contextlib.suppress(FileNotFoundError):
                os.rename(new, next(names))
"""


@contextmanager
def swapping(root: Path) -> Iterator[None]:
    """Have another process swap `d` for a symlink that leads out, and back, as fast as it can."""
    process = subprocess.Popen([sys.executable, "-S", "-c", _SWAPS, root, root.parent / "outside"])
    try:
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_no_race_reads_or_writes_outside(root: Path) -> None:
    files, n_done, said = FileTools(Workspace(root)), 0, set[str]()
    deadline = time.monotonic() + 1.5
    calls: list[Callable[[], str]] = [
        lambda: files.read_file("d/a.txt"),
        lambda: files.list_dir("d"),
        lambda: files.write_file(f"d/new{n_done}.txt", "x"),
        lambda: files.write_file(f"d/sub{n_done}/new.txt", "x"),
        lambda: files.edit_file("d/a.txt", "open", "open"[::-1]),
        lambda: files.edit_file("d/a.txt", "nepo", "open"),
    ]
    with swapping(root):
        while time.monotonic() < deadline:
            for call in calls:
                with suppress(ToolRefused):
                    said.add(call())
            n_done += 1
    assert n_done > 20 and "SECRET" not in said
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["a.txt"]
    assert (root.parent / "outside" / "a.txt").read_text() == "SECRET"


@pytest.mark.slow
def test_no_race_searches_outside(root: Path) -> None:
    with swapping(root):
        found = [SearchTools(Workspace(root)).search("SECRET") for _ in range(10)]
    assert not any("SECRET" in one for one in found)
