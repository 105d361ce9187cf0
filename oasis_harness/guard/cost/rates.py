"""What a token of the prompt costs: the speed of reading measured then and there, never looked up in a table.

A rate holds for one model on one kind of machine and says how much its runs differed. Where nothing was measured the
answer is `NotMeasured` with the reason, never a number.
"""

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from oasis_harness.errors import CannotMeasure

if TYPE_CHECKING:
    from oasis_harness.engine import Completion, Engine

__all__ = [
    "Cost",
    "NotMeasured",
    "PrefillRate",
    "machine",
    "measure_prefill",
]


@dataclass(frozen=True, slots=True)
class PrefillRate:
    """How fast a model reads a prompt here."""

    model: str
    machine: str
    """Its kind, such as `Linux x86_64, 2 cores`; no name of a machine."""
    tokens_per_s: float
    """Median of the runs."""
    n_runs: int
    spread: float
    """Fastest less slowest run, as a fraction of the median."""
    n_tokens: int
    """Tokens read in each run."""

    def __str__(self) -> str:
        measured = f"{self.n_runs} runs of {self.n_tokens:,} tokens, spread {self.spread:.0%}"
        return f"{self.tokens_per_s:,.1f} tokens/s ({self.model}, {self.machine}; {measured})"


@dataclass(frozen=True, slots=True)
class Cost:
    """What reading `n_tokens` again costs each conversation."""

    rate: PrefillRate
    n_tokens: int

    @property
    def s_per_conversation(self) -> float:
        return self.n_tokens / self.rate.tokens_per_s

    @property
    def s_per_1000_conversations(self) -> float:
        return 1000 * self.s_per_conversation

    def to_json(self) -> dict[str, object]:
        """Return what the ledger keeps, rounded to what a measurement can say."""
        return {
            "model": self.rate.model,
            "machine": self.rate.machine,
            "tokens_per_s": float(f"{self.rate.tokens_per_s:.4g}"),
            "n_runs": self.rate.n_runs,
            "spread": round(self.rate.spread, 3),
            "n_tokens_a_run": self.rate.n_tokens,
            "n_tokens": self.n_tokens,
            "s_per_conversation": float(f"{self.s_per_conversation:.4g}"),
        }

    def __str__(self) -> str:
        each, many = self.s_per_conversation, self.s_per_1000_conversations
        return f"{self.n_tokens:,} tokens: {each:,.3g} s a conversation, {many:,.0f} s a thousand, at {self.rate}"


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Stands where a cost would, with the reason why there is none."""

    reason: str

    def to_json(self) -> None:
        """Return what the ledger keeps: nothing."""
        return

    def __str__(self) -> str:
        return f"not measured: {self.reason}"


def measure_prefill(engine: "Engine", *, n_tokens: int = 256, n_runs: int = 3) -> PrefillRate:
    """Let `engine` read prompts it never saw, each of `n_tokens`, and return the median speed.

    One more run goes first and is not counted: engines build what they need on their first call. The prompts are
    ordinary tokens of the vocabulary, another one first in each run, so that no run can reuse another's.

    Raises:
        CannotMeasure: The engine keeps no time, read nothing, or its vocabulary has too few ordinary tokens.
        ValueError: `n_tokens` or `n_runs` is below 1.
    """
    if n_tokens < 1 or n_runs < 1:
        raise ValueError(f"measuring needs tokens and runs, got n_tokens={n_tokens} and n_runs={n_runs}")
    ordinary = _ordinary_ids(engine, n_runs + 1)
    completions = []
    for run in range(n_runs + 1):
        ids = [ordinary[(run + place) % len(ordinary)] for place in range(n_tokens)]
        completions.append(_read_once(engine, ids))
    rates = [completion.n_prefilled / completion.timing.first_token_s for completion in completions[1:]]
    median = statistics.median(rates)
    spread = (max(rates) - min(rates)) / median
    return PrefillRate(engine.model_info.name, machine(), median, n_runs, spread, n_tokens)


def machine() -> str:
    """Return the kind of this machine, without its name."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{platform.system()} {platform.machine()}, {usable} core{'s' if usable != 1 else ''}"


def _read_once(engine: "Engine", ids: Sequence[int]) -> "Completion":
    import numpy as np

    from oasis_harness.engine import Completion, Prompt, Sampling

    key = f"prefill {uuid4().hex}"
    prompt = np.array(ids, dtype=np.uint32)
    prompt.flags.writeable = False
    try:
        *_, last = engine.generate(Prompt(key, prompt), Sampling(max_tokens=1))
    finally:
        engine.forget(key)
    assert isinstance(last, Completion), "a call ends with its completion"
    if last.timing.first_token_s <= 0 or last.n_prefilled < 1:
        took = f"{last.n_prefilled} tokens read in {last.timing.first_token_s} s to the first token"
        raise CannotMeasure(
            f"the engine of {engine.model_info.name} gives nothing to measure: {took}.",
            remedy="Measure on an engine that reads prompts and keeps the time.",
            completion=last,
        )
    return last


def _ordinary_ids(engine: "Engine", n_least: int) -> list[int]:
    tokenizer = engine.model_info.tokenizer
    special = {*tokenizer.specials.values(), *engine.model_info.stop_ids}
    ids = [token for token, piece in enumerate(tokenizer.pieces) if piece and token not in special]
    if len(ids) < n_least:
        raise CannotMeasure(
            f"the vocabulary of {engine.model_info.name} has {len(ids)} ordinary tokens, {n_least} are needed.",
            remedy="Measure fewer runs, or on another model.",
        )
    return ids
