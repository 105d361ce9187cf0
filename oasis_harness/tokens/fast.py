r"""A tiktoken encoder for a GPT-2 style `tokenizer.json`, used only where it is proved to give the same ids.

tiktoken merges by rank and takes one regular expression; the tokenizers library chains pre-tokenizers. The known chains
are translated, anything else is left to the tokenizers library. `Digits` before `ByteLevel` (SmolLM2) means that a
number is one token a digit and that spaces before a digit stay together: `\p{N}` and `\s+(?=\p{N})`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tiktoken

from .alphabet import byte_alphabet

__all__ = ["fast_encoder"]

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_GPT2_SINGLE_DIGITS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"

_PROBES = (
    "Hello, world!  It's 12345 and 3.14\n\n\tdef f(x): return x ** 2  # ok\r\n",
    'name": "read_file", "arguments": {"path": "a/b.py", "limit": 10}}',
    "Größe naïve 日本語 한국어 العربية हिन्दी ½ ² ٣٤ Ⅷ e\u0301",
    "   7  \n 8\n\n\n9 \u00a0\u2003x",
    "😀👩‍👩‍👧 a\u0000b <think> </s> [INST] ▁ Ġ",
    "'s 'T 'll don't I'VE we're  'quoted'",
    "a" * 70 + " " * 40 + "\n" * 9 + "=" * 33 + "1" * 21,
)


def fast_encoder(
    content: dict[str, Any], encode: Callable[[str], Sequence[int]]
) -> Callable[[str], Sequence[int]] | None:
    """Return a tiktoken encoder equal to `encode` on every probe, or None where there is none.

    `content` is the parsed `tokenizer.json`, without special tokens.
    """
    pattern = _pattern(content)
    if pattern is None or content.get("normalizer") is not None:
        return None
    ranks, ids = _ranks(content["model"])
    if ranks is None:
        return None
    encoding = tiktoken.Encoding(name="oasis", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def fast(text: str) -> Sequence[int]:
        try:
            return [ids[rank] for rank in encoding.encode_ordinary(text)]
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # tiktoken's panic is no Exception, and not exported
                raise
            return encode(text)

    return fast if all(list(fast(text)) == list(encode(text)) for text in _PROBES) else None


def _pattern(content: dict[str, Any]) -> str | None:
    """Translate the known pre-tokenizer chains to one regular expression."""
    part = content.get("pre_tokenizer") or {}
    chain = part.get("pretokenizers") or [part]
    match [step.get("type") for step in chain]:
        case ["ByteLevel"] if chain[0].get("use_regex", True):
            return _GPT2
        case ["Digits", "ByteLevel"] if chain[0].get("individual_digits") and chain[1].get("use_regex", True):
            return _GPT2_SINGLE_DIGITS
        case ["Split", "ByteLevel"] if not chain[1].get("use_regex", True) and _isolates(chain[0]):
            regex: str = chain[0]["pattern"]["Regex"]
            return regex
    return None


def _isolates(step: dict[str, Any]) -> bool:
    return step.get("behavior") == "Isolated" and not step.get("invert") and "Regex" in step.get("pattern", {})


def _ranks(model: dict[str, Any]) -> tuple[dict[bytes, int] | None, list[int]]:
    """Return (rank of each piece, id of each rank): single bytes first, then the merges in their order."""
    alphabet = byte_alphabet()
    vocabulary: dict[str, int] = model["vocab"]
    merged = ["".join(pair if isinstance(pair, list) else pair.split(" ")) for pair in model["merges"]]
    ordered = [*(char for char in alphabet if char in vocabulary), *merged]
    if len(set(ordered)) != len(ordered) or any(piece not in vocabulary for piece in ordered):
        return None, []  # two merges that give one piece have two ranks; tiktoken knows one
    ranks = {bytes(alphabet[char] for char in piece): rank for rank, piece in enumerate(ordered)}
    return ranks, [vocabulary[piece] for piece in ordered]
