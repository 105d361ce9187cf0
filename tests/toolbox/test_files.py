"""Reading, listing and writing: bounded, deterministic, and each refusal names the next call."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox import Workspace
from oasis_harness.toolbox.files import FileTools
from oasis_harness.toolbox.workspace import MAX_FILE_BYTES


@pytest.fixture
def files(tmp_path: Path) -> FileTools:
    return FileTools(Workspace(tmp_path))


def put(files: FileTools, name: str, data: bytes | str) -> Path:
    path = files.workspace.root / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# read_file

lines = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\ufeff"), max_size=10)


@settings(deadline=None)
@given(
    st.lists(lines, min_size=1, max_size=30), st.integers(-2, 40), st.integers(-2, 40), st.sampled_from(["\n", "\r\n"])
)
def test_reading_gives_exactly_the_lines_asked_for(
    tmp_path_factory: pytest.TempPathFactory, content: list[str], offset: int, limit: int, line_end: str
) -> None:
    files = FileTools(Workspace(tmp_path_factory.mktemp("read")))
    content[-1] += "."  # a last line that is empty would be the end of the line before it
    put(files, "a.txt", line_end.join(content))
    first = max(offset, 1) - 1
    if first >= len(content):
        with pytest.raises(ToolRefused, match=f"a.txt ends at line {len(content)}, before line {first + 1}"):
            files.read_file("a.txt", offset, limit)
        return
    wanted = content[first : first + max(limit, 1)]
    read = files.read_file("a.txt", offset, limit).split("\n")
    assert read[: len(wanted)] == wanted
    assert len(read) == len(wanted) + (len(wanted) < len(content))


def test_a_cut_says_what_was_shown_and_how_to_go_on(files: FileTools) -> None:
    put(files, "a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    assert files.read_file("a.txt", 3, 2) == "line 3\nline 4\n[lines 3-4 of 10, continue with offset=5]"
    assert files.read_file("a.txt", 9) == "line 9\nline 10\n[lines 9-10 of 10]"
    assert not files.read_file("a.txt").endswith("]")


def test_long_lines_and_long_files_are_bounded(files: FileTools) -> None:
    put(files, "a.txt", ("x" * 1_000_000 + "\n") + ("y" * 400 + "\n") * 1_000)
    text = files.read_file("a.txt", limit=100_000)
    assert len(text) < 17_000
    assert "x… [999500 more characters]\n" in text
    assert text.endswith("[lines 1-39 of 1001, continue with offset=40]")


def test_form_feeds_and_other_separators_are_no_line_ends(files: FileTools) -> None:
    put(files, "a.txt", "a\x0cb\u2028c\x85d\n")
    assert files.read_file("a.txt") == "a\x0cb\u2028c\x85d"


def test_byte_order_mark_goes_and_bad_utf8_is_shown(files: FileTools) -> None:
    put(files, "a.txt", b"\xef\xbb\xbfcaf\xe9\r\n")
    assert files.read_file("a.txt") == "caf\\xe9"


def test_an_empty_file_says_so(files: FileTools) -> None:
    put(files, "a.txt", b"")
    assert files.read_file("a.txt") == "[empty file]"


def test_binary_oversized_and_special_files_are_refused(files: FileTools) -> None:
    put(files, "a.bin", b"a" * 10_000 + b"\0")
    with put(files, "big.txt", b"").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    os.mkfifo(files.workspace.root / "pipe")
    for name, fault in [("a.bin", "binary file of 10001 bytes"), ("big.txt", "too many to read"), ("pipe", "regular")]:
        with pytest.raises(ToolRefused, match=fault):
            files.read_file(name)


def test_reading_a_folder_points_to_list_dir(files: FileTools) -> None:
    (files.workspace.root / "src").mkdir()
    with pytest.raises(ToolRefused, match=r'src is a folder. Use list_dir\(path="src"\)'):
        files.read_file("src")


# list_dir


def test_a_listing_is_in_byte_order_with_slashes_on_folders(files: FileTools) -> None:
    for name in ["b.txt", "B.txt", "ä.txt", "a.txt"]:
        put(files, name, "")
    (files.workspace.root / "a").mkdir()
    (files.workspace.root / "link").symlink_to("a")
    assert files.list_dir() == "B.txt\na/\na.txt\nb.txt\nlink\nä.txt"
    assert files.list_dir("a") == "[empty folder]"


def test_a_long_listing_is_cut_and_says_so(files: FileTools) -> None:
    for number in range(250):
        put(files, f"{number:03}", "")
    listing = files.list_dir().split("\n")
    assert listing[199:] == ["199", "[200 of 250 entries; use search or shell for the others]"]


def test_listing_a_file_points_to_read_file(files: FileTools) -> None:
    put(files, "a.txt", "")
    with pytest.raises(ToolRefused, match=r'a.txt is a file. Use read_file\(path="a.txt"\)'):
        files.list_dir("a.txt")


# write_file


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_what_is_written_is_what_was_given(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    """No line end is translated, on any platform."""
    files = FileTools(Workspace(tmp_path_factory.mktemp("write")))
    files.write_file("new.txt", content)
    assert (files.workspace.root / "new.txt").read_bytes() == content.encode()


def test_parents_are_made_and_the_lines_counted(files: FileTools) -> None:
    assert files.write_file("a/b/c.py", "x\ny\n") == "Created a/b/c.py, 2 lines."
    assert files.write_file("a/b/d.py", "x\ny") == "Created a/b/d.py, 2 lines."
    assert files.write_file("a/b/e.py", "") == "Created a/b/e.py, 0 lines."


def test_an_existing_file_stays_and_the_edit_call_is_shown(files: FileTools) -> None:
    put(files, "a.py", "old")
    with pytest.raises(ToolRefused, match=r'a.py exists already.*edit_file\(path="a.py", old='):
        files.write_file("a.py", "new")
    assert (files.workspace.root / "a.py").read_text() == "old"


def test_a_file_in_the_way_of_a_folder_is_named(files: FileTools) -> None:
    put(files, "a", "")
    with pytest.raises(ToolRefused, match=r"a/b\.txt: "):
        files.write_file("a/b.txt", "x")


# edit_file on disk (what is replaced by what is tested in test_edit.py)


def test_an_edit_keeps_mode_and_symlink_and_leaves_no_other_file(files: FileTools) -> None:
    path = put(files, "run.sh", "echo a\n")
    path.chmod(0o751)
    (files.workspace.root / "link.sh").symlink_to("run.sh")
    assert files.edit_file("link.sh", "echo a", "echo b") == "Edited run.sh, line 1."
    assert path.read_text() == "echo b\n" and stat.S_IMODE(path.stat().st_mode) == 0o751
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["link.sh", "run.sh"]
    assert (files.workspace.root / "link.sh").is_symlink()


def test_a_refused_edit_leaves_the_file_alone(files: FileTools) -> None:
    path = put(files, "a.py", "x = 1\n")
    before = path.stat()
    with pytest.raises(ToolRefused):
        files.edit_file("a.py", "y = 2", "y = 3")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_refused(files: FileTools) -> None:
    put(files, "a.py", "x = 1\n").chmod(0o444)
    with pytest.raises(ToolRefused, match=r"a\.py is read-only"):
        files.edit_file("a.py", "1", "2")
