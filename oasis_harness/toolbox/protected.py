"""What the tools that write leave alone: what runs later by itself, and what the harness keeps of itself.

A hook in `.git/hooks`, or a `core.fsmonitor` in `.git/config`, is a program that the next `git status` runs, outside
every sandbox. So no file is written whose path leads through a folder of version control, by whatever name:

    .git/config     .GIT/config (macOS)     meta/config, where .git is a symlink to meta or says "gitdir: meta"

A caller adds what the model must not write, such as the file of its own conversation.
"""

import os
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["VERSION_CONTROL", "gitfile_target", "protecting"]

VERSION_CONTROL = (".git", ".hg", ".svn")
"""Folders in which files can be programs that run later."""
_MAX_GITFILE_BYTES = 4_096


def protecting(root: Path, target: Path, protected: Iterable[Path]) -> str:
    """Say what keeps `target`, a path beneath `root` without symlinks, from being written; nothing where nothing does.

    `protected` are absolute paths of files and folders, which need not exist.
    """
    places = (target, *target.parents)
    beneath = places[: len(target.relative_to(root).parts)]
    if any(map(_is_version_control, beneath)) or _is_at(gitfile_target(root), places):
        return "it belongs to version control, where files can be programs that run later"
    if any(_is_at(kept, places) for kept in protected):
        return "the harness keeps it for itself"
    return ""


def _is_version_control(place: Path) -> bool:
    """Whether a folder or file is one of version control, by its name or as the same under another name."""
    return _plain(place.name) in VERSION_CONTROL or any(_is_same(place, place.with_name(n)) for n in VERSION_CONTROL)


def _is_at(kept: Path | None, places: Iterable[Path]) -> bool:
    """Whether one of `places` is `kept`, also where the case differs: a file system may not tell."""
    if kept is None:
        return False
    return any(_plain(str(kept)) == _plain(str(place)) or _is_same(kept, place) for place in places)


def _plain(name: str) -> str:
    """Return the name as a file system may read it that folds case, composes accents and drops invisible characters."""
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold()


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(one.stat(), other.stat())
    return False


def gitfile_target(root: Path) -> Path | None:
    """Return the folder that a file `.git` names instead of being one, as in a worktree."""
    with suppress(OSError, ValueError):
        descriptor = os.open(root / ".git", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block
        with os.fdopen(descriptor, "rb") as file:
            said = os.fsdecode(file.read(_MAX_GITFILE_BYTES)).strip()
        if said.startswith("gitdir:"):
            return (root / said.removeprefix("gitdir:").strip()).resolve()
    return None
