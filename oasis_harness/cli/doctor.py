"""`oasis doctor`: what this machine will run on, measured."""

import platform
from importlib import metadata

from oasis_harness.embedded import find_model, load_blas, matmul_gflops

from .terminal import say

__all__ = ["examine"]

_PARTS = ("mlx", "mlx-lm", "transformers", "tokenizers", "tiktoken", "llguidance")
"""What the engine needs."""


def examine(model: str) -> int:
    """Print the findings; return 1 when something keeps the engine from running."""
    say(f"python      {platform.python_version()} on {platform.system()} {platform.machine()}")
    versions = {name: _version(name) for name in ("oasis-harness", *_PARTS)}
    for name, version in versions.items():
        say(f"{name:<11} {version or 'not installed'}")
    blas = load_blas()
    say(f"blas        {blas.name}: {blas.reason}")
    missing = [name for name in _PARTS if versions[name] is None]
    if missing:
        say(f"missing     {', '.join(missing)}; install with: pip install 'oasis-harness[mlx]'")
        return 1
    try:
        device, gflops = matmul_gflops()
    except ImportError as error:
        say(f"mlx         cannot be imported ({error}); install with: pip install 'oasis-harness[mlx]'")
        return 1
    say(f"device      {device}, {gflops:,.0f} GFLOP/s in float32 (1024 x 1024)")
    folder = find_model(model)
    say(f"model       {model}: {folder or f'not here yet; oasis models pull {model}'}")
    return 0


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
