"""Convert a Llama-architecture GGUF file to a model folder in mlx-lm's layout.

mx.load reads weights (Q4_0, Q4_1 and Q8_0 as MLX's own quantisation), tokenizer and chat template. llama.cpp stores
the rows of the q and k projections permuted for its rotary embedding; they are put back.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import json
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

from oasis_harness.errors import BadModel

__all__ = ["convert_gguf"]

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3
"""The GGUF token type of special tokens."""


def convert_gguf(source: Path, folder: Path) -> None:
    """Write `folder` (config.json, model.safetensors, tokenizer.json, tokenizer_config.json) from `source`.

    Raises:
        BadModel: Another architecture or tokenizer than this conversion knows.
    """
    # The stub of mx.load does not tell what the flag returns.
    weights, metadata = cast(tuple[dict[str, mx.array], dict[str, Any]], mx.load(str(source), return_metadata=True))
    _require(metadata, "general.architecture", "llama", source)
    _require(metadata, "tokenizer.ggml.model", "gpt2", source)
    _require(metadata, "tokenizer.ggml.pre", "smollm", source)
    folder.mkdir(parents=True)
    config = _config(metadata, weights)
    tensors = dict(_renamed(name, array, config) for name, array in weights.items())
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
    _write(folder / "tokenizer.json", _tokenizer(metadata))
    _write(folder / "tokenizer_config.json", _tokenizer_config(metadata))
    _write(folder / "config.json", config)


def _config(metadata: dict[str, Any], weights: dict[str, mx.array]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _number(metadata, "llama.embedding_length"),
        "num_hidden_layers": _number(metadata, "llama.block_count"),
        "intermediate_size": _number(metadata, "llama.feed_forward_length"),
        "num_attention_heads": _number(metadata, "llama.attention.head_count"),
        "num_key_value_heads": _number(metadata, "llama.attention.head_count_kv"),
        "rms_norm_eps": round(float(metadata["llama.attention.layer_norm_rms_epsilon"].item()), 9),
        "rope_theta": float(metadata["llama.rope.freq_base"].item()),
        "vocab_size": _number(metadata, "llama.vocab_size"),
        "max_position_embeddings": _number(metadata, "llama.context_length"),
        "bos_token_id": _number(metadata, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _number(metadata, "tokenizer.ggml.eos_token_id"),
        "tie_word_embeddings": "output.weight" not in weights,
    }
    if "blk.0.attn_q.scales" in weights:
        embedding = {"model.embed_tokens": _quantisation(weights, "token_embd")}
        config["quantization"] = _quantisation(weights, "blk.0.attn_q") | embedding
    return config


def _quantisation(weights: dict[str, mx.array], name: str) -> dict[str, int]:
    """Return MLX's words for how a matrix with rows of `hidden_size` is packed."""
    n_packed, n_groups = weights[f"{name}.weight"].shape[1], weights[f"{name}.scales"].shape[1]
    group_size = 32  # of Q4_0, Q4_1 and Q8_0 alike
    return {"group_size": group_size, "bits": 32 * n_packed // (n_groups * group_size)}


def _renamed(name: str, array: mx.array, config: dict[str, Any]) -> tuple[str, mx.array]:
    *block, part, leaf = name.split(".")
    prefix = f"model.layers.{block[1]}." if block else ""
    if part in ("attn_q", "attn_k"):
        heads = config["num_attention_heads" if part == "attn_q" else "num_key_value_heads"]
        array = _unpermuted(array, heads)
    return f"{prefix}{_NAMES[part]}.{leaf}", array


def _unpermuted(array: mx.array, n_heads: int) -> mx.array:
    """Undo llama.cpp's interleaving of the two halves of each head's rows; array is (rows, columns)."""
    rows, columns = array.shape
    paired = array.reshape(n_heads, rows // n_heads // 2, 2, columns)
    return paired.swapaxes(1, 2).reshape(rows, columns)


def _tokenizer(metadata: dict[str, Any]) -> dict[str, Any]:
    digits = {"type": "Digits", "individual_digits": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _special_tokens(metadata),
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": _byte_pair_model(metadata),
    }


def _byte_pair_model(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {text: i for i, text in enumerate(metadata["tokenizer.ggml.tokens"])},
        "merges": metadata["tokenizer.ggml.merges"],
    }


def _special_tokens(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"].tolist()
    matching = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": i, "content": text, **matching, "special": True}
        for i, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind == _CONTROL
    ]


def _tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[_number(metadata, "tokenizer.ggml.bos_token_id")],
        "eos_token": tokens[_number(metadata, "tokenizer.ggml.eos_token_id")],
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": _number(metadata, "llama.context_length"),
        "chat_template": metadata["tokenizer.chat_template"],
    }


def _number(metadata: dict[str, Any], key: str) -> int:
    return int(metadata[key].item())


def _require(metadata: dict[str, Any], key: str, expected: str, source: Path) -> None:
    if metadata.get(key) != expected:
        raise BadModel(
            f"{source.name} has {key} {metadata.get(key)!r}, this conversion knows {expected!r}.",
            remedy="Convert the model with mlx_lm.convert and name the folder.",
            path=source,
        )


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8", newline="")
