"""A file is put in place whole, with the permissions it should have, or the old one stays."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oasis_harness.whole_file import read_whole, write_whole


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_parts_are_the_whole_content(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"a much longer old content")
    write_whole(target, [b"new ", b"content"])
    assert target.read_bytes() == b"new content"
    assert names(tmp_path) == ["file"]


def test_permissions_stay_are_usual_or_are_given(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_whole(target, [b"new"])
    (tmp_path / "usual").touch()
    assert mode(target) == mode(tmp_path / "usual")
    target.chmod(0o751)
    write_whole(target, [b"again"])
    assert mode(target) == 0o751
    write_whole(target, [b"mine"], mode=0o600)
    assert mode(target) == 0o600


def test_a_failure_half_way_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"first"
        raise KeyboardInterrupt

    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_whole(target, parts())
    assert (target.read_bytes(), names(tmp_path)) == (b"old", ["file"])


def test_a_name_as_long_as_the_file_system_allows_can_be_written(tmp_path: Path) -> None:
    """The name beside it is its own: a prefix of the target's would be longer than 255 bytes."""
    target = tmp_path / ("n" * 255)
    write_whole(target, [b"x"])
    assert target.read_bytes() == b"x"


def test_a_name_in_an_open_folder_is_written_there_wherever_that_is_moved(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"old")
    (tmp_path / "folder" / "file").chmod(0o751)
    folder = os.open(tmp_path / "folder", os.O_RDONLY)
    (tmp_path / "folder").rename(tmp_path / "moved")
    write_whole(Path("file"), [b"new"], folder=folder)
    os.close(folder)
    assert (tmp_path / "moved" / "file").read_bytes() == b"new"
    assert names(tmp_path / "moved") == ["file"] and mode(tmp_path / "moved" / "file") == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_the_owner_stays(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    os.chown(target, 1234, 2345)
    target.chmod(0o4751)
    write_whole(target, [b"new"])
    found = target.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, 2345, 0o4751)


def test_extended_attributes_stay(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    if not hasattr(os, "setxattr"):
        pytest.skip("Python knows extended attributes on Linux only")
    try:
        os.setxattr(target, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    write_whole(target, [b"new"])
    assert (target.read_bytes(), os.getxattr(target, "user.origin")) == (b"new", b"here")


def test_a_file_is_read_whole_up_to_a_bound(tmp_path: Path) -> None:
    """One byte more is refused, and so is a file that says it is empty and is not."""
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_whole(tmp_path / "file", n_most_bytes=10) == b"x" * 10
    for path in (tmp_path / "file", Path("/proc/self/environ")):
        if path.exists():
            with pytest.raises(OSError, match="it has more than 9 bytes"):
                read_whole(path, n_most_bytes=9)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe has no writer, a device no end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is no regular file"):
            read_whole(path, n_most_bytes=9)
    with pytest.raises(IsADirectoryError):
        read_whole(tmp_path, n_most_bytes=9)
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "none", n_most_bytes=9)
