"""From a model folder to weights in memory and the model's card.

On a CPU 16-bit and quantised matrix products are slow, so weights become float32 there; on Metal they stay as stored.
"""

import importlib
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx_lm import tokenizer_utils
from mlx_lm.utils import dequantize_model, load_model

from oasis_harness.engine import CallParser, ModelCard
from oasis_harness.errors import BadModel, OasisError
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
    """Load `folder`, in mlx-lm's layout; errors call it `name`. Runs on the engine's thread.

    Raises:
        BadModel: Weights, tokenizer or chat template are missing or broken.
        BadTokenizer: The tokenizer cannot be used.
    """
    try:
        return _load(folder, name)
    except OasisError:
        raise
    except Exception as error:  # mlx-lm takes what it reads for granted and fails in every way
        cause = textwrap.shorten(f"{type(error).__name__}: {error}", 300).rstrip(".")
        raise BadModel(
            f"{name} cannot be loaded: {cause}.", remedy="It must be a complete folder in mlx-lm's layout.", path=folder
        ) from error


def _load(folder: Path, name: str) -> Loaded:
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    settings = _read_json(folder / "tokenizer_config.json", name)
    template = _chat_template(folder, settings, name)
    model, config = load_model(folder)
    if mx.default_device() == mx.Device(mx.cpu):
        model = dequantize_model(model)
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    generation = _read_json(folder / "generation_config.json", name)
    card = ModelCard(
        name=name,
        tokenizer=tokenizer,
        chat_template=template,
        template_variables=_template_variables(settings),
        stop_ids=_stop_ids([config, _text_config(config), generation], settings, tokenizer, name),
        n_context=_context_window(config, settings, name),
        call_syntax=call_syntax(template, tokenizer),
        opens_calls=_read_json(folder / "oasis.json", name).get("opens_calls", True),
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


def _chat_template(folder: Path, settings: dict[str, Any], name: str) -> str:
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return _utf8(own_file, name)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("tool_use") or named.get("default")
    if not isinstance(template, str):
        raise BadModel(
            f"{name} has no chat template.",
            remedy="Use an instruction-tuned model, or put a chat_template.jinja into the folder.",
        )
    return template


def _template_variables(settings: dict[str, Any]) -> dict[str, str]:
    """Return the special tokens by name, as a template sees them."""
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}


def _stop_ids(
    configs: list[dict[str, Any]], settings: dict[str, Any], tokenizer: Tokenizer, name: str
) -> frozenset[int]:
    """Return every id that one of the files calls an end and the tokenizer has."""
    named: list[Any] = []
    for config in configs:
        value = config.get("eos_token_id")
        named += value if isinstance(value, list) else [value]
    named.append(tokenizer.specials.get(_template_variables(settings).get("eos_token", "")))
    ids = frozenset(token for token in named if isinstance(token, int) and 0 <= token < len(tokenizer.pieces))
    if not ids:
        raise BadModel(
            f"{name} names no stop token of its vocabulary.", remedy="Set eos_token_id in its config.json.", ids=named
        )
    return ids


def _context_window(config: dict[str, Any], settings: dict[str, Any], name: str) -> int:
    window = _text_config(config).get("max_position_embeddings") or settings.get("model_max_length") or 32_768
    if not isinstance(window, int | float) or window < 1:
        raise BadModel(
            f"{name} has the context window {window!r}, which is no number of tokens.",
            remedy="Set max_position_embeddings in its config.json.",
            window=window,
        )
    return int(window) if window < 1e9 else 32_768  # tokenizers write 1e30 for "unknown"


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    text: dict[str, Any] = config.get("text_config") or config
    return text


def _read_json(path: Path, name: str) -> dict[str, Any]:
    """Return the object in the file; an empty one where there is no file."""
    if not path.exists():
        return {}
    try:
        content = json.loads(_utf8(path, name))
    except ValueError as error:
        raise _bad_file(path, name, f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise _bad_file(path, name, f"not a JSON object but {type(content).__name__}")
    return content


def _utf8(path: Path, name: str) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad_file(path, name, f"not UTF-8: {error}") from None


def _bad_file(path: Path, name: str, cause: str) -> BadModel:
    return BadModel(f"{path.name} of {name} is {cause}.", remedy="Fetch the model again.", path=path)
