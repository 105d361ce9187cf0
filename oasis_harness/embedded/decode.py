"""The step loop: read a prompt in chunks, then sample and read one token at a time.

Not mlx-lm's `generate_step`, which runs one step ahead: here a sampled token is read only once it is known not to be a
stop token, so what a cache holds is always a known prefix of prompt and reply. The last prompt token is a chunk of its
own, so logits over the vocabulary are computed for it alone.
"""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from oasis_harness.engine import Finish, Piece, Progress, Sampling
from oasis_harness.tokens import Tokenizer

from .grammar import CallConstraint

__all__ = ["CountingModel", "LiveCache", "Reply", "Sampler", "decode", "prefill"]

Ids = NDArray[np.uint32]


@dataclass(slots=True)
class LiveCache:
    """A live cache and the tokens it holds. Exactly one owner at a time."""

    cache: list[Any]
    """One mlx-lm cache object a layer."""
    ids: Ids


class CountingModel:
    """The model call, and the only place where tokens that were read are counted."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.n_tokens = 0

    def read(self, live: LiveCache, ids: Ids) -> mx.array:
        """Run `ids`, shape (n,), onto `live`; return the logits after the last, shape (n_vocabulary,), unevaluated."""
        self.n_tokens += len(ids)
        logits: mx.array = self._model(mx.array(ids)[None], cache=live.cache)
        live.ids = np.concatenate([live.ids, ids])
        return logits[0, -1]


class Sampler:
    """Picks the next token: the most likely one, or a draw at `temperature` (Gumbel's trick), as constrained."""

    def __init__(self, sampling: Sampling, constraint: CallConstraint, n_tokens: int, n_prompt: int) -> None:
        self._temperature = sampling.temperature
        self._constraint = constraint
        self._n_tokens = n_tokens  # a model's rows of logits may be padded past its tokenizer
        self._random = np.random.default_rng([sampling.seed, n_prompt])

    def pick(self, logits: mx.array) -> int:
        """Return a token for `logits`, shape (n_vocabulary,)."""
        scores = np.array(logits.astype(mx.float32))[: self._n_tokens]
        if self._temperature > 0:
            scores = scores / self._temperature + self._random.gumbel(size=scores.shape).astype(np.float32)
        return int(np.argmax(self._constraint.mask(scores)))  # it sees the draw: it may look at the best score only


@dataclass(slots=True)
class Reply:
    """A reply in the making."""

    started: float = field(default_factory=time.perf_counter)
    sampled: list[int] = field(default_factory=list)
    finish: Finish = Finish.CANCELLED
    first_token_s: float = 0.0


def prefill(
    model: CountingModel, live: LiveCache, ids: Ids, *, chunk_size: int, is_cancelled: Callable[[], bool]
) -> Generator[Progress, None, mx.array | None]:
    """Read `ids` onto `live` and return the logits after the last, or None when it was cancelled between chunks."""
    n_total = len(ids)
    n_done = 0
    logits = None
    while n_done < n_total:
        if is_cancelled():
            return None
        end = n_total if n_done == n_total - 1 else min(n_done + chunk_size, n_total - 1)
        logits = model.read(live, ids[n_done:end])
        if end == n_total:
            mx.eval(logits)
        mx.eval([layer.state for layer in live.cache])
        n_done = end
        yield Progress(n_done, n_total)
    return logits


def decode(
    model: CountingModel,
    live: LiveCache,
    logits: mx.array,
    reply: Reply,
    *,
    constraint: CallConstraint,
    sampling: Sampling,
    tokenizer: Tokenizer,
    stop_ids: frozenset[int],
    is_cancelled: Callable[[], bool],
) -> Generator[Piece, None, None]:
    """Sample onto `reply` until a stop token, the end of a required call, the length limit or a cancel."""
    sampler = Sampler(sampling, constraint, len(tokenizer.pieces), len(live.ids))
    while True:
        token = sampler.pick(logits)
        reply.first_token_s = reply.first_token_s or time.perf_counter() - reply.started
        if token in stop_ids:
            reply.finish = Finish.STOP
            return
        constraint.accept(token)
        reply.sampled.append(token)
        yield Piece(token, tokenizer.pieces[token])
        if constraint.is_done or len(reply.sampled) >= sampling.max_tokens or is_cancelled():
            reply.finish = _finish(constraint, is_cancelled())
            return
        logits = model.read(live, np.array([token], dtype=np.uint32))
        mx.eval(logits, [layer.state for layer in live.cache])


def _finish(constraint: CallConstraint, cancelled: bool) -> Finish:
    if constraint.is_done:
        return Finish.STOP
    return Finish.CANCELLED if cancelled else Finish.LENGTH
