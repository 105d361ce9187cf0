"""Where the embedded engine keeps what it fetched and built, and whether others can change it there."""

import os
import stat
from pathlib import Path

import platformdirs

from oasis_harness.errors import OasisError

__all__ = ["cache_folder", "is_private"]


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


def is_private(path: Path) -> bool:
    """Say whether only this user and root can change `path` or put something into its place."""
    resolved = path.resolve()
    return not any(_is_shared(place) for place in (resolved, *resolved.parents))


def _is_shared(place: Path) -> bool:
    status = place.stat()
    # In a sticky folder, as /tmp is, everyone's entries stay their own.
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return status.st_uid not in (0, os.geteuid()) or bool(status.st_mode & 0o022 and not is_sticky)
