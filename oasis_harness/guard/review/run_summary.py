"""What the snapshots of a test run came to: counts and lines that can be sent between processes and added up.

    oasis: 12 same, 1 moved, 2 recorded, 1 signed, 1 unused
    oasis: 9 requests, 2 conversations, 1 declared, 1 excused

Imports only the standard library: the plugin loads it with every test run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["TALLIED", "WORDS", "RunSummary"]

WORDS = (
    "same",
    "moved",
    "extended",
    "missing",
    "not evaluated",
    "recorded",
    "signed",
    "broken",
    "unused",
    "not compared",
    "unsigned",
)
"""What can become of a snapshot or of a conversation, in the order of the summary; "broken" is one that is not
append-only, "not compared" a recorded prompt that a complete run has to ask for, "unsigned" one that nothing leads to
from what a base has of it."""
TALLIED = ("requests", "conversations", "declared", "excused")
"""What is counted of recorded requests: "declared" are those that may rewrite, "excused" the tests that may."""
_FAILED = ("moved", "extended", "missing", "not evaluated", "broken", "not compared", "unsigned")


@dataclass(slots=True)
class RunSummary:
    """Grows during a run. A run on several workers has one each; the controller adds them."""

    counts: Counter[str] = field(default_factory=Counter)
    """How often each of `WORDS` was the outcome."""
    lines: list[str] = field(default_factory=list)
    """What the summary says of each outcome but "same"."""
    compared: set[str] = field(default_factory=set)
    """File names of the snapshots that were asked for."""
    n_cut: int = 0
    """Tests with snapshots that failed, were skipped or deselected: some of theirs may not have been asked for."""
    tally: Counter[str] = field(default_factory=Counter)
    """How many of `TALLIED` the checks of requests and conversations stand on."""

    def add(self, word: str, line: str = "") -> None:
        """Count one outcome; `line` is what the summary says of it."""
        assert word in WORDS, f"{word!r} is no word of the summary"
        self.counts[word] += 1
        if line:
            self.lines.append(f"{word}: {line}")

    @property
    def has_failed(self) -> bool:
        """Whether something did not pass; then the run does not either, whatever the tests made of it."""
        return any(self.counts[word] for word in _FAILED)

    def merge(self, other: "RunSummary") -> None:
        """Add what another process counted."""
        self.counts += other.counts
        self.tally += other.tally
        self.lines += other.lines
        self.compared |= other.compared
        self.n_cut += other.n_cut

    def report(self) -> Iterator[str]:
        """Return the lines of the summary; none where nothing was counted."""
        for counted, words in ((self.counts, WORDS), (self.tally, TALLIED)):
            if any(counted.values()):
                yield "oasis: " + ", ".join(f"{counted[word]:,} {word}" for word in words if counted[word])
        yield from sorted(f"  {line}" for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as a worker sends them."""
        return {
            "counts": dict(self.counts),
            "lines": self.lines,
            "compared": sorted(self.compared),
            "n_cut": self.n_cut,
            "tally": dict(self.tally),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what a worker sent."""
        counts, tally = Counter(values["counts"]), Counter(values["tally"])
        return cls(counts, list(values["lines"]), set(values["compared"]), values["n_cut"], tally)
