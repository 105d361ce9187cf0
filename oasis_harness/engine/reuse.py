"""The check of every turn: what should have been reused against what was, from two independent counts.

`expected` comes from the conversation's own log, before the call. `reused` is what was presented less what the engine
counted at the model call. Nothing an engine says of its cache enters either; it only names the cause.
"""

import sys
import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from oasis_harness.errors import ReuseDeficit, ReuseExcess, ReuseWarning

from .base import Completion

__all__ = ["Cause", "Policy", "Reuse", "check_reuse", "measure_reuse"]


class Policy(StrEnum):
    """What to do about a deficit."""

    RAISE = "raise"
    WARN = "warn"


class Cause(StrEnum):
    """Why tokens were read again."""

    COLD = "cold"
    """This engine was never asked for this conversation before: a new process, another engine."""
    RETRIED = "retried"
    """The call before failed, and the engine forgot what nobody recorded."""
    FORGOTTEN = "forgotten"
    """The engine dropped what it held."""
    DIVERGED = "diverged"
    """What it holds differs from the prompt, from `diverged_at` on."""
    TRIMMED = "trimmed"
    """It holds a shorter prefix than it was given."""
    NO_CHECKPOINT = "no_checkpoint"
    """It holds more than matches, and its cache cannot be rewound."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """The reuse of one turn, in tokens."""

    expected: int
    reused: int
    prefilled: int
    deficit: int
    cause: Cause | None
    diverged_at: int | None = None
    """Index of the first token that differs from what was held, when it diverged."""

    @property
    def presented(self) -> int:
        """Tokens of the prompt."""
        return self.reused + self.prefilled

    @property
    def is_fault(self) -> bool:
        """Whether tokens were read again that should not have been; a cold start is none, nor is a retry."""
        return self.deficit > 0 and self.n_cold == 0

    @property
    def n_cold(self) -> int:
        """Tokens that were read again because the engine was asked for the first time, or again after a failed call."""
        return self.deficit if self.cause in (Cause.COLD, Cause.RETRIED) else 0


def measure_reuse(expected: int, completion: Completion, *, is_first_call: bool, is_retry: bool = False) -> Reuse:
    """Compare what the conversation `expected` with the engine's counts; `is_retry`: the call before it failed."""
    n_unread = max(0, completion.n_pending - len(completion.ids))  # of the prompt: cancelled while it was read
    reused = completion.n_presented - n_unread - completion.n_prefilled
    cause = _cause(expected, reused, completion, is_first_call)
    cause = Cause.RETRIED if cause is Cause.COLD and is_retry else cause
    return Reuse(
        expected=expected,
        reused=reused,
        prefilled=completion.n_prefilled,
        deficit=max(0, expected - reused),
        cause=cause,
        diverged_at=completion.n_matched if cause is Cause.DIVERGED else None,
    )


def check_reuse(reuse: Reuse, policy: Policy) -> None:
    """Complain of a turn that reused less than it should, or more than was ever sent.

    Raises:
        ReuseDeficit: Less, under Policy.RAISE; under Policy.WARN it is a ReuseWarning. A cold start is no fault.
        ReuseExcess: More: the engine holds somebody else's tokens.
    """
    if reuse.reused > reuse.expected:
        raise ReuseExcess(
            f"the engine reused {reuse.reused:,} tokens where the conversation had sent {reuse.expected:,}.",
            remedy="Its cache holds tokens of something else; report this, and forget() the conversation.",
            reuse=reuse,
        )
    if reuse.is_fault:
        _complain(reuse, policy)


def _cause(expected: int, reused: int, completion: Completion, is_first_call: bool) -> Cause | None:
    if is_first_call and completion.n_held == 0:
        return Cause.COLD
    if reused >= expected:
        return None
    if completion.n_held == 0:
        return Cause.FORGOTTEN
    if completion.n_matched < min(completion.n_held, expected):
        return Cause.DIVERGED
    return Cause.TRIMMED if completion.n_held < expected else Cause.NO_CHECKPOINT


def _complain(reuse: Reuse, policy: Policy) -> None:
    where = f" at token {reuse.diverged_at:,}" if reuse.diverged_at is not None else ""
    message = (
        f"the engine reused {reuse.reused:,} of {reuse.expected:,} tokens ({reuse.cause}{where}): "
        f"{reuse.deficit:,} were read again."
    )
    if policy is Policy.RAISE:
        raise ReuseDeficit(message, remedy="The reply is recorded; the next turn reuses again.", reuse=reuse)
    warnings.warn(message, ReuseWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level, seen from who calls this, of the first frame that is not this package's own."""
    package = str(Path(__file__).parents[1])
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level
