"""Tiny engines of every family, loaded once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .tiny import FAMILIES, write_tiny_model

if TYPE_CHECKING:
    from oasis_harness.embedded.runtime import MlxEngine


@pytest.fixture(scope="session", params=FAMILIES)
def tiny_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of each family in turn."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / request.param, request.param)


@pytest.fixture(scope="session")
def tiny_engine(tiny_folder: Path) -> Iterator["MlxEngine"]:
    """A loaded engine of each family in turn."""
    from oasis_harness.embedded.runtime import MlxEngine

    with MlxEngine(tiny_folder, chunk_size=16) as engine:
        yield engine


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator["MlxEngine"]:
    """A loaded tiny llama."""
    from oasis_harness.embedded.runtime import MlxEngine

    with MlxEngine(write_tiny_model(tmp_path_factory.mktemp("models") / "llama", "llama"), chunk_size=16) as engine:
        yield engine
