"""What a model folder says of how the model is spoken to: its template, tokenizer, stop tokens and window.

Reads small files only: no weights, and no mlx but for the table of call syntaxes, which is mlx-lm's.
"""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from oasis_harness.engine import ModelInfo
from oasis_harness.errors import BadModel
from oasis_harness.replies import CallSyntax
from oasis_harness.tokens import Tokenizer, load_tokenizer
from oasis_harness.whole_file import read_whole

from .blas import load_blas

__all__ = ["call_syntax", "read_model_info", "settings_template", "settings_variables", "text_config"]

_MOST_BYTES = 64 << 20
"""Of each file read here; all of them are small."""
_LEAST_WINDOW = 64
"""Tokens; not even the words of an empty template fit into fewer."""
_LAYERS = frozenset({"num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_decoder_layers"})
_MOST_LAYERS = 1_000
"""The deepest models in use have about 130."""


def read_model_info(folder: Path, name: str) -> ModelInfo:
    """Return the model info of the model in `folder`, in mlx-lm's layout; errors call it `name`.

    Raises:
        BadModel: Chat template or stop token are missing, or a file is broken.
        BadTokenizer: The tokenizer cannot be used.
    """
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    settings = _read_json(folder / "tokenizer_config.json", name)
    template = _chat_template(folder, settings, name)
    config = _read_json(folder / "config.json", name)
    _require_bearable(config, name)
    generation = _read_json(folder / "generation_config.json", name)
    return ModelInfo(
        name=name,
        tokenizer=tokenizer,
        chat_template=template,
        template_variables=settings_variables(settings),
        stop_ids=_stop_ids([config, text_config(config), generation], settings, tokenizer, name),
        n_context=_context_window(config, settings, name),
        call_syntax=call_syntax(template, tokenizer.specials),
        opens_calls=_read_json(folder / "oasis.json", name).get("opens_calls", True) is not False,
    )


def call_syntax(template: str, specials: Mapping[str, int] | None = None) -> CallSyntax | None:
    """Return the call syntax mlx-lm knows for this template, or None; `specials` are the vocabulary's own tokens."""
    load_blas()  # mlx comes in with mlx-lm
    try:
        tokenizer_utils = importlib.import_module("mlx_lm.tokenizer_utils")
    except ImportError:
        return None
    seen = SimpleNamespace(chat_template=template, get_vocab=lambda: specials or {})
    parser_name = tokenizer_utils._infer_tool_parser(seen)
    if parser_name is None:
        return None
    parser = importlib.import_module(f"mlx_lm.tool_parsers.{parser_name}")
    return CallSyntax(parser.tool_call_start, parser.tool_call_end, parser.parse_tool_call)


def _chat_template(folder: Path, settings: dict[str, Any], name: str) -> str:
    own_file = folder / "chat_template.jinja"
    if own_file.exists():
        return _utf8(own_file, name)
    template = settings_template(settings)
    if template is None:
        raise BadModel(
            f"{name} has no chat template.",
            remedy="Use an instruction-tuned model, or put a chat_template.jinja into the folder.",
        )
    return template


def settings_template(settings: Mapping[str, Any]) -> str | None:
    """Return the chat template of a tokenizer_config.json, the one for tools where there are several."""
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("tool_use") or named.get("default")
    return template if isinstance(template, str) else None


def settings_variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens of a tokenizer_config.json by name, as a template sees them."""
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
    named.append(tokenizer.specials.get(settings_variables(settings).get("eos_token", "")))
    ids = frozenset(token for token in named if isinstance(token, int) and 0 <= token < len(tokenizer.pieces))
    if not ids:
        raise BadModel(
            f"{name} names no stop token of its vocabulary.", remedy="Set eos_token_id in its config.json.", ids=named
        )
    return ids


def _context_window(config: dict[str, Any], settings: dict[str, Any], name: str) -> int:
    window = text_config(config).get("max_position_embeddings") or settings.get("model_max_length") or 32_768
    if not isinstance(window, int | float) or not window >= _LEAST_WINDOW:
        raise BadModel(
            f"{name} has the context window {_shown(window)}, which is no number of tokens a prompt fits into.",
            remedy="Set max_position_embeddings in its config.json.",
            window=window,
        )
    return int(window) if window < 1e9 else 32_768  # tokenizers write 1e30 for "unknown"


def _require_bearable(config: dict[str, Any], name: str) -> None:
    """Refuse more layers than any model has: each is built before one weight is read."""
    for part in (config, text_config(config)):
        for key, value in part.items():
            if key in _LAYERS and isinstance(value, int | float) and not 0 <= value <= _MOST_LAYERS:
                raise BadModel(
                    f"{name} has {key} {_shown(value)}, the most is {_MOST_LAYERS:,}.",
                    remedy="Fetch the model again, or mend its config.json.",
                    n_layers=value,
                )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, dict) and text else config


def _read_json(path: Path, name: str) -> dict[str, Any]:
    """Return the object in the file; an empty one where there is no file."""
    if not path.exists():
        return {}
    try:
        content = json.loads(_utf8(path, name))
    except (ValueError, RecursionError) as error:
        raise _bad_file(path, name, f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise _bad_file(path, name, f"not a JSON object but {type(content).__name__}")
    return content


def _utf8(path: Path, name: str) -> str:
    try:
        return read_whole(path, n_most_bytes=_MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise _bad_file(path, name, f"not readable: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _bad_file(path, name, f"not UTF-8: {error}") from None


def _bad_file(path: Path, name: str, cause: str) -> BadModel:
    return BadModel(f"{path.name} of {name} is {cause}.", remedy="Fetch the model again.", path=path)
