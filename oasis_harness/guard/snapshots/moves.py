"""A prompt as it is rendered now, as it was recorded, and the first byte that moved between the two.

Only bytes decide: the same bytes under another template or tokenizer are the same prompt.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from oasis_harness.sequences import common_prefix, first_difference

from ..relation import Relation
from ..textdiff import Why, side_by_side, why

if TYPE_CHECKING:
    from oasis_harness.render import Span

__all__ = ["Comparison", "Move", "Recorded", "Row", "Snapshot", "compare_prompts", "rows_of"]

Row: TypeAlias = tuple[int, int, str, str]
"""A span without its source: start and end in bytes, name, resolution."""

_END = "end of prompt"
_EXACT = "exact"
_SCAFFOLD = "scaffold"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A prompt as it is rendered now."""

    name: str
    dialect: str
    """What the dialect is called in file names."""
    data: bytes
    spans: "tuple[Span, ...]"
    n_tokens: int | None = None
    ids: tuple[int, ...] | None = None
    template: str = ""
    """Digest of the chat template."""
    tokenizer: str | None = None
    """Digest of the tokenizer."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A prompt as it was recorded."""

    name: str
    dialect: str
    data: bytes
    rows: tuple[Row, ...]
    ids: tuple[int, ...] | None
    template: str
    tokenizer: str | None
    signed: str | None = None
    """Digest of the ledger entry that last signed it; None for one that never moved since it was first recorded."""
    n_signed: int = 0
    """How many bytes, from the first, that entry signed; what was only appended since needed no entry."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def signed_by(self, digest: str | None, n_bytes: int) -> "Recorded":
        """Return this prompt with the first `n_bytes` signed by the ledger entry of `digest`."""
        return replace(self, signed=digest, n_signed=n_bytes)


@dataclass(frozen=True, slots=True)
class Move:
    """The first byte that moved, and what that costs."""

    n_bytes: int
    """Offset of the first byte that differs."""
    n_tokens: int | None
    """Offset of the first token that differs; None where either side has no tokens."""
    n_lost: int | None
    """Tokens of the new prompt from there on: they must be read again."""
    span: str
    """Name of the span that holds the byte in the new prompt."""
    old_span: str
    """Name of the span that held it."""
    source: str
    """`file:line` of the span, when known."""
    before: str
    """The old text around it, escaped."""
    after: str
    why: Why


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a prompt stands to what was recorded of it."""

    relation: Relation
    name: str
    dialect: str
    move: Move | None = None
    """Set when it moved."""
    n_bytes_old: int = 0
    n_bytes_new: int = 0
    sha256_old: str = ""
    sha256_new: str = ""

    def report(self) -> str:
        """Tell a person: the byte, the token, the owner, both texts and the line of source."""
        title = f"{self.name}.{self.dialect}"
        match self.relation:
            case Relation.SAME:
                return f"{title}: the same bytes."
            case Relation.EXTENDED:
                n_added = self.n_bytes_new - self.n_bytes_old
                return f"{title}: {n_added:,} bytes were appended; none before them moved."
            case Relation.MISSING:
                return f"{title}: nothing is recorded yet."
            case Relation.UNUSED:
                return f"{title}: it is recorded, and nothing rendered it."
            case Relation.REMOVED:
                return f"{title}: it is removed."
            case _:
                assert self.move is not None, "what is left has moved"
                return "\n".join([f"{title}: {_place(self.move)}", *_lines(self.move)])

    def __str__(self) -> str:
        return self.report()


def compare_prompts(old: Recorded | None, new: Snapshot | None) -> Comparison:
    """Compare what was recorded with what is rendered.

    Raises:
        ValueError: There is neither.
    """
    if new is None:
        if old is None:
            raise ValueError("there is neither a recorded prompt nor a new one to compare")
        return Comparison(Relation.UNUSED, old.name, old.dialect, None, len(old.data), 0, old.sha256)
    if old is None:
        return Comparison(Relation.MISSING, new.name, new.dialect, None, 0, len(new.data), "", new.sha256)
    relation = _relation(old.data, new.data)
    return Comparison(
        relation,
        new.name,
        new.dialect,
        move=_move(old, new) if relation is Relation.MOVED else None,
        n_bytes_old=len(old.data),
        n_bytes_new=len(new.data),
        sha256_old=old.sha256,
        sha256_new=new.sha256,
    )


def rows_of(spans: "Sequence[Span]") -> tuple[Row, ...]:
    """Return `spans` without their sources, which differ by machine."""
    return tuple((span.start, span.end, span.name, str(span.resolution)) for span in spans)


def _relation(old: bytes, new: bytes) -> Relation:
    if old == new:
        return Relation.SAME
    return Relation.EXTENDED if new.startswith(old) else Relation.MOVED


def _move(old: Recorded, new: Snapshot) -> Move:
    at = first_difference(old.data, new.data)
    rows = rows_of(new.spans)
    was, now = _row_at(old.rows, at), _row_at(rows, at)
    n_tokens = _first_token(old, new)
    before, after = side_by_side(old.data, new.data)
    return Move(
        n_bytes=at,
        n_tokens=n_tokens,
        n_lost=None if n_tokens is None or new.ids is None else len(new.ids) - n_tokens,
        span=now[2],
        old_span=was[2],
        source=next((span.source for span in new.spans if span.start <= at < span.end), ""),
        before=before,
        after=after,
        why=why(old.data, new.data, boundaries=_boundaries(rows)) or _owner_of_change(old, new, was, now),
    )


def _boundaries(rows: Sequence[Row]) -> frozenset[int]:
    """Return where a text of one owner ends, or the template's own begins."""
    ends = {end for _, end, _, resolution in rows if resolution == _EXACT}
    return frozenset(ends | {start for start, _, name, _ in rows if name.startswith("template")})


def _owner_of_change(old: Recorded, new: Snapshot, was: Row, now: Row) -> Why:
    if _is_swapped(was, now, old.rows, rows_of(new.spans)):
        return Why.ORDER
    is_own_text = was[3] == now[3] == _EXACT
    return Why.TEMPLATE if old.template != new.template and not is_own_text else Why.CONTENT


def _is_swapped(was: Row, now: Row, old: Sequence[Row], new: Sequence[Row]) -> bool:
    """See the owner of one side further on in the other, both ways."""
    if was[2] == now[2] or _SCAFFOLD in (was[3], now[3]):
        return False
    return any(row[2] == was[2] for row in new) and any(row[2] == now[2] for row in old)


def _first_token(old: Recorded, new: Snapshot) -> int | None:
    if old.ids is None or new.ids is None:
        return None
    if old.tokenizer != new.tokenizer:
        return 0  # ids of two vocabularies have nothing in common
    return common_prefix(old.ids, new.ids)


def _row_at(rows: Sequence[Row], at: int) -> Row:
    place = bisect_right(rows, at, key=lambda row: row[0]) - 1
    row = rows[place] if place >= 0 else None
    return row if row is not None and row[0] <= at < row[1] else (at, at, _END, _SCAFFOLD)


def _place(move: Move) -> str:
    if move.n_tokens is None or move.n_lost is None:
        return f"byte {move.n_bytes:,} moved."
    total = move.n_tokens + move.n_lost
    return f"byte {move.n_bytes:,} moved, token {move.n_tokens:,} of {total:,}: {move.n_lost:,} are read again."


def _lines(move: Move) -> list[str]:
    was = f", was {move.old_span}" if move.old_span != move.span else ""
    source = f" ({move.source})" if move.source else ""
    return [
        f"  where   {move.span}{was}{source}",
        f"  why     {move.why}",
        f"  before  {move.before}",
        f"  after   {move.after}",
    ]
