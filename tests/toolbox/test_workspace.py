"""The workspace: what leads out is refused, and no absolute path is ever shown."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oasis_harness.registry import Effect, ToolRefused
from oasis_harness.toolbox import Workspace, workspace_tools

steps = st.sampled_from(
    ["..", ".", "", "inside", "out", "secret.txt", "loop", "a\0b", "~", "\udcff", "x" * 300, "deep"]
)
paths = st.lists(steps | st.text(max_size=4), max_size=7).map("/".join)
same_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)  # only read by the examples


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a secret, with symlinks that lead to it."""
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "out.d").mkdir()
    (tmp_path / "out.d" / "secret.txt").write_text("SECRET")
    root = tmp_path / "work"
    (root / "inside" / "deep").mkdir(parents=True)
    (root / "inside" / "a.txt").write_text("open\n")
    (root / "out").symlink_to(tmp_path / "out.d")
    (root / "inside" / "out").symlink_to("../../secret.txt")
    (root / "loop").symlink_to("loop")
    (root / "link.txt").symlink_to("inside/a.txt")
    return root


@same_folder
@given(path=paths)
def test_no_path_resolves_outside(root: Path, path: str) -> None:
    workspace = Workspace(root)
    try:
        target = workspace.resolve(path)
    except ToolRefused:
        return
    assert target == workspace.root or workspace.root in target.parents
    assert str(root.parent) not in workspace.shown(target)


@pytest.mark.slow
@same_folder
@given(path=paths, tool=st.sampled_from(["read_file", "list_dir", "search"]))
def test_no_path_reads_outside_or_shows_an_absolute_path(root: Path, path: str, tool: str) -> None:
    keywords = {"path": path, "pattern": "."} if tool == "search" else {"path": path}
    found = workspace_tools(root).get(tool)
    assert found is not None
    try:
        text = found._function(**keywords)  # past the validation, which refuses some of these paths itself
    except ToolRefused as refusal:
        text = str(refusal)
    assert isinstance(text, str) and "SECRET" not in text
    assert str(root.parent) not in text


@pytest.mark.slow
@same_folder
@given(path=paths)
def test_no_path_writes_or_edits_outside(root: Path, path: str) -> None:
    tools = workspace_tools(root)
    for name, arguments in [("write_file", {"content": "x"}), ("edit_file", {"old": "SECRET", "new": "x"})]:
        tool = tools.get(name)
        assert tool is not None
        try:
            tool._function(path=path, **arguments)
        except ToolRefused:
            continue
    assert (root.parent / "secret.txt").read_text() == "SECRET"
    assert sorted(entry.name for entry in root.parent.iterdir()) == ["out.d", "secret.txt", "work"]
    assert [entry.name for entry in (root.parent / "out.d").iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("path", ["..", "../secret.txt", "inside/../../secret.txt", "/etc/passwd", "out", "inside/out"])
def test_an_escape_is_refused_by_name(root: Path, path: str) -> None:
    with pytest.raises(ToolRefused, match=r"is outside the workspace\. Send a path relative to it"):
        Workspace(root).resolve(path)


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_what_is_no_path_is_refused(root: Path, path: str) -> None:
    with pytest.raises(ToolRefused, match="not a usable path"):
        Workspace(root).resolve(path)


def test_a_sibling_with_the_same_beginning_is_outside(root: Path) -> None:
    (root.parent / "workshop").mkdir()
    with pytest.raises(ToolRefused, match="outside"):
        Workspace(root).resolve("../workshop")


def test_dots_symlinks_and_absolute_paths_that_stay_inside_are_followed(root: Path) -> None:
    workspace = Workspace(root)
    for path in ["inside/../inside/a.txt", str(workspace.root / "inside" / "a.txt"), "link.txt", "./inside//a.txt"]:
        assert workspace.shown(workspace.resolve(path)) == "inside/a.txt"


def test_a_root_that_is_a_symlink_is_one_workspace(root: Path) -> None:
    (root.parent / "alias").symlink_to(root)
    assert Workspace(root.parent / "alias") == Workspace(root)


def test_a_root_that_is_no_folder_is_refused(root: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"is not a folder\. Create it"):
        workspace_tools(root / "inside" / "a.txt")


def test_a_missing_file_names_the_nearest_folder(root: Path) -> None:
    with pytest.raises(ToolRefused) as caught:
        Workspace(root).existing("inside/no/such.py")
    assert str(caught.value) == 'There is no inside/no/such.py. list_dir(path="inside") shows what there is.'


def test_a_path_through_a_file_is_missing(root: Path) -> None:
    with pytest.raises(ToolRefused, match=r"There is no inside/a\.txt/x"):
        Workspace(root).existing("inside/a.txt/x")


def test_an_error_of_the_system_loses_its_absolute_path(root: Path) -> None:
    with pytest.raises(ToolRefused) as caught:
        Workspace(root).existing("x" * 300)
    assert str(root) not in str(caught.value) and "name too long" in str(caught.value)


def test_odd_bytes_in_a_name_are_shown_escaped(root: Path) -> None:
    name = os.fsdecode(b"a\nb\x07.txt")
    (root / name).write_text("x")
    workspace = Workspace(root)
    assert workspace.shown(workspace.root / name) == "a\\x0ab\\x07.txt"
    assert workspace.shown(workspace.root / os.fsdecode(b"\xff")) == "\\xff"


def test_the_six_tools_have_the_effects_that_the_loop_asks_about(tmp_path: Path) -> None:
    effects = {tool.name: tool.effect for tool in workspace_tools(tmp_path)}
    assert effects == {
        "edit_file": Effect.WRITE,
        "list_dir": Effect.READ,
        "read_file": Effect.READ,
        "search": Effect.READ,
        "shell": Effect.EXECUTE,
        "write_file": Effect.WRITE,
    }


def test_the_six_schemas_stay_small(tmp_path: Path) -> None:
    """A small model pays for every byte of them, once."""
    assert sum(len(tool.schema) for tool in workspace_tools(tmp_path)) < 2_000
