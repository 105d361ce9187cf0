"""What pyproject.toml says twice, it says alike."""

import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def test_a_tool_is_bounded_alike_in_its_group_and_in_its_extra() -> None:
    """A group cannot name an extra, so its lines are repeated there."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    assert set(PROJECT["dependency-groups"]["lint"]) <= {line for extra in extras for line in extra}
