"""Which BLAS is loaded is decided once, before mlx, and never one the CPU cannot run."""

import json
import os
import subprocess
import sys

import pytest

from oasis_harness.embedded.blas import cpu_flags

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="macOS has Accelerate and Metal")

_REPORT = """
import ctypes, json, dataclasses
{before}
from oasis_harness.embedded import load_blas
blas = load_blas()
assert load_blas() is blas
import mlx.core
class Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p)] + [(name, ctypes.c_void_p) for name in ("base", "symbol", "at")]
place = Place()
symbol = ctypes.cast(ctypes.CDLL(None).cblas_sgemm, ctypes.c_void_p) if blas.is_fast else None
if symbol:
    ctypes.CDLL(None).dladdr(symbol, ctypes.byref(place))
print(json.dumps({{**dataclasses.asdict(blas), "library": (place.file or b"").decode()}}))
"""
"""What was loaded, and which library `cblas_sgemm` comes from for a library loaded after it, as mlx is."""


def report(wish: str, before: str = "") -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", _REPORT.format(before=before)],
        env={**os.environ, "OASIS_BLAS": wish},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return {"error": done.stderr.splitlines()[-1]}
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_reference_is_reference() -> None:
    """Asked for, nothing is loaded."""
    assert report("reference")["name"] == "reference"


@pytest.mark.slow
def test_auto_wins_the_matrix_product_where_a_library_fits() -> None:
    """Where OpenBLAS was found, `cblas_sgemm` is its; where none was, the reason says what to install."""
    found = report("auto")
    if found["is_fast"]:
        assert "openblas" in str(found["library"])
    else:
        assert "install" in str(found["reason"])
    if not cpu_flags() >= {"avx512f", "avx512dq", "avx512bw", "avx512vl"}:
        assert found["name"] != "cmeel openblas"


@pytest.mark.slow
def test_too_late_is_said() -> None:
    """With mlx already imported, its own BLAS stays."""
    assert "imported before" in str(report("auto", before="import mlx.core")["reason"])


@pytest.mark.slow
def test_a_named_library_that_does_not_load_is_an_error() -> None:
    """Silently slow would be worse."""
    assert "/no/such/library.so" in str(report("/no/such/library.so")["error"])
