"""Tiny tokenizers of the shapes that models have, trained in a moment and written as `tokenizer.json`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

SPECIALS = ["<|im_start|>", "<|im_end|>", "<think>"]
SAMPLE = [
    'def read_file(path, limit=200):\n    """Read it."""\n    return open(path).read()[:limit]\n',
    "I'll say: we've 12 files, they're 3.14 MB; don't DON'T   stop\n\n\n\t\tHello hello  world world 2024\r\n",
    "Größe naïve café 日本語 日本 한국어 Привет 😀😀 ½ ² e\u0301\n",
] * 4

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def byte_level(*steps: Any, use_regex: bool = True, **model: Any) -> tokenizers.Tokenizer:
    """A byte-level BPE; `steps` come before ByteLevel."""
    tokenizer = tokenizers.Tokenizer(models.BPE(**model))
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, pre_tokenizers.ByteLevel.alphabet(), SPECIALS)


def trained(tokenizer: tokenizers.Tokenizer, alphabet: list[str], specials: list[str]) -> tokenizers.Tokenizer:
    size = len(alphabet) + len(specials) + 120
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=specials, show_progress=False
    )
    tokenizer.train_from_iterator(SAMPLE, trainer)
    return tokenizer


def split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def gpt2() -> tokenizers.Tokenizer:
    return byte_level()


def digits() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.Digits(individual_digits=True))


def qwen2() -> tokenizers.Tokenizer:
    tokenizer = byte_level(split(QWEN), use_regex=False)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def llama3() -> tokenizers.Tokenizer:
    return byte_level(split(LLAMA3), use_regex=False, ignore_merges=True)


def sentencepiece(normalizer: Any, pre_tokenizer: Any) -> tokenizers.Tokenizer:
    """A BPE with byte fallback and `▁` for a space; its special tokens stand in the vocabulary, as Llama 2's do."""
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps)
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = trained(tokenizer, [], ["<unk>", "<s>", "</s>", *fallback])
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in fallback]
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def llama2() -> tokenizers.Tokenizer:
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    return sentencepiece(normalizers.Sequence(steps), None)


def gemma() -> tokenizers.Tokenizer:
    """Runs of white space are added tokens, too."""
    tokenizer = sentencepiece(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"))
    tokenizer.add_tokens([AddedToken(run, normalized=False) for run in ("\n", "\n\n", "\t", "▁▁", "▁▁▁")])
    return tokenizer


def metaspace(scheme: str) -> Callable[[], tokenizers.Tokenizer]:
    return lambda: sentencepiece(None, pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "first"))


BYTE_LEVEL = {"gpt2": gpt2, "digits": digits, "qwen2": qwen2, "llama3": llama3}
SENTENCEPIECE = {
    "llama2": llama2,
    "gemma": gemma,
    "metaspace always": metaspace("always"),
    "metaspace first": metaspace("first"),
}


def write(tokenizer: tokenizers.Tokenizer, folder: Path, **changes: Any) -> Path:
    """Write `tokenizer` with `changes` to its JSON, at the top or, for keys of the model, there."""
    content = json.loads(tokenizer.to_str())
    for key, value in changes.items():
        (content if key in content else content["model"])[key] = value
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), "utf-8")
    return path
