"""The manifest beside a recorded prompt: what it says, and what is wrong where it does not fit.

    {
    "name":"head",
    "dialect":"smollm2",
    "sha256":"9f86d0…",
    "n_bytes":4711,
    "n_tokens":1131,
    "template":"sha256:…",
    "tokenizer":"sha256:…",
    "signed":null,
    "n_signed":0,
    "spans":[
    [0,19,"template","scaffold"],
    [19,28,"head/system","exact"]
    ],
    "ids":[1,9690,198]
    }

One key a line and one span a line, so that a diff shows what changed. `sha256` is what `sha256sum` says of the text.
The ids are there because the first token that moved cannot be told from bytes: a merge may reach across.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from oasis_harness.canonical import canonical_json
from oasis_harness.errors import BadSnapshot

from ..textdiff import CHECKOUT
from .moves import Recorded

__all__ = ["bad_snapshot", "read_recorded", "to_manifest"]

_KEYS = (
    *("name", "dialect", "sha256", "n_bytes", "n_tokens", "template", "tokenizer"),
    *("signed", "n_signed", "spans", "ids"),
)
_BACK = "Bring it back from version control, or remove it with its manifest and record it again."


def to_manifest(recorded: Recorded) -> bytes:
    """Return the manifest of `recorded`."""
    return _text(
        {
            "name": recorded.name,
            "dialect": recorded.dialect,
            "sha256": recorded.sha256,
            "n_bytes": len(recorded.data),
            "n_tokens": None if recorded.ids is None else len(recorded.ids),
            "template": recorded.template,
            "tokenizer": recorded.tokenizer,
            "signed": recorded.signed,
            "n_signed": recorded.n_signed,
            "spans": recorded.rows,
            "ids": recorded.ids,
        }
    )


def read_recorded(text: Path, manifest: Path) -> Recorded:
    """Read a prompt and its manifest, which have to fit each other.

    Raises:
        BadSnapshot: Either was edited by hand, damaged, or rewritten by the checkout.
    """
    fields, data = _fields(manifest), text.read_bytes()
    if hashlib.sha256(data).hexdigest() != fields["sha256"]:
        raise _misfit(text, data, fields["sha256"])
    try:
        rows = tuple((int(start), int(end), str(name), str(how)) for start, end, name, how in fields["spans"])
        ids = None if fields["ids"] is None else tuple(map(int, fields["ids"]))
        one = Recorded(fields["name"], fields["dialect"], data, rows, ids, fields["template"], fields["tokenizer"])
        signed, n_signed = fields["signed"], int(fields["n_signed"])
    except (TypeError, ValueError) as error:
        raise bad_snapshot(manifest, f"is no manifest: {error}.", _BACK) from None
    return one.signed_by(signed, n_signed)


def bad_snapshot(path: Path, fault: str, remedy: str) -> BadSnapshot:
    return BadSnapshot(f"{path.name} {fault}", remedy=remedy, path=path)


def _text(fields: dict[str, Any]) -> bytes:
    lines = [canonical_json(key) + b":" + _value(key, value) for key, value in fields.items()]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def _value(key: str, value: Any) -> bytes:
    if key == "spans" and value:
        return b"[\n" + b",\n".join(map(canonical_json, value)) + b"\n]"
    return canonical_json(value)


def _fields(manifest: Path) -> dict[str, Any]:
    data = manifest.read_bytes()
    try:
        fields = json.loads(data.decode("utf-8"))
        is_ours = tuple(fields) == _KEYS and _text(fields) == data
    except (ValueError, TypeError, RecursionError):
        fields, is_ours = {}, False
    if is_ours:
        found: dict[str, Any] = fields
        return found
    if b"\r\n" in data:
        raise bad_snapshot(manifest, "was rewritten:", _sentence(CHECKOUT))
    raise bad_snapshot(manifest, "is damaged, or was edited by hand.", _BACK)


def _misfit(text: Path, data: bytes, sha256: str) -> BadSnapshot:
    """Say why a text is not the one its manifest was written for."""
    tried = (data.replace(b"\r\n", b"\n"), data.replace(b"\n", b"\r\n"))
    if any(hashlib.sha256(one).hexdigest() == sha256 for one in tried):
        return bad_snapshot(text, "was rewritten:", _sentence(CHECKOUT))
    return bad_snapshot(text, "was changed by hand: its manifest was written for other bytes.", _BACK)


def _sentence(text: str) -> str:
    return f"{text}, and check it out again."
