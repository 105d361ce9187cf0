"""A real git repository with recorded prompts, for what is proved against a base."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from oasis_harness.guard.review import Checker, RunSummary
from oasis_harness.guard.targets import Subject

__all__ = ["Repository"]


@dataclass(frozen=True)
class Repository:
    """A working tree; prompts are recorded and signed as a test run does it."""

    root: Path

    @classmethod
    def at(cls, root: Path) -> "Repository":
        """Make one, empty."""
        root.mkdir(parents=True, exist_ok=True)
        repository = cls(root)
        repository.git("init", "-q", "-b", "main")
        return repository

    @property
    def fixtures(self) -> Path:
        return self.root / "fixtures"

    def git(self, *words: str) -> str:
        named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        command = ["git", *named, "-C", str(self.root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def commit(self) -> None:
        """Commit all that is there."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "as it is", "--allow-empty")

    def record(self, name: str, system: str, fixtures: str = "fixtures") -> str:
        """Record a head as `--oasis-record` does; return the complaints."""
        return self._checker(fixtures, records=True, reason=None).check(_head(system), name, None)

    def sign(self, name: str, system: str, reason: str = "clearer") -> str:
        """Sign a head as `--oasis-sign` does; return the complaints."""
        return self._checker("fixtures", records=False, reason=reason).check(_head(system), name, None)

    def delete(self, name: str, fixtures: str = "fixtures") -> None:
        """Remove the files of a prompt by hand."""
        for path in list((self.root / fixtures / "prompts").glob(f"{name}.*")):
            path.unlink()

    def _checker(self, fixtures: str, *, records: bool, reason: str | None) -> Checker:
        return Checker(
            self.root / fixtures,
            self.root,
            RunSummary(),
            dialects=("chatml",),
            model="none",
            records=records,
            reason=reason,
        )


def _head(system: str) -> Subject:
    return Subject.of_head(system, None, None, {})
