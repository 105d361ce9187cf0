"""What a moved prompt costs: the speed of reading, measured on a real engine once a run, and never guessed.

The engine is the one room above this that guard enters, here and for the templates of its models: cost is part of the
proof, and it is measured on the engine that pays it. It is opened at the first failure and closed again; nothing is
fetched, and where there is no engine the cost is "not measured", with the reason.
"""

import importlib.util
from pathlib import Path

from oasis_harness.errors import OasisError

from .rates import Cost, NotMeasured, PrefillRate, measure_prefill

__all__ = ["NONE", "Meter"]

NONE = "none"
"""The model that measures nothing."""
_FAST, _SLOW = (256, 3), (64, 2)
"""Tokens and runs of a measurement; fewer where matrix products are slow, so that a failure is told in seconds."""


class Meter:
    """Measures at most once. `model` is a folder or a name as `find_model` knows it; the default model if empty."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._rate: PrefillRate | NotMeasured | None = None

    def cost(self, n_tokens: int | None) -> Cost | NotMeasured:
        """Return what reading `n_tokens` again takes here; None are tokens that nobody counted."""
        if n_tokens is None:
            return NotMeasured("tokens are not counted in this dialect: put its tokenizer.json beside the template")
        rate = self.rate()
        return Cost(rate, n_tokens) if isinstance(rate, PrefillRate) else rate

    def rate(self) -> PrefillRate | NotMeasured:
        """Return how fast the model reads here."""
        if self._rate is None:
            self._rate = _measured(self._model)
        return self._rate


def _measured(model: str) -> PrefillRate | NotMeasured:
    if model == NONE:
        return NotMeasured("oasis_engine is none")
    if importlib.util.find_spec("mlx_lm") is None:
        return NotMeasured("oasis-harness[mlx] is not installed")
    from oasis_harness.embedded import DEFAULT_MODEL, find_model, load_blas, open_engine

    folder = None
    try:
        folder = find_model(model or DEFAULT_MODEL)
        if folder is None:
            return NotMeasured(f"the model {_shown(model or DEFAULT_MODEL)} is not on this machine")
        n_tokens, n_runs = _FAST if load_blas().is_fast else _SLOW
        with open_engine(folder) as engine:
            return measure_prefill(engine, n_tokens=n_tokens, n_runs=n_runs)
    except OasisError as error:
        return NotMeasured(str(error).replace(str(folder), _shown(str(folder))))


def _shown(model: str) -> str:
    """Return a hub id, or the last part of a path: the reason goes into the ledger, which other machines read."""
    return Path(model).name if Path(model).is_absolute() or model.startswith(("~", ".")) else model
