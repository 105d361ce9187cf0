"""Canonical JSON bytes and digests, for what the harness itself authors.

Never used on what a model sampled: its words are kept verbatim. Keys keep the order they were given in (the
declaration order of a schema is part of the prompt); RFC 8785 sorts them, and is not followed there.
"""

import hashlib
import json

__all__ = ["canonical_json", "digest", "text_bytes"]


def canonical_json(value: object) -> bytes:
    """Serialise `value` to compact UTF-8 JSON bytes, keys in the order given.

    Raises:
        ValueError: A NaN or infinity, a key that is not a string, or a lone surrogate.
        TypeError: A value that JSON has no form for.
    """
    _refuse_foreign_keys(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")


def text_bytes(text: str) -> bytes:
    """Return `text` as bytes: an escaped byte becomes itself again, half a surrogate pair is spelled out."""
    try:
        return text.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="backslashreplace")


def digest(*parts: bytes) -> str:
    """Name `parts` by content: `sha256:` and 64 hex digits.

    Each part is preceded by its length (8 bytes, big-endian), so that no two different lists of parts share a digest
    by concatenation.
    """
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return f"sha256:{state.hexdigest()}"


def _refuse_foreign_keys(value: object) -> None:
    """Refuse keys that json.dumps would silently turn into strings (1, True, None)."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    raise ValueError(f"a JSON key must be a string, got {key!r}")
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend([one for one in item if type(one) is not int])  # token ids are most of what is stored
