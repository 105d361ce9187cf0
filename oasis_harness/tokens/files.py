"""Read a `tokenizer.json`: the bytes of every id, the special tokens, and an encoder for ordinary text.

Format: https://huggingface.co/docs/tokenizers. Two kinds can be inverted exactly: byte-level BPE (GPT-2's alphabet of
printable stand-ins) and SentencePiece vocabularies with byte fallback (`▁` for a space, `<0x0A>` for a byte).
"""

import copy
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import tokenizers

from oasis_harness.errors import BadTokenizer

from .alphabet import byte_alphabet
from .fast import fast_encoder

__all__ = ["read_tokenizer_json"]

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def read_tokenizer_json(data: bytes, name: str) -> tuple[list[bytes], dict[str, int], Callable[[str], Sequence[int]]]:
    """Return (bytes of each id, special and added tokens by text, encoder of ordinary text).

    Raises:
        BadTokenizer: Not JSON, not this format, or of a kind that cannot be inverted.
    """
    try:
        content = json.loads(data)
        vocabulary = _vocabulary(content)
        specials = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
        pieces = _pieces(content, vocabulary, specials)
        ordinary = json.dumps(_without_specials(content, specials))
        encoder = tokenizers.Tokenizer.from_str(ordinary)
    except Exception as error:  # noqa: BLE001 - the file is foreign, and so is the library that reads it
        raise BadTokenizer(
            f"{name} cannot be used: {error}.",
            remedy="It must be a byte-level BPE or a SentencePiece vocabulary with byte fallback.",
            path=name,
        ) from None

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = encoder.encode(text, add_special_tokens=False).ids
        return ids

    fast = fast_encoder(json.loads(ordinary), encode) if is_byte_level(content) else None
    return pieces, specials, fast or encode


def is_byte_level(content: dict[str, Any]) -> bool:
    """Say whether the vocabulary is spelled in GPT-2's byte alphabet."""
    return any(
        part.get("type") == "ByteLevel" for key in ("pre_tokenizer", "decoder") for part in _parts(content.get(key))
    )


def _vocabulary(content: dict[str, Any]) -> dict[str, int]:
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return vocabulary
    return {piece: token for token, (piece, _score) in enumerate(vocabulary)}


def _pieces(content: dict[str, Any], vocabulary: dict[str, int], specials: dict[str, int]) -> list[bytes]:
    spell = _byte_level_piece if is_byte_level(content) else _sentencepiece_piece
    if spell is _sentencepiece_piece and not content["model"].get("byte_fallback"):
        raise ValueError("its vocabulary has no byte fallback")
    pieces = [b""] * (1 + max([*vocabulary.values(), *specials.values()]))
    for text, token in vocabulary.items():
        pieces[token] = b"" if text in specials else spell(text)
    for text, token in specials.items():
        pieces[token] = text.encode("utf-8")
    return pieces


def _byte_level_piece(text: str) -> bytes:
    alphabet = byte_alphabet()
    return bytes([alphabet[char] for char in text])


def _sentencepiece_piece(text: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(text)
    return bytes([int(byte.group(1), 16)]) if byte else text.replace("▁", " ").encode("utf-8")


def _without_specials(content: dict[str, Any], specials: dict[str, int]) -> dict[str, Any]:
    """Return a copy that only knows ordinary text: no added tokens, no template, no space put in front."""
    plain = copy.copy(content)
    plain["added_tokens"] = []
    plain["post_processor"] = None
    # Byte-level vocabularies carry every form of a text; composing it (NFC) would change what was recorded.
    plain["normalizer"] = None if is_byte_level(content) else _without_prefix_space(content.get("normalizer"))
    plain["pre_tokenizer"] = _without_prefix_space(content.get("pre_tokenizer"))
    model = copy.copy(content["model"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {piece: token for piece, token in model["vocab"].items() if piece not in specials}
        model["unk_token"] = model["unk_token"] if model.get("unk_token") in model["vocab"] else None
    plain["model"] = model
    return plain


def _without_prefix_space(part: dict[str, Any] | None) -> dict[str, Any] | None:
    """Drop the space SentencePiece puts before a text's first word: a delta follows other text."""
    if part is None or part.get("type") == "Prepend":
        return None
    part = dict(part)
    for key in ("normalizers", "pretokenizers"):
        if key in part:
            part[key] = [inner for inner in map(_without_prefix_space, part[key]) if inner is not None]
    if "prepend_scheme" in part:
        part["prepend_scheme"] = "never"
    if "add_prefix_space" in part:
        part["add_prefix_space"] = False
    return part


def _parts(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    if part is None:
        return []
    return [part, *(part.get("pretokenizers") or ()), *(part.get("decoders") or ())]
