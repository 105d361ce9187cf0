"""A tokenizer as three tables: bytes of each id, ids of the special tokens, and a function for ordinary text.

The bytes table makes decoding exact (spans come from token bytes, never from a lossy decode). `loading` reads one from
a `tokenizer.json`.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TypeAlias

from oasis_harness.canonical import digest
from oasis_harness.errors import NotEncodable

from .seam import Seam, SeamCount

__all__ = ["N_NEAR", "EncodeText", "Tokenizer", "byte_tokenizer"]

EncodeText: TypeAlias = Callable[[str], Sequence[int]]

N_NEAR = 32
"""Ids on each side of a seam that are encoded again to see whether it is canonical."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """Encodes deltas and decodes ids, byte for byte."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        specials: Mapping[str, int],
        encode_text: EncodeText,
        *,
        digest: str,
    ) -> None:
        self.pieces = pieces
        """Bytes of each id, shape (n_vocabulary,)."""
        self.specials = dict(specials)
        """Ids of special and added tokens, by their text."""
        self.digest = digest
        self._encode_text = encode_text
        self._special_ids = frozenset(self.specials.values())

    def __repr__(self) -> str:
        return f"<Tokenizer of {len(self.pieces)} tokens, {self.digest[:15]}>"

    def encode(self, data: bytes, authored: Sequence[tuple[int, int]] = ()) -> tuple[int, ...]:
        """Return the ids of `data`.

        `authored` are byte ranges (start, end) of text that a user, a tool or the harness wrote: no special token is
        recognised that touches them.

        Raises:
            NotEncodable: `data` is not UTF-8, or does not survive the way there and back.
        """
        _refuse_non_utf8(data)
        ids: list[int] = []
        start = 0
        for special in self._specials_outside(authored, data):
            ids += self._ordinary(data[start : special.start()])
            ids.append(self.specials[special.group().decode()])
            start = special.end()
        ids += self._ordinary(data[start:])
        if self.decode(ids) != data:
            raise NotEncodable(
                f"{data[:60]!r} … does not survive this tokenizer.",
                remedy="Pass text through escape() when it is recorded.",
                data=data,
            )
        return tuple(ids)

    def decode(self, ids: Sequence[int]) -> bytes:
        """Return the bytes of `ids`, exactly."""
        pieces = self.pieces
        return b"".join([pieces[token] for token in ids])

    def spelled(self, ids: Sequence[int], mark: str) -> list[tuple[int, int]]:
        """Return where the bytes of `ids` spell `mark`, a special token, in other tokens: start and end in bytes."""
        letters, own = mark.encode(), self.specials[mark]
        tokens = {start for start, token in zip(self.starts(ids), ids, strict=True) if token == own}
        found = (match.span() for match in re.finditer(re.escape(letters), self.decode(ids)))
        return [span for span in found if span[0] not in tokens]

    def starts(self, ids: Sequence[int]) -> list[int]:
        """Return the offset in bytes at which each of `ids` begins."""
        return list(itertools.accumulate((len(self.pieces[token]) for token in ids), initial=0))[:-1]

    def seam(self, last_id: int | None, ids: Sequence[int]) -> Seam:
        """Say how `ids` meet a prompt that ends in `last_id`."""
        if last_id is None:
            return Seam.START
        special = last_id in self._special_ids or (len(ids) > 0 and ids[0] in self._special_ids)
        return Seam.SPECIAL if special else Seam.PLAIN

    def count_seam(self, before: Sequence[int], ids: Sequence[int]) -> SeamCount:
        """Count the seam between `before` and `ids`, of which only the ids next to it are read.

        A plain one is canonical when the text around it, encoded as one, has the ids of both its halves. What was
        sampled need not be how its own text is encoded; that is not counted against the seam.
        """
        near = before[-N_NEAR:]
        if not len(ids) or not len(near):
            return SeamCount()
        if self.seam(int(near[-1]), ids) is Seam.SPECIAL:
            return SeamCount(special=1)
        return SeamCount(plain=1, non_canonical=int(self._joins(near, ids[:N_NEAR])))

    def _joins(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Say whether the ordinary text around a cut is encoded otherwise as one. Bytes that are no text always are."""
        left = self._beside(reversed(before))[::-1]
        right = self._beside(after)
        begin = _SURROGATE.split(self.decode(left).decode("utf-8", errors="surrogateescape"))[-1]
        end = _SURROGATE.split(self.decode(right).decode("utf-8", errors="surrogateescape"))[0]
        encode = self._encode_text
        return not begin or not end or [*encode(begin), *encode(end)] != list(encode(begin + end))

    def _beside(self, ids: Iterable[int]) -> list[int]:
        """Return the ids up to the first special token."""
        return list(takewhile(lambda token: token not in self._special_ids, ids))

    def escape(self, data: bytes) -> bytes:
        r"""Return `data` as UTF-8 this vocabulary can carry; any other byte becomes a visible `\xNN`.

        Applied once, when text is recorded; what is recorded is what is sent.
        """
        text = data.decode("utf-8", errors="surrogateescape")
        if not data.translate(None, self._carried) and not _SURROGATE.search(text):
            return data
        carried = frozenset(self._carried)
        return "".join([char if _carries(carried, char) else _visible(char) for char in text]).encode("utf-8")

    def _specials_outside(self, authored: Sequence[tuple[int, int]], data: bytes) -> Iterator[re.Match[bytes]]:
        """Find the special tokens that lie wholly in one stretch of `data` between authored ranges."""
        begin = 0
        for start, end in [*sorted(authored), (len(data), len(data))]:
            yield from self._special_pattern.finditer(data, begin, max(start, 0))
            begin = max(begin, end)

    def _ordinary(self, data: bytes) -> Sequence[int]:
        text = data.decode("utf-8")
        ids = self._encode_text(text) if text else ()
        if not self._special_ids.isdisjoint(ids):
            raise NotEncodable(
                f"ordinary text {text[:60]!r} … became a special token.",
                remedy="This tokenizer cannot keep typed text apart from its special tokens; use another model.",
                text=text,
            )
        return ids

    @cached_property
    def _special_pattern(self) -> re.Pattern[bytes]:
        # On bytes: UTF-8 never finds a character inside another, and the ranges need no translation.
        longest_first = sorted((text.encode() for text in self.specials), key=lambda special: (-len(special), special))
        return re.compile(b"|".join(map(re.escape, longest_first)) or rb"(?!)")

    @cached_property
    def _carried(self) -> bytes:
        """The bytes that have a token of their own, and so can always be spelled."""
        ordinary = (piece for token, piece in enumerate(self.pieces) if token not in self._special_ids)
        return bytes(sorted({piece[0] for piece in ordinary if len(piece) == 1}))


def byte_tokenizer(specials: Sequence[str] = ()) -> Tokenizer:
    """Return the tokenizer whose ids are the 256 byte values, then `specials`. For tests and scripted engines."""
    pieces = [bytes([byte]) for byte in range(256)] + [special.encode() for special in specials]
    ids = {special: 256 + i for i, special in enumerate(specials)}
    name = digest(b"bytes", *pieces[256:])
    return Tokenizer(pieces, ids, lambda text: text.encode("utf-8"), digest=name)


def _refuse_non_utf8(data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotEncodable(
            f"byte {error.start} of {data[:60]!r} … is not UTF-8.",
            remedy="Pass text through escape() when it is recorded.",
            offset=error.start,
        ) from None


def _carries(carried: frozenset[int], char: str) -> bool:
    return not "\ud800" <= char <= "\udfff" and carried.issuperset(char.encode("utf-8"))


def _visible(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors="surrogateescape"))
