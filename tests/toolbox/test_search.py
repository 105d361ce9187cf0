"""Search: every match of the naive way, in byte order of the paths, bounded."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.registry import ToolRefused
from oasis_harness.toolbox import Workspace
from oasis_harness.toolbox.process import child_command
from oasis_harness.toolbox.search import SearchTools

from .processes import children_of, started_python, wait_until, wait_until_dead


@pytest.fixture
def tools(tmp_path: Path) -> SearchTools:
    return SearchTools(Workspace(tmp_path))


def put(tools: SearchTools, name: str, data: bytes | str) -> None:
    path = tools.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


names = st.lists(st.sampled_from(["a", "b", "a.b", "B", "ä", "a-b"]), min_size=1, max_size=3).map(
    lambda s: "/".join(s) + ".t"
)


@settings(deadline=None)
@given(
    st.dictionaries(names, st.text("xyz\n", max_size=12), max_size=6), st.sampled_from(["x", "^y", "z$", "x|y", "q"])
)
def test_matches_are_those_of_the_naive_way(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, str], pattern: str
) -> None:
    tools = SearchTools(Workspace(tmp_path_factory.mktemp("search")))
    for name, text in contents.items():
        put(tools, name, text)
    naive = [
        f"{name}:{number}: {line}"
        for name in sorted(contents, key=str.encode)
        for number, line in enumerate(contents[name].split("\n"), start=1)
        if re.search(pattern, line)
    ]
    assert tools.search(pattern, limit=200) == ("\n".join(naive) or f"[no match in {len(contents)} files]")


def test_folders_of_version_control_and_caches_are_passed_over(tools: SearchTools) -> None:
    for name in [".git/config", "node_modules/m.js", "src/__pycache__/x.py", ".venv/y.py", ".github/w.yml", "src/a.py"]:
        put(tools, name, "needle")
    assert tools.search("needle") == ".github/w.yml:1: needle\nsrc/a.py:1: needle"
    assert tools.search("needle", ".git") == ".git/config:1: needle"  # unless asked for by name


def test_binary_files_and_symlinks_are_passed_over(
    tools: SearchTools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("outside")
    (secret / "s.txt").write_text("needle")
    put(tools, "a.bin", b"needle\0")
    (tools.workspace.root / "link").symlink_to(secret)
    (tools.workspace.root / "link.txt").symlink_to(secret / "s.txt")
    (tools.workspace.root / "self").symlink_to(".")
    assert tools.search("needle") == "[no match in 1 files]"


def test_one_file_can_be_searched(tools: SearchTools) -> None:
    put(tools, "a.py", "needle\r\nneedle two\r\n")
    put(tools, "b.py", "needle\n")
    assert tools.search("needle$", "a.py") == "a.py:1: needle"


def test_more_matches_than_the_limit_say_so(tools: SearchTools) -> None:
    put(tools, "a.txt", "x\n" * 1_000)
    assert tools.search("x", limit=2).split("\n") == [
        "a.txt:1: x",
        "a.txt:2: x",
        "[first 2 matches; narrow the pattern or the path to see others]",
    ]
    assert len(tools.search("x", limit=10**9).split("\n")) == 201
    assert len(tools.search("x", limit=-1).split("\n")) == 2


def test_a_long_line_is_cut_around_the_match(tools: SearchTools) -> None:
    put(tools, "a.js", "a" * 5_000 + "needle" + "b" * 5_000)
    assert tools.search("needle") == f"a.js:1: …{'a' * 80}needle{'b' * 114}…"


@settings(deadline=None)
@given(st.integers(0, 5_000), st.integers(0, 5_000))
def test_a_match_is_found_anywhere_in_a_long_line(
    tmp_path_factory: pytest.TempPathFactory, n_before: int, n_after: int
) -> None:
    """Long lines are searched in windows; none may fall between two."""
    tools = SearchTools(Workspace(tmp_path_factory.getbasetemp()))
    put(tools, "long.js", "a" * n_before + "needle" + "b" * n_after)
    assert "needle" in tools.search("need.e", "long.js")


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{2,1}", "(?P<x>", "\\", "a{99999999999999999999}"])
def test_an_invalid_expression_is_explained(tools: SearchTools, pattern: str) -> None:
    with pytest.raises(ToolRefused, match=r"is not a regular expression: .* put a backslash before each"):
        tools.search(pattern)


def test_bad_utf8_is_searched_and_shown_escaped(tools: SearchTools) -> None:
    put(tools, "a.txt", b"caf\xe9 needle")
    assert tools.search("needle") == "a.txt:1: caf\\xe9 needle"


def test_a_missing_path_is_refused(tools: SearchTools) -> None:
    with pytest.raises(ToolRefused, match="There is no src"):
        tools.search("x", "src")


# Time


RUNAWAY = "(a|a)*$"


def put_runaway(tools: SearchTools, name: str) -> None:
    """Write a line on which RUNAWAY takes 2 to the 60th steps."""
    put(tools, name, "a" * 60 + "b")


@pytest.mark.slow
def test_an_expression_that_runs_away_is_ended_and_what_was_found_is_said(tmp_path: Path) -> None:
    tools = SearchTools(Workspace(tmp_path), time_s=0.8)
    put(tools, "a.txt", "aa")
    put_runaway(tools, "b.txt")
    put(tools, "c.txt", "aa")
    start = time.monotonic()
    assert tools.search(RUNAWAY).split("\n") == [
        "a.txt:1: aa",
        "[time ran out after 0.8 s in b.txt; files before it: 1. Narrow the pattern or the path]",
    ]
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_one_line_of_ten_megabytes_does_not_hold_the_search(tmp_path: Path) -> None:
    tools = SearchTools(Workspace(tmp_path), time_s=0.5)
    put(tools, "a.txt", "y" * 9_999_999)
    assert tools.search(".*x").startswith("[time ran out after 0.5 s in a.txt; files before it: 0.")


@pytest.mark.slow
def test_an_expression_that_is_long_to_compile_is_ended_too(tmp_path: Path) -> None:
    tools = SearchTools(Workspace(tmp_path), time_s=0.5)
    assert tools.search("(?i)" + "[\0-\U0010ffff][^a]" * 1_000).startswith("[time ran out after 0.5 s; files")


_SEARCHES = """
import sys
from pathlib import Path
from oasis_harness.toolbox import Workspace
from oasis_harness.toolbox.search import SearchTools
try:
    SearchTools(Workspace(Path(sys.argv[1])), time_s=float(sys.argv[2])).search("(a|a)*$")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_search_and_leaves_no_process(tools: SearchTools, number: int) -> None:
    """Ctrl-C at once; where the harness had no say any more, the search ends by itself when its time is over."""
    put_runaway(tools, "a.txt")
    process = started_python(_SEARCHES, tools.workspace.root, 60 if number == signal.SIGINT else 0.5)
    assert wait_until(lambda: bool(children_of(process.pid)))
    searching = children_of(process.pid)
    process.send_signal(number)
    assert process.communicate(timeout=20)[0] == ("interrupted\n" if number == signal.SIGINT else "")
    assert all(map(wait_until_dead, searching))


def test_nothing_of_the_workspace_is_run_by_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = SearchTools(Workspace(tmp_path))
    for name in ["json.py", "re.py", "beneath.py", "sitecustomize.py"]:
        put(tools, name, "open('run', 'w')\nneedle\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert len(tools.search("needle").split("\n")) == 4
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_folder_that_is_too_deep_is_passed_over_and_said(tools: SearchTools) -> None:
    """Deeper than a path can be long, and deeper than Python calls functions."""
    put(tools, "a.txt", "needle")
    folder = os.open(tools.workspace.root, os.O_RDONLY)
    try:
        for _ in range(2_500):
            os.mkdir("deep", dir_fd=folder)
            inner = os.open("deep", os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        assert tools.search("needle") == "a.txt:1: needle\n[folders too deep to search: 1]"
    finally:
        os.close(folder)
        subprocess.run(["rm", "-rf", tools.workspace.root / "deep"], check=True)  # pytest's own cleaning up recurses


def test_the_process_that_searches_loads_the_standard_library_alone() -> None:
    """It is started without site packages; an import of the package would end it."""
    words = child_command("searching")
    report = "import sys; print([name for name in sys.modules if 'oasis' in name or 'pydantic' in name])"
    words[words.index("-c") + 1] = words[words.index("-c") + 1].replace(".main()", f"\n{report}")
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"
