"""From a model folder to weights in memory.

On a CPU 16-bit and quantised matrix products are slow, so weights become float32 there; on Metal they stay as stored.
"""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import dequantize_model, load_model

from oasis_harness.engine import ModelInfo
from oasis_harness.errors import BadModel, OasisError
from oasis_harness.panics import without_panics

from .model_info import read_model_info, text_config

__all__ = ["Loaded", "load_folder"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory."""

    model: Any
    """mlx-lm's module; it ships no types."""
    model_info: ModelInfo
    n_vocabulary: int
    """Length of a row of logits."""


def load_folder(folder: Path, name: str) -> Loaded:
    """Load `folder`, in mlx-lm's layout; errors call it `name`. Runs on the engine's thread.

    Raises:
        BadModel: Weights, tokenizer or chat template are missing or broken.
        BadTokenizer: The tokenizer cannot be used.
    """
    try:
        return without_panics(lambda: _load(folder, name))
    except OasisError:
        raise
    except Exception as error:  # mlx-lm takes what it reads for granted and fails in every way
        cause = textwrap.shorten(f"{type(error).__name__}: {error}", 300).rstrip(".")
        raise BadModel(
            f"{name} cannot be loaded: {cause}.", remedy="It must be a complete folder in mlx-lm's layout.", path=folder
        ) from error


def _load(folder: Path, name: str) -> Loaded:
    model_info = read_model_info(folder, name)
    _require_files(folder, name)
    model, config = load_model(folder)
    if mx.default_device() == mx.Device(mx.cpu):
        model = dequantize_model(model)
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return Loaded(model, model_info, text_config(config).get("vocab_size", len(model_info.tokenizer.pieces)))


def _require_files(folder: Path, name: str) -> None:
    """Refuse what mlx-lm would open without a look: it would wait for ever for who writes into a pipe."""
    for path in [*sorted(folder.glob("model*.safetensors")), folder / "hf_quant_config.json"]:
        if path.exists() and not path.is_file():
            raise BadModel(f"{path.name} of {name} is no regular file.", remedy="Fetch the model again.", path=path)
