"""Read a `tokenizer.json`: the bytes of every id, the special tokens, and an encoder for ordinary text.

Format: https://huggingface.co/docs/tokenizers. Ordinary text goes through tiktoken where that gives the
same ids, else through the tokenizers library. Two kinds of BPE can be inverted exactly: byte-level (GPT-2's alphabet of
printable stand-ins) and SentencePiece vocabularies with byte fallback (`▁` for a space, `<0x0A>` for a byte).
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from oasis_harness.canonical import digest
from oasis_harness.errors import BadTokenizer, NotEncodable
from oasis_harness.panics import without_panics
from oasis_harness.whole_file import read_whole

from .alphabet import byte_alphabet
from .tiktoken_bpe import fast_encoder, slow_encoder
from .tokenizer import EncodeText, Tokenizer

__all__ = ["load_tokenizer"]

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "▁"
_MOST_BYTES = 128 << 20
"""Of a file; the largest vocabularies in use take 34 MB."""
_MOST_IDS = 1 << 21
"""Eight times the largest vocabulary in use. Every id up to the last gets a place in a table."""
_MOST_MARKER_BYTES = 1_000
"""Of a special token; llguidance's table of tokens ends a little above 1,000."""
_SAMPLE = b'Hello, world!  It\'s 3.14\n\n\tdef f(x):\r\n        return  x ** 2  # "ok" <end>\n'


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a `tokenizer.json`.

    Raises:
        BadTokenizer: The file is missing, not JSON, or of a kind whose ids cannot be turned back into bytes.
    """
    try:
        data = read_whole(path, n_most_bytes=_MOST_BYTES)
    except OSError as error:
        raise BadTokenizer(
            f"{path} cannot be read: {error.strerror}.", remedy="A model folder needs a tokenizer.json.", path=path
        ) from None
    pieces, specials, encode_text = _read(data, path.name)
    tokenizer = Tokenizer(pieces, specials, encode_text, digest=digest(data))
    _require_exact(tokenizer, path)
    return tokenizer


def _require_exact(tokenizer: Tokenizer, path: Path) -> None:
    sample = tokenizer.escape(_SAMPLE)
    try:
        tokenizer.encode(sample, [(0, len(sample))])
    except NotEncodable:
        raise BadTokenizer(
            f"{path.name} changes ordinary text: {sample!r} does not come back from its ids.",
            remedy="Its ids cannot be turned back into bytes; use another model.",
            path=path,
        ) from None


def _read(data: bytes, name: str) -> tuple[list[bytes], dict[str, int], EncodeText]:
    """Return (bytes of each id, special and added tokens by text, encoder of ordinary text).

    Raises:
        BadTokenizer: Not JSON, not this format, or of a kind that cannot be inverted.
    """
    try:
        content = json.loads(data)
        _refuse_other_kinds(content)
        _refuse_odd_ids(content)
        specials = {token["content"]: token["id"] for token in _added(content) if _is_marker(token)}
        pieces = _pieces(content, specials)
        ordinary = _ordinary(content, specials)
        encoder = without_panics(lambda: tokenizers.Tokenizer.from_str(json.dumps(ordinary)))
        fixed = _fixed(content, specials)
    except Exception as error:  # noqa: BLE001 - the file is foreign, and so is the library that reads it
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise BadTokenizer(
            f"{name} cannot be used: {reason}.",
            remedy="It must be a byte-level BPE or a SentencePiece BPE with byte fallback; use another model.",
            path=name,
        ) from None
    fast = _fast(ordinary, encoder) if is_byte_level(content) else None
    return pieces, specials, _around(fixed, fast or slow_encoder(encoder))


def _fast(ordinary: dict[str, Any], encoder: tokenizers.Tokenizer) -> EncodeText | None:
    """Return the fast encoder, or None where trying it fails: the slow one will say what is wrong."""
    try:
        return without_panics(lambda: fast_encoder(ordinary, encoder))
    except Exception:  # noqa: BLE001 - two foreign libraries on a foreign file
        return None


def is_byte_level(content: dict[str, Any]) -> bool:
    """Say whether the vocabulary is spelled in GPT-2's byte alphabet."""
    return any(
        part.get("type") == "ByteLevel" for key in ("pre_tokenizer", "decoder") for part in _parts(content.get(key))
    )


def _refuse_other_kinds(content: dict[str, Any]) -> None:
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    model = content["model"]
    if "merges" not in model or not isinstance(model["vocab"], dict):
        raise ValueError(f"its model is {model.get('type', 'no BPE')}")
    affix = next((key for key in ("continuing_subword_prefix", "end_of_word_suffix") if model.get(key)), None)
    if affix is not None:  # no byte-level or byte-fallback vocabulary has one; the library panics or aborts on some
        raise ValueError(f"its pieces have a {affix.replace('_', ' ')}")
    if is_byte_level(content):
        return
    if not model.get("byte_fallback") or any(_byte_piece(byte) not in model["vocab"] for byte in range(256)):
        raise ValueError("its vocabulary has no byte fallback")


def _refuse_odd_ids(content: dict[str, Any]) -> None:
    """Refuse ids that are no small numbers, that two pieces share, and special tokens longer than any is."""
    spell = _byte_level_piece if is_byte_level(content) else _sentencepiece_piece
    held: dict[int, str] = {}
    for text, token in content["model"]["vocab"].items():
        _refuse_odd_id(text, token)
        if held.setdefault(token, text) != text:
            raise ValueError(f"the id {token} is both {_shown(held[token])} and {_shown(text)}")
    for added in _added(content):
        text, token = added["content"], added["id"]
        _refuse_odd_id(text, token)
        if len(text.encode("utf-8")) > _MOST_MARKER_BYTES:
            raise ValueError(f"the added token {_shown(text)} has more than {_MOST_MARKER_BYTES:,} bytes")
        other = held.setdefault(token, text)
        if other != text and spell(other) != text.encode("utf-8"):
            raise ValueError(f"the id {token} is both {_shown(other)} and {_shown(text)}")


def _refuse_odd_id(text: object, token: object) -> None:
    if not isinstance(text, str):
        raise ValueError(f"an added token is no text but {type(text).__name__}")
    if type(token) is not int:  # a boolean is one of its kinds
        raise ValueError(f"the id of {_shown(text)} is {_shown(token)}, which is no whole number")
    if not 0 <= token < _MOST_IDS:
        raise ValueError(f"the id of {_shown(text)} is {_shown(token)}, which is not between 0 and {_MOST_IDS - 1:,}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _added(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [token for token in content.get("added_tokens") or () if token["content"]]


def _is_marker(token: dict[str, Any]) -> bool:
    """Say whether an added token marks something; a run of white space (Gemma, GPT-NeoX) is ordinary text."""
    return bool(token.get("special")) or not token["content"].replace(_SPACE, " ").isspace()


def _pieces(content: dict[str, Any], specials: dict[str, int]) -> list[bytes]:
    vocabulary = content["model"]["vocab"]
    added = {token["content"]: token["id"] for token in _added(content)}
    spell = _byte_level_piece if is_byte_level(content) else _sentencepiece_piece
    pieces = [b""] * (1 + max([*vocabulary.values(), *added.values()]))
    for text, token in added.items():
        pieces[token] = text.encode("utf-8")
    for text, token in vocabulary.items():
        if text not in specials:
            pieces[token] = spell(text)
    return pieces


def _fixed(content: dict[str, Any], specials: dict[str, int]) -> dict[str, list[int]]:
    """Return the ids of text that is not left to merges: added white space, and a typed `▁`, spelled in bytes."""
    fixed = {token["content"]: [token["id"]] for token in _added(content) if token["content"] not in specials}
    if is_byte_level(content):
        return fixed
    vocabulary = content["model"]["vocab"]
    mark = [vocabulary[_byte_piece(byte)] for byte in _SPACE.encode("utf-8")]
    return {text: ids for text, ids in fixed.items() if _SPACE not in text} | {_SPACE: mark}


def _byte_level_piece(text: str) -> bytes:
    alphabet = byte_alphabet()
    try:
        return bytes([alphabet[char] for char in text])
    except KeyError:
        raise ValueError(f"its piece {text!r} is not spelled in the byte alphabet") from None


def _sentencepiece_piece(text: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(text)
    return bytes([int(byte.group(1), 16)]) if byte else text.replace(_SPACE, " ").encode("utf-8")


def _byte_piece(byte: int) -> str:
    return f"<0x{byte:02X}>"


def _ordinary(content: dict[str, Any], specials: dict[str, int]) -> dict[str, Any]:
    """Return a copy that only knows ordinary text: no special tokens, no template, no space put in front."""
    # Byte-level vocabularies carry every form of a text; composing it (NFC) would change what was recorded.
    normalizer = None if is_byte_level(content) else _spaces_only(content.get("normalizer"))
    return {
        **content,
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": _without_prefix_space(content.get("pre_tokenizer")),
        "post_processor": None,
        "model": _model_without(content["model"], specials),
    }


def _model_without(model: dict[str, Any], specials: dict[str, int]) -> dict[str, Any]:
    vocabulary = {piece: token for piece, token in model["vocab"].items() if piece not in specials}
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    unknown = model.get("unk_token")
    return {
        **model,
        "dropout": None,
        "vocab": vocabulary,
        "merges": [pair for pair in pairs if specials.keys().isdisjoint((*pair, "".join(pair)))],
        "unk_token": unknown if unknown in vocabulary else None,
    }


def _spaces_only(normalizer: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keep of a SentencePiece normalizer what writes a space as `▁`; any other step changes text."""
    steps = [step for step in _parts(normalizer) if step.get("type") == "Replace" and step.get("content") == _SPACE]
    return {"type": "Sequence", "normalizers": steps} if steps else None


def _without_prefix_space(part: dict[str, Any] | None) -> dict[str, Any] | None:
    """Drop the space that is put before a text's first word: a delta follows other text."""
    if part is None:
        return None
    part = dict(part)
    if "pretokenizers" in part:
        part["pretokenizers"] = [_without_prefix_space(inner) for inner in part["pretokenizers"]]
    if part.get("type") == "Metaspace":
        part["prepend_scheme"] = "never"
    if part.get("type") in ("Metaspace", "ByteLevel"):
        part["add_prefix_space"] = False
    return part


def _parts(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    if part is None:
        return []
    return [part, *(inner for key in ("normalizers", "pretokenizers", "decoders") for inner in part.get(key) or ())]


def _around(fixed: dict[str, list[int]], encode_text: EncodeText) -> EncodeText:
    """Return an encoder that gives the texts of `fixed` their ids and leaves what is between them to `encode_text`."""
    if not fixed:
        return encode_text
    pattern = re.compile(f"({'|'.join(map(re.escape, _longest_first(fixed)))})")

    def encode(text: str) -> Sequence[int]:
        parts = pattern.split(text)
        return [token for part in parts if part for token in fixed.get(part) or encode_text(part)]

    return encode


def _longest_first(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=len, reverse=True)
