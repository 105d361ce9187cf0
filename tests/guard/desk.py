"""A person's desk: an environment that says nothing of CI, wherever the suite itself runs."""

import os

import pytest

from oasis_harness.guard.review.ci import CI_VARIABLES

__all__ = ["desk_environment", "leave_ci"]


def leave_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every variable that says CI out of this process, for one test."""
    for name in CI_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def desk_environment() -> dict[str, str]:
    """Return the environment of a process at somebody's desk, without pytest's own variables."""
    return {name: value for name, value in os.environ.items() if name not in CI_VARIABLES and name[:7] != "PYTEST_"}
