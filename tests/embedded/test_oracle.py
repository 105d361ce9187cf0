"""What is reused equals what would be computed: the slice oracle, on every kind of cache and under both BLAS."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .tiny import FAMILIES, write_tiny_model

pytest.importorskip("mlx.core")


def oracle(folder: Path, blas: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.embedded.oracle", str(folder)],
        env={**os.environ, "OASIS_BLAS": blas},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def assert_exact(result: dict[str, Any], n_turns: int = 12) -> None:
    assert result["max_delta"] == 0.0
    assert result["deficits"] == [0] * n_turns
    assert result["is_one_stream"]
    assert result["n_slices"] > n_turns


@pytest.mark.slow
@pytest.mark.parametrize("blas", ["auto", "reference"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_reused_conversation_equals_a_cold_run_in_the_same_slices(family: str, blas: str, tmp_path: Path) -> None:
    """Twelve turns of a tiny model, every cache kind, every BLAS: max |Δlogit| is 0."""
    assert_exact(oracle(write_tiny_model(tmp_path / family, family), blas))


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("blas", ["auto", "reference"])
def test_the_real_model_reuses_exactly(default_model: Path, blas: str) -> None:
    """The same twelve turns on the real default model."""
    result = oracle(default_model, blas)
    assert_exact(result)
    assert result["blas"] == "reference" or blas == "auto" or sys.platform == "darwin"
