"""Tiny random models in mlx-lm's own classes, one for each kind of cache, written as real model folders."""

import importlib
import json
from pathlib import Path
from typing import Any

FAMILIES = ("llama", "gemma3_text", "qwen3_next")
"""Plain KV; rotating (window 16) and KV; recurrent state and KV."""

SPECIALS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
N_VOCABULARY = 256 + len(SPECIALS)
N_ROWS = N_VOCABULARY + 5
"""Rows of logits: padded past the tokenizer, as real models are."""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "vocab_size": N_ROWS,
    "max_position_embeddings": 4096,
    "eos_token_id": N_VOCABULARY - 2,
}
_OWN: dict[str, dict[str, Any]] = {
    "llama": {"rope_theta": 10000.0, "tie_word_embeddings": True},
    "gemma3_text": {"sliding_window": 16, "sliding_window_pattern": 2, "query_pre_attn_scalar": 8},
    "qwen3_next": {
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 32,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "full_attention_interval": 2,
        "tie_word_embeddings": True,
    },
}


def tiny_config(family: str) -> dict[str, Any]:
    return {"model_type": family, **_COMMON, **_OWN[family]}


def tiny_model(family: str, seed: int = 7) -> Any:
    """A random model of `family`; weights are large enough that every token matters."""
    import mlx.core as mx
    from mlx.utils import tree_map

    module = importlib.import_module(f"mlx_lm.models.{family}")
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(tiny_config(family)))
    model.update(tree_map(lambda weight: mx.random.normal(weight.shape) * 0.3, model.parameters()))
    mx.eval(model.parameters())
    return model


def write_tiny_model(folder: Path, family: str, *, chat_template: str | None = CHATML) -> Path:
    """Write `folder` in mlx-lm's layout: a random model that speaks ChatML in single bytes."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    folder.mkdir(parents=True, exist_ok=True)
    weights = dict(tree_flatten(tiny_model(family).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    settings = {"eos_token": "<|im_end|>"} | ({"chat_template": chat_template} if chat_template else {})
    for name, content in (
        ("config.json", tiny_config(family)),
        ("tokenizer.json", byte_level_tokenizer()),
        ("tokenizer_config.json", settings),
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder


def byte_level_tokenizer() -> dict[str, Any]:
    """A tokenizer.json without merges: every byte is a token."""
    from oasis_harness.tokens.alphabet import byte_alphabet

    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": 256 + i, "content": text, **added} for i, text in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": dict(byte_alphabet()), "merges": []},
    }
