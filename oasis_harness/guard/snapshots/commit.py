"""The files of a commit, read from git's objects: nothing is checked out, and nothing of the repository is run.

    commit = Commit.at(Path("fixtures"), "origin/main")
    commit.files()                        {"fixtures/ledger.jsonl": "8d1f…", …}    paths from the root, ids of blobs
    commit.read(["8d1f…"])                {"8d1f…": b'{"n":1,…'}

Hooks, filters, text conversions, replaced objects and file system monitors play no part, and what is not here is not
fetched.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from oasis_harness.errors import NoBase

__all__ = ["Commit"]

_GIT = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_KEPT = ("GIT_CONFIG", "GIT_CEILING", "GIT_EXEC_PATH")
"""Of git's environment; the rest may name another repository, as a hook's does."""
_FILES = ("100644", "100755")
_TIMEOUT_S = 60


class Commit:
    """One commit of the repository at `root`; `ref` is what it was asked for as, `digest` its id."""

    def __init__(self, root: Path, ref: str, digest: str) -> None:
        self.root = root
        self.ref = ref
        self.digest = digest

    @classmethod
    def at(cls, folder: Path, ref: str) -> "Commit":
        """Find the commit `ref` of the repository that `folder` lies in; the folder need not exist any more.

        Raises:
            NoBase: There is no git, no repository, or the commit is not here.
        """
        place = folder.resolve()
        place = next(one for one in [place, *place.parents] if one.is_dir())
        code, out, told = _git(place, "rev-parse", "--show-toplevel")
        if code:
            raise NoBase(
                f"{folder} is in no repository that git reads: {told}",
                remedy="Run it in a clone of the project.",
                ref=ref,
            )
        root = Path(os.fsdecode(out.removesuffix(b"\n"))).resolve()
        code, out, _ = _git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        if code or ref.startswith("-") or not ref.strip():
            raise NoBase(f"the base {ref!r} is no commit of this clone.", remedy=_fetch(root, ref), ref=ref)
        return cls(root, ref, out.decode().strip())

    def place(self, path: Path) -> str:
        """Return `path` as seen from the root, as git writes it.

        Raises:
            NoBase: It lies outside.
        """
        try:
            return path.resolve().relative_to(self.root).as_posix()
        except ValueError:
            raise NoBase(f"{path} lies outside the repository {self.root}.", remedy="Name one inside.") from None

    def files(self) -> Mapping[str, str]:
        """Return the blob of every regular file, by its path."""
        rows = [
            row.partition(b"\t") for row in self._read("ls-tree", "-r", "-z", "--full-tree", self.digest).split(b"\0")
        ]
        named = [(os.fsdecode(path), meta.decode().split()) for meta, tab, path in rows if tab]
        return {path: blob for path, (mode, _, blob) in named if mode in _FILES}

    def read(self, blobs: Iterable[str]) -> Mapping[str, bytes]:
        """Return the bytes of `blobs`."""
        asked = sorted(set(blobs))
        out = self._read("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in asked).encode())
        found, at = {}, 0
        for blob in asked:  # each as b"<id> blob <n_bytes>\n<bytes>\n"
            end = out.index(b"\n", at)
            header = out[at:end].split()
            if len(header) != 3:
                raise NoBase(
                    f"the clone lacks a part of {self.ref!r}.", remedy=_fetch(self.root, self.ref), ref=self.ref
                )
            at = end + 1 + int(header[2])
            found[blob] = out[end + 1 : at]
            at += 1
        return found

    def _read(self, *words: str, stdin: bytes = b"") -> bytes:
        code, out, told = _git(self.root, *words, stdin=stdin)
        if code:
            raise NoBase(f"git cannot read {self.ref!r}: {told}", remedy=_fetch(self.root, self.ref), ref=self.ref)
        return out


def _git(place: Path, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Return the exit status of git, what it wrote, and what it complained of."""
    kept = {name: value for name, value in os.environ.items() if name[:4] != "GIT_" or name.startswith(_KEPT)}
    quiet = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [*_GIT, *words],
            cwd=place,
            env=kept | quiet,
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoBase(f"git cannot be run: {error}", remedy="Install git where this runs.") from None
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace").strip()


def _fetch(root: Path, ref: str) -> str:
    _, out, _ = _git(root, "rev-parse", "--is-shallow-repository")
    branch = ref.removeprefix("origin/")
    fetched = f"+{branch}:refs/remotes/origin/{branch}" if branch != ref else ref
    shallow = "The clone is shallow, which CI's is by default: fetch" if out.strip() == b"true" else "Fetch"
    return (
        f"{shallow} it with `git fetch --depth=1 origin {fetched}`, or clone with the whole history (fetch-depth: 0)."
    )
