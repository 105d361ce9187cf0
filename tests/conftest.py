"""Fixtures and the Hypothesis profiles of the whole suite.

`dev` is for the one who waits for it; `ci` is what proves, and the one that runs where CI is set. HYPOTHESIS_PROFILE
names the other, or Hypothesis' own option `--hypothesis-profile`.
"""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for profile, n_examples in (("dev", 20), ("ci", 60)):
    settings.register_profile(
        profile,
        max_examples=n_examples,
        deadline=None,
        derandomize=True,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The folder of the real default model, fetched once into the user's cache."""
    from oasis_harness.embedded import DEFAULT_MODEL, load_blas, pull_model

    load_blas()
    return pull_model(DEFAULT_MODEL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a parallel run begin with the tests of the real model, which take longest, each file's on one worker.

    A reply is decoded on one core, so two files do not disturb each other.
    """
    for item in items:
        if item.get_closest_marker("model"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: item.get_closest_marker("model") is None)


def pytest_configure() -> None:
    """Let Ctrl-C reach the tests of it: a run that a shell started in the background begins with interrupts ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
