"""The slice oracle: a reused conversation against a cold run that is fed the same slices, bit for bit.

Run as a program (`python -m tests.embedded.oracle FOLDER`) so that each BLAS gets a process of its own; prints one
JSON object.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

from oasis_harness.embedded import load_blas

BLAS = load_blas()

import mlx.core as mx  # noqa: E402 - the BLAS must come first
import numpy as np  # noqa: E402
from mlx_lm.models.cache import make_prompt_cache  # noqa: E402

from oasis_harness import Sampling, Session  # noqa: E402
from oasis_harness.embedded import worker  # noqa: E402
from oasis_harness.embedded.decode import CountingModel, LiveCache  # noqa: E402
from oasis_harness.embedded.runtime import MlxEngine  # noqa: E402

N_TURNS = 12


class RecordingModel(CountingModel):
    """Keeps, for every slice that was read: where it began, its ids, and the logits after it."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.slices: list[tuple[int, Any, Any]] = []

    def read(self, live: LiveCache, ids: Any) -> mx.array:
        offset = len(live.ids)
        logits = super().read(live, ids)
        self.slices.append((offset, ids.copy(), np.array(logits)))
        return logits


def cold_run(engine: MlxEngine, slices: list[tuple[int, Any, Any]]) -> list[Any]:
    """The logits after each slice, read one after another onto one fresh cache."""
    model = engine._loaded.model

    def run() -> list[Any]:
        cache = make_prompt_cache(model)
        return [np.array(model(mx.array(ids)[None], cache=cache)[0, -1]) for _, ids, _ in slices]

    return worker.run(run)


def is_one_stream(slices: list[tuple[int, Any, Any]]) -> bool:
    """Whether each slice begins where the one before ended: nothing was read twice."""
    ends = [offset + len(ids) for offset, ids, _ in slices]
    return [offset for offset, _, _ in slices] == [0, *ends[:-1]]


def converse(engine: MlxEngine, n_turns: int = N_TURNS, max_tokens: int = 6) -> dict[str, Any]:
    """Hold a conversation of random words, then feed its slices to a cold cache; return what differed."""
    engine._model = recorder = RecordingModel(engine._loaded.model)
    words = random.Random(11)
    with Session(engine, system="You answer.", policy="raise", sampling=Sampling(max_tokens=max_tokens)) as session:
        for _ in range(n_turns):
            session.send(" ".join(words.choices(("alpha", "beta 1", "gamma,", "delta\n"), k=words.randint(1, 8))))
        cold = cold_run(engine, recorder.slices)
        return {
            "blas": BLAS.name,
            "n_slices": len(recorder.slices),
            "n_tokens": int(session.conversation.tip.n_tokens),
            "is_one_stream": is_one_stream(recorder.slices),
            "deficits": [turn.reuse.deficit for turn in session.turns],
            "max_delta": max(
                float(np.abs(warm - again).max()) for (_, _, warm), again in zip(recorder.slices, cold, strict=True)
            ),
        }


if __name__ == "__main__":
    with MlxEngine(Path(sys.argv[1]), chunk_size=32) as opened:
        print(json.dumps(converse(opened)))
