"""Where the embedded engine keeps what it fetched and built."""

import os
from pathlib import Path

import platformdirs

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return the folder for models and libraries: `OASIS_CACHE`, else the user's cache directory."""
    named = os.environ.get("OASIS_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("oasis-harness"))
