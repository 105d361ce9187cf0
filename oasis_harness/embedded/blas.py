"""Give MLX's CPU build a fast matrix multiply, before it is loaded.

MLX's Linux wheel links a reference BLAS. A library loaded with RTLD_GLOBAL before it wins the symbol `cblas_sgemm`.
`OASIS_BLAS` is read once, when the first model is loaded: `auto` (the default), `reference`, or the path of a library.
Never loads a library the CPU cannot run; on macOS there is nothing to do, MLX uses Accelerate and Metal.
"""

import ctypes
import ctypes.util
import importlib.metadata
import math
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oasis_harness.errors import OasisError
from oasis_harness.whole_file import write_whole

from .folders import cache_folder, is_private

__all__ = ["Blas", "load_blas", "matmul_gflops"]

_AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}
"""What PyPI's cmeel-openblas is compiled for; elsewhere it dies on its first instruction."""


@dataclass(frozen=True, slots=True)
class Blas:
    """Which BLAS multiplies, and why."""

    name: str
    """`accelerate`, `system openblas`, `cmeel openblas`, `reference`, or the path that was asked for."""
    reason: str
    is_fast: bool
    was_asked_for: bool = False
    """`OASIS_BLAS` names it."""


@cache
def load_blas() -> Blas:
    """Load the BLAS that `OASIS_BLAS` asks for into this process; must run before mlx is imported.

    Raises:
        OasisError: `OASIS_BLAS` names a library that cannot be loaded.
    """
    wish = os.environ.get("OASIS_BLAS") or "auto"
    if sys.platform == "darwin":
        return Blas("accelerate", "macOS", is_fast=True)
    if "mlx.core" in sys.modules:
        return Blas("reference", "mlx was imported before the engine was opened", is_fast=False)
    if wish == "reference":
        return Blas("reference", "OASIS_BLAS=reference", is_fast=False, was_asked_for=True)
    if wish != "auto":
        return _named(wish)
    return _system() or _cmeel() or _reference()


def matmul_gflops(n: int = 1024) -> tuple[str, float]:
    """Return (device, GFLOP/s) of an `n` by `n` float32 product: the best of three, after one to warm up.

    Raises:
        ImportError: mlx is not installed.
    """
    load_blas()
    import mlx.core as mx

    a, b = mx.random.normal((n, n)), mx.random.normal((n, n))
    mx.eval(a, b, a @ b)
    best_s = math.inf
    for _ in range(3):
        start = time.perf_counter()
        mx.eval(a @ b)
        best_s = min(best_s, time.perf_counter() - start)
    return str(mx.default_device()), 2 * n**3 / best_s / 1e9


def _named(library: str) -> Blas:
    try:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise OasisError(
            f"OASIS_BLAS={library} cannot be loaded: {error}.",
            remedy="Name a BLAS library built for this machine, or set OASIS_BLAS=auto.",
            path=library,
        ) from None
    return Blas(library, f"OASIS_BLAS={library}", is_fast=True, was_asked_for=True)


def _system() -> Blas | None:
    name = ctypes.util.find_library("openblas")
    if name is None or not _loads(name):
        return None
    return Blas("system openblas", name, is_fast=True)


def _cmeel() -> Blas | None:
    library = _file_of("cmeel-openblas", "libopenblas.so.0")
    if library is None or not cpu_flags() >= _AVX512:
        return None
    if not _loads(str(library)) and not (_lend_fortran_runtime() and _loads(str(library))):
        return None
    return Blas("cmeel openblas", "PyPI's build, this CPU has AVX-512", is_fast=True)


def _reference() -> Blas:
    return Blas("reference", "no OpenBLAS for this machine was found; install libopenblas0 to be faster", is_fast=False)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _lend_fortran_runtime() -> bool:
    """Load the Fortran runtime that OpenBLAS needs from MLX's own wheel, under the name OpenBLAS asks for.

    The wheel carries libgfortran with a hash in its name and in its SONAME; a copy with the plain SONAME satisfies any
    later library that needs `libgfortran.so.5`. Where others can write into the cache, the copy is made anew elsewhere:
    a library that is loaded runs.
    """
    source = _file_of("mlx-cpu", "libgfortran-")
    if source is None or ".so.5" not in source.name:
        return False
    hashed = source.name.encode()
    copy = cache_folder() / "blas" / source.name / "libgfortran.so.5"
    try:
        content = source.read_bytes()
        if content.count(hashed) != 1:
            return False
        content = content.replace(hashed, b"libgfortran.so.5".ljust(len(hashed), b"\0"))
        if not copy.exists():
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(copy, [content], mode=0o600)
        needed = list(source.parent.glob("libquadmath*"))
        if is_private(copy):
            return _load_all([*needed, copy])
        with tempfile.TemporaryDirectory() as folder:  # what is loaded stays when its file goes
            own = Path(folder) / copy.name
            own.write_bytes(content)
            return _load_all([*needed, own])
    except OSError:  # a cache that cannot be written costs speed, never the engine
        return False


def _load_all(libraries: list[Path]) -> bool:
    return all(_loads(str(library)) for library in libraries)


def _file_of(distribution: str, name: str) -> Path | None:
    """Return the installed file of `distribution` whose name starts with `name`."""
    try:
        files = importlib.metadata.files(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name.startswith(name)), None)


def cpu_flags() -> set[str]:
    """Return the CPU's feature flags as Linux names them; empty where they cannot be read."""
    if platform.machine() != "x86_64":
        return set()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return set()
    return set(next((line for line in text.splitlines() if line.startswith("flags")), "").split())
