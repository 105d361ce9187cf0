"""From a model folder to weights in memory and the model's card.

On a CPU 16-bit and quantised matrix products are slow, so weights become float32 there; on Metal they stay as stored.
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx_lm import tokenizer_utils
from mlx_lm.utils import dequantize_model, load_model

from oasis_harness.engine import CallParser, ModelCard
from oasis_harness.errors import BadModel
from oasis_harness.tokens import Tokenizer, load_tokenizer

__all__ = ["Loaded", "load_folder"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory."""

    model: Any
    """mlx-lm's module; it ships no types."""
    card: ModelCard
    n_vocabulary: int
    """Length of a row of logits."""


def load_folder(folder: Path, name: str) -> Loaded:
    """Load `folder`, in mlx-lm's layout. Runs on the engine's thread.

    Raises:
        BadModel: Weights, tokenizer or chat template are missing or broken.
        BadTokenizer: The tokenizer cannot be used.
    """
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    settings = _read_json(folder / "tokenizer_config.json")
    template = _chat_template(folder, settings)
    try:
        model, config = load_model(folder)
    except (FileNotFoundError, ValueError, KeyError, RuntimeError) as error:
        raise BadModel(
            f"{folder.name} cannot be loaded: {error}.", remedy="It must be a complete folder in mlx-lm's layout."
        ) from None
    if mx.default_device() == mx.Device(mx.cpu):
        model = dequantize_model(model)
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    card = ModelCard(
        name=name,
        tokenizer=tokenizer,
        chat_template=template,
        template_variables=_template_variables(settings),
        stop_ids=_stop_ids(folder, config, settings, tokenizer),
        n_context=_context_window(config, settings),
        call_syntax=call_syntax(template, tokenizer),
        opens_calls=_read_json(folder / "oasis.json").get("opens_calls", True),
    )
    return Loaded(model, card, _text_config(config).get("vocab_size", len(tokenizer.pieces)))


def call_syntax(template: str, tokenizer: Tokenizer) -> tuple[str, str, CallParser] | None:
    """Return the call syntax mlx-lm knows for this template, or None."""
    seen = SimpleNamespace(chat_template=template, get_vocab=lambda: tokenizer.specials)
    parser_name = tokenizer_utils._infer_tool_parser(seen)
    if parser_name is None:
        return None
    parser = importlib.import_module(f"mlx_lm.tool_parsers.{parser_name}")
    return parser.tool_call_start, parser.tool_call_end, parser.parse_tool_call


def _chat_template(folder: Path, settings: dict[str, Any]) -> str:
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_bytes().decode("utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("tool_use") or named.get("default")
    if not isinstance(template, str):
        raise BadModel(
            f"{folder.name} has no chat template.",
            remedy="Use an instruction-tuned model, or put a chat_template.jinja into the folder.",
        )
    return template


def _template_variables(settings: dict[str, Any]) -> dict[str, str]:
    """Return the special tokens by name, as a template sees them."""
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}


def _stop_ids(folder: Path, config: dict[str, Any], settings: dict[str, Any], tokenizer: Tokenizer) -> frozenset[int]:
    ids: set[int] = set()
    for source in (config, _text_config(config), _read_json(folder / "generation_config.json")):
        value = source.get("eos_token_id")
        ids.update(value if isinstance(value, list) else [] if value is None else [value])
    eos_text = _template_variables(settings).get("eos_token")
    if eos_text in tokenizer.specials:
        ids.add(tokenizer.specials[eos_text])
    if not ids:
        raise BadModel(f"{folder.name} names no stop token.", remedy="Set eos_token_id in its config.json.")
    return frozenset(ids)


def _context_window(config: dict[str, Any], settings: dict[str, Any]) -> int:
    window = _text_config(config).get("max_position_embeddings") or settings.get("model_max_length")
    return int(window) if window and window < 1e9 else 32_768


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    text: dict[str, Any] = config.get("text_config") or config
    return text


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BadModel(f"{path.name} is not JSON: {error}.", remedy="Fetch the model again.", path=path) from None
    return content
