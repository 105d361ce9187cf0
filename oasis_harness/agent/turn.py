"""One turn as its caller sees it."""

from dataclasses import dataclass
from typing import Self

from oasis_harness.engine import Completion, Finish, Reuse, Timing
from oasis_harness.replies import Parsed, ToolCall

__all__ = ["Turn", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn cost, in tokens."""

    n_prompt: int
    n_sampled: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, and the proof of its reuse."""

    index: int
    """Number of this turn in the session, from 1."""
    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    reuse: Reuse
    finish: Finish
    timing: Timing

    @classmethod
    def of(cls, index: int, parsed: Parsed, completion: Completion, reuse: Reuse) -> Self:
        """Return the turn whose reply ended in `completion`."""
        return cls(
            index=index,
            text=parsed.text,
            reasoning=parsed.reasoning,
            calls=parsed.calls,
            usage=Usage(completion.n_presented, len(completion.ids)),
            reuse=reuse,
            finish=completion.finish,
            timing=completion.timing,
        )
