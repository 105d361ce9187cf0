r"""A tiktoken encoder for a GPT-2 style `tokenizer.json`, used only where it gives the same ids.

tiktoken takes one regular expression, the tokenizers library chains pre-tokenizers: the known chains are translated and
tried on probes. `Digits` before `ByteLevel` (SmolLM2) means that a number is one token a digit and that spaces before a
digit stay together: `\p{N}` and `\s+(?=\p{N})`.

tiktoken merges whatever two neighbours give a piece of the vocabulary, tokenizers only the pairs it lists. The two
agree on all text when they agree on each piece alone: up to the last merge of a piece, all merges are those of shorter
pieces. So every piece is tried. Whatever fails is left to the tokenizers library.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import tiktoken
import tokenizers

from oasis_harness.errors import NotEncodable
from oasis_harness.panics import is_panic

from .alphabet import byte_alphabet
from .tokenizer import EncodeText

__all__ = [
    "fast_encoder",
    "slow_encoder",
]

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


# Scripts still grow here with each version of Unicode, and the two libraries need not know the same one.
_UNSETTLED = re.compile("[\U00010000-\U0001efff\U0001fc00-\U0010ffff]")


def slow_encoder(encoder: tokenizers.Tokenizer) -> EncodeText:
    """Return the encoder of the tokenizers library, as it is; what it fails on is NotEncodable."""

    def slow(text: str) -> Sequence[int]:
        try:
            ids: Sequence[int] = encoder.encode(text, add_special_tokens=False).ids
        except BaseException as error:
            if not is_panic(error) and not isinstance(error, Exception):
                raise
            raise NotEncodable(
                f"ordinary text {text[:60]!r} … cannot be encoded: the tokenizers library says {error}.",
                remedy="Its file asks for what the library cannot do; use another model.",
                text=text,
            ) from error
        return ids

    return slow


def fast_encoder(content: dict[str, Any], encoder: tokenizers.Tokenizer) -> EncodeText | None:
    """Return a tiktoken encoder that gives the ids of `encoder`, or None where there is none.

    `content` is the parsed `tokenizer.json` of `encoder`, without special tokens.
    """
    encoding, ids = _encoding(content)
    if encoding is None or not _merges_alone(content, encoder):
        return None
    slow = slow_encoder(encoder)

    def fast(text: str) -> Sequence[int]:
        if _UNSETTLED.search(text):
            return slow(text)
        try:
            return [ids[rank] for rank in encoding.encode_ordinary(text)]
        except BaseException as error:
            if not is_panic(error):
                raise
            return slow(text)

    return fast if all(list(fast(text)) == list(slow(text)) for text in _PROBES) else None


def _encoding(content: dict[str, Any]) -> tuple[tiktoken.Encoding | None, list[int]]:
    """Return (the same vocabulary and merges for tiktoken, id of each of its ranks)."""
    pattern = _split_pattern(content)
    ranks, ids = _ranks(content["model"])
    if pattern is None or not ranks:
        return None, []
    try:
        return tiktoken.Encoding(name="oasis", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}), ids
    except ValueError:  # a regular expression of a dialect that tiktoken does not know
        return None, []


def _merges_alone(content: dict[str, Any], encoder: tokenizers.Tokenizer) -> bool:
    """Say whether each piece, met alone, becomes itself by the listed merges."""
    model = content["model"]
    pieces = ["".join(pair) for pair in model["merges"]]
    if model.get("ignore_merges"):  # pieces are looked up before they are merged
        pieces = list(model["vocab"])
        encoder = tokenizers.Tokenizer.from_str(json.dumps({**content, "model": {**model, "ignore_merges": False}}))
    tokenize = encoder.model.tokenize
    return all(len(tokenize(piece)) == 1 for piece in pieces)


def _split_pattern(content: dict[str, Any]) -> str | None:
    """Translate the known pre-tokenizer chains to one regular expression, each match of which is a word."""
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
    ordered = [*(char for char in alphabet if char in vocabulary), *("".join(pair) for pair in model["merges"])]
    if len(set(ordered)) != len(ordered) or any(piece not in vocabulary for piece in ordered):
        return None, []  # two merges that give one piece have two ranks; tiktoken knows one
    ranks = {bytes(alphabet[char] for char in piece): rank for rank, piece in enumerate(ordered)}
    return ranks, [vocabulary[piece] for piece in ordered]
