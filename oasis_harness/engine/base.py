"""What every engine is asked and what it answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oasis_harness.replies import CallSyntax
from oasis_harness.tokens import Tokenizer

__all__ = [
    "Completion",
    "Engine",
    "Finish",
    "ModelInfo",
    "Piece",
    "Progress",
    "Prompt",
    "Sampling",
    "Step",
    "Timing",
    "ToolChoice",
]


class ToolChoice(StrEnum):
    """How the sampler treats calls. The prompt bytes are the same under all three."""

    AUTO = "auto"
    """Free text; once the reply opens a call, the grammar of calls holds until it is closed."""
    REQUIRED = "required"
    """The reply is one call, from its first token."""
    NONE = "none"
    """The opener of a call cannot be sampled."""


class Finish(StrEnum):
    """Why sampling ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a harness must know of a loaded model to talk to it."""

    name: str
    tokenizer: Tokenizer
    chat_template: str
    template_variables: Mapping[str, str]
    """The special tokens a template may print, by variable: `bos_token`, `eos_token` ..."""
    stop_ids: frozenset[int]
    n_context: int
    """The context window, in tokens."""
    call_syntax: CallSyntax | None = None
    """How this model family writes a call; None when it has no syntax of its own."""
    opens_calls: bool = True
    """False for a model known never to open a call by itself; it has to be driven."""

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts of the stop tokens, by id."""
        return tuple(
            self.tokenizer.decode([token]).decode("utf-8", errors="replace") for token in sorted(self.stop_ids)
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    """All the tokens of a conversation's epoch, and whose they are."""

    conversation: str
    """The key under which the engine keeps this conversation's cache."""
    ids: NDArray[np.uint32]
    """Shape (n_tokens,), read-only."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample one reply. Nothing here touches the prompt."""

    tool_choice: ToolChoice = ToolChoice.AUTO
    tools: tuple[bytes, ...] = ()
    """Canonical JSON of the schemas that may be called."""
    syntax: CallSyntax | None = None
    """How a call is written in this dialect; the grammar arms at its opener."""
    max_string: int = 0
    """The most characters of a text argument that the grammar allows; 0 sets no limit."""
    max_tokens: int = 1024
    temperature: float = 0.0
    """0 takes the most likely token."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool_choice", ToolChoice(self.tool_choice))  # a plain string is welcome too
        if self.max_tokens < 1 or self.temperature < 0:
            raise ValueError(f"max_tokens must be at least 1 and temperature at least 0, got {self!r}")


@dataclass(frozen=True, slots=True)
class Progress:
    """Prefill so far."""

    n_done: int
    n_total: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One sampled token and its bytes."""

    token: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds from the call."""

    first_token_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    """How a call ended, with the counts the reuse check needs."""

    ids: tuple[int, ...]
    """The sampled ids, without the stop token."""
    finish: Finish
    n_presented: int
    """Tokens of the prompt."""
    n_prefilled: int
    """Prompt tokens that went through the model, counted at the model call."""
    n_held: int
    """Tokens the engine held for this conversation when it was asked."""
    n_matched: int
    """How many of those, from the first, are the prompt's own."""
    n_pending: int
    """Tokens at the end of prompt and reply that the engine has not read."""
    timing: Timing = field(default_factory=Timing)


Step: TypeAlias = Progress | Piece | Completion


class Engine(Protocol):
    """A model that keeps what it read. One call at a time."""

    @property
    def model_info(self) -> ModelInfo:
        """What must be known of the model."""

    def generate(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step]:
        """Read what is new of `prompt`, sample a reply, and end with exactly one Completion.

        Closing the iterator early cancels; what was read stays held.
        """

    def cancel(self, conversation: str | None = None) -> None:
        """Ask the running call to end with Finish.CANCELLED. Safe from any thread and when nothing runs."""

    def fork(self, source: str, target: str, n_tokens: int) -> bool:
        """Let `target` hold the first `n_tokens` of what `source` holds, without copying; say whether it does."""

    def forget(self, conversation: str) -> None:
        """Drop what is held for `conversation`."""

    def close(self) -> None:
        """Release the model. Idempotent."""
