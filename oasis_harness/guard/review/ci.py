"""Whether this process runs in CI, where snapshots are compared and never written: a person records and signs."""

import os

__all__ = ["is_ci"]


def is_ci() -> bool:
    """Say whether the variable CI is set, and not to a no."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
