"""Where the embedded engine keeps what it fetched and built."""

import os
from pathlib import Path

import platformdirs

from oasis_harness.errors import OasisError

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return the folder for models and libraries: `OASIS_CACHE`, else the user's cache directory.

    Raises:
        OasisError: `OASIS_CACHE` begins with a `~` that stands for no home.
    """
    named = os.environ.get("OASIS_CACHE")
    if not named:
        return Path(platformdirs.user_cache_dir("oasis-harness"))
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise OasisError(f"OASIS_CACHE={named}: {error}", remedy="Set it to a folder.", path=named) from None
