"""What it takes to run a suite of another folder in the process of a test."""

import importlib
import pkgutil
import re

import pytest

import oasis_harness


@pytest.fixture(scope="session")
def everything_loaded() -> None:
    """Import ours before pytester, which unloads what is imported while it is there: a class twice is no class."""
    for module in pkgutil.walk_packages(oasis_harness.__path__, "oasis_harness."):
        if not re.search(r"\.(__main__|embedded\b.*)$", module.name):  # mlx comes in behind its BLAS, or not at all
            importlib.import_module(module.name)
