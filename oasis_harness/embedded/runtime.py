"""The embedded engine: an mlx-lm model on the worker thread, with a live cache for every conversation.

A cache that is in use has one owner; it is put back when the call ends, also when it was cancelled, and dropped when
anything failed half-way. Nothing is reused unless the token ids match.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from oasis_harness.engine import Completion, ModelInfo, Prompt, Sampling, Step, Timing
from oasis_harness.errors import EngineClosed, PromptTooLong, UnknownToken
from oasis_harness.sequences import common_prefix

from . import worker
from .adapters import fork_cache, rewind_cache
from .decode import CountingModel, LiveCache, Reply, decode, prefill
from .grammar import CallConstraint, grammar_tokenizer
from .loader import Loaded, load_folder

__all__ = ["MlxEngine"]


class MlxEngine:
    """A loaded model folder in mlx-lm's layout; a context manager.

    `chunk_size` tokens are read at a time; a cancel takes effect between two chunks.

    Raises:
        BadModel: The folder cannot be loaded.
    """

    def __init__(self, folder: Path, *, name: str | None = None, chunk_size: int = 512) -> None:
        self._live_caches: dict[str, LiveCache] = {}
        self._cancels: dict[str, threading.Event] = {}
        """The cancel of each conversation's newest call."""
        self._chunk_size = chunk_size
        self._grammar_tokenizer: Any = None
        self._is_closed = False
        self._loaded: Loaded = worker.run(lambda: load_folder(folder, name or folder.name))
        self._model = CountingModel(self._loaded.model)

    @property
    def model_info(self) -> ModelInfo:
        """What must be known of the model."""
        return self._loaded.model_info

    def generate(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step]:
        """Read what is new of `prompt`, sample a reply, and end with one Completion.

        Raises:
            EngineClosed: The engine was closed.
            PromptTooLong: The prompt leaves no room in the context window.
            UnknownToken: An id of the prompt is none of the model's; it would read outside the embedding.
            ToolChoiceUnsupported: The tool choice has no grammar here; raised by the first step.
        """
        if self._is_closed:
            raise EngineClosed(f"the engine of {self.model_info.name} is closed.", remedy="Open another one.")
        if len(prompt.ids) >= self.model_info.n_context:
            raise PromptTooLong(
                f"the prompt has {len(prompt.ids):,} tokens, the context window {self.model_info.n_context:,}.",
                remedy="Start a new Session, or go on with Session.load(path, engine) on a model of a larger window.",
                n_tokens=len(prompt.ids),
                n_context=self.model_info.n_context,
            )
        if len(prompt.ids) and int(prompt.ids.max()) >= self._loaded.n_vocabulary:
            raise UnknownToken(
                f"token {int(prompt.ids.max()):,} is not in the vocabulary of {self.model_info.name}, which has "
                f"{self._loaded.n_vocabulary:,}.",
                remedy="Encode the prompt with the model's own tokenizer.",
            )
        cancel = self._cancels[prompt.conversation] = threading.Event()
        return _Running(self._answer(prompt, sampling, cancel.is_set), cancel)

    def cancel(self, conversation: str | None = None) -> None:
        """End the call of `conversation`, or every call, after its current chunk or token."""
        for key, cancel in list(self._cancels.items()):
            if conversation in (None, key):
                cancel.set()

    def fork(self, source: str, target: str, n_tokens: int) -> bool:
        """Let `target` hold the first `n_tokens` of what `source` holds; False where the cache cannot."""
        return worker.run(lambda: self._fork(source, target, n_tokens))

    def forget(self, conversation: str) -> None:
        """Drop the cache of `conversation`."""
        self._cancels.pop(conversation, None)
        worker.run(lambda: self._live_caches.pop(conversation, None))

    def close(self) -> None:
        """Cancel what runs, drop caches and weights. Idempotent."""
        self._is_closed = True
        self.cancel()
        worker.run(self._release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _answer(self, prompt: Prompt, sampling: Sampling, is_cancelled: Callable[[], bool]) -> Iterator[Step]:
        """Run one call on the worker."""
        reply, constraint = Reply(), self._constraint(sampling)
        live = self._live_caches.pop(prompt.conversation, None) or self._empty()
        n_held, n_matched = len(live.ids), common_prefix(live.ids, prompt.ids)
        # The last token is always read: its logits are where the reply starts.
        live = self._cut(live, min(n_matched, len(prompt.ids) - 1))
        n_before = self._model.n_tokens
        new_ids = prompt.ids[len(live.ids) :]
        logits = yield from prefill(self._model, live, new_ids, chunk_size=self._chunk_size, is_cancelled=is_cancelled)
        n_prefilled = self._model.n_tokens - n_before
        if logits is not None:
            yield from decode(
                self._model,
                live,
                logits,
                reply,
                constraint=constraint,
                sampling=sampling,
                tokenizer=self.model_info.tokenizer,
                stop_ids=self.model_info.stop_ids,
                is_cancelled=is_cancelled,
            )
        self._live_caches[prompt.conversation] = live
        yield Completion(
            ids=tuple(reply.sampled),
            finish=reply.finish,
            n_presented=len(prompt.ids),
            n_prefilled=n_prefilled,
            n_held=n_held,
            n_matched=n_matched,
            n_pending=len(prompt.ids) + len(reply.sampled) - len(live.ids),
            timing=Timing(reply.first_token_s, time.perf_counter() - reply.started),
        )

    def _constraint(self, sampling: Sampling) -> CallConstraint:
        if self._grammar_tokenizer is None:
            stop_id = min(self.model_info.stop_ids)
            self._grammar_tokenizer = grammar_tokenizer(self.model_info.tokenizer, self._loaded.n_vocabulary, stop_id)
        return CallConstraint(sampling, self.model_info.tokenizer, self._grammar_tokenizer)

    def _empty(self) -> LiveCache:
        return LiveCache(make_prompt_cache(self._loaded.model), np.empty(0, dtype=np.uint32))

    def _cut(self, live: LiveCache, n_tokens: int) -> LiveCache:
        """Return `live` cut back to `n_tokens`, or an empty one where its cache cannot be rewound."""
        if rewind_cache(live.cache, len(live.ids) - n_tokens):
            return LiveCache(live.cache, live.ids[:n_tokens])
        return self._empty()

    def _release(self) -> None:
        self._live_caches.clear()
        self._loaded = replace(self._loaded, model=None)
        self._model = CountingModel(None)
        mx.clear_cache()

    def _fork(self, source: str, target: str, n_tokens: int) -> bool:
        live = self._live_caches.get(source)
        if live is None or n_tokens > len(live.ids):
            return False
        cache = fork_cache(live.cache)
        if cache is not None and rewind_cache(cache, len(live.ids) - n_tokens):
            self._live_caches[target] = LiveCache(cache, live.ids[:n_tokens])
            return True
        return False


class _Running:
    """The steps of a call that runs on the worker.

    Not a generator: an interrupt while waiting leaves it usable, so the caller can cancel and still take its end.
    """

    def __init__(self, steps: Iterator[Step], cancel: threading.Event) -> None:
        self._ready: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._steps = steps
        self._cancel = cancel
        self._done: Future[None] = worker.submit(self._work)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Step:
        step = self._ready.get()
        if step is None:
            self._ready.put(None)
            self._done.result()
            raise StopIteration
        return step

    def close(self) -> None:
        """Cancel, and wait until the cache is put back."""
        self._cancel.set()
        self._done.result()

    def _work(self) -> None:
        try:
            for step in self._steps:
                self._ready.put(step)
        finally:
            self._ready.put(None)
