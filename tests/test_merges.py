"""No merge was committed half done."""

import re
from pathlib import Path
from subprocess import run

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"^(<{7} |>{7} |\|{7} )", re.MULTILINE)


def test_no_tracked_file_holds_the_marks_of_a_conflict() -> None:
    """A docstring between two of them is still valid Python, and a table in Markdown still renders."""
    listed = run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    texts = {name: (ROOT / name).read_bytes().decode("utf-8", "replace") for name in filter(None, listed)}
    assert "README.md" in texts
    assert [name for name, text in texts.items() if MARK.search(text)] == []
