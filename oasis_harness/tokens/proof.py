r"""Which seams are canonical whatever is said there: a proof, or an example of the contrary.

Encoding goes through three stages, each of which may reach across a cut; a seam is proved when none does.

1. Special tokens are found, the leftmost first, the longest of those. If none can begin before the cut and end after
   it, the cut changes none of them, and only the text between the last one on the left and the first one on the right
   meets. If that is nothing on one side, the seam is canonical.
2. Texts of fixed ids (a line end, in Gemma) are found in the same way.
3. The rest becomes words, and each word its merges. Where words are always cut, and cut alike apart and together
   (`pattern.py`), nothing crosses. Where all words are cut without a look at what stands around (SentencePiece), a
   merge crosses only if some piece of the vocabulary does: what merges do on one side is not seen on the other.

Everything said here is about texts that are encoded. A reply is kept as its sampled ids, which need not be those of its
text; that is no matter of the seam.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product

from oasis_harness.errors import NotEncodable

from .pattern import parts_surely
from .seam import Because, SeamExample, SeamProof, Verdict
from .splits import Splits, Words
from .tokenizer import Tokenizer

__all__ = ["prove_seam"]

_N_TRIED = 20_000
"""Examples that are tried before a seam stays unknown."""
_PROBES = [
    text.encode() for text in ("", "\n", " ", "a", "1", "!", "\n\n", "  ", "12", "'", "s", "\t", "\r\n", " a", "é")
]


@dataclass(frozen=True, slots=True)
class _Side:
    """The text on one side of a cut, as far as it is known."""

    known: bytes
    """What stands at the cut."""
    is_open: bool
    """Whether anything may stand beyond it, nothing included."""

    @property
    def is_empty(self) -> bool:
        return not self.known and not self.is_open

    def may_end_in(self, text: bytes) -> bool:
        return self.known.endswith(text) or (self.is_open and text.endswith(self.known))

    def may_start_with(self, text: bytes) -> bool:
        return self.known.startswith(text) or (self.is_open and text.startswith(self.known))


def prove_seam(
    tokenizer: Tokenizer, left: bytes, right: bytes, *, is_left_open: bool = True, is_right_open: bool = True
) -> SeamProof:
    """Say whether `encode(A + B) == encode(A) + encode(B)` for every A that ends in `left`, B that begins with `right`.

    `left` and `right` are scaffold: special tokens in them count. Beyond an open side any UTF-8 text may stand, typed
    or scaffold, or nothing; beyond one that is not open, nothing.

    Raises:
        NotEncodable: `left` or `right` is nothing that this tokenizer can encode.
    """
    for data in (left, right, left + right):
        tokenizer.encode(data)
    before, after = _Side(left, is_left_open), _Side(right, is_right_open)
    because = _because(tokenizer, before, after)
    if because is not None:
        return SeamProof(Verdict.PROVED, because)
    example = next(_examples(tokenizer, before, after), None)
    if example is not None:
        return SeamProof(Verdict.OPEN, example=example)
    if not is_left_open and not is_right_open:
        return SeamProof(Verdict.PROVED, Because.ENCODED)  # the one text there is was tried
    return SeamProof(Verdict.UNKNOWN)


# The proof


def _because(tokenizer: Tokenizer, left: _Side, right: _Side) -> Because | None:
    """Return why the seam is canonical, the weakest reason of all cases; None where one has no proof."""
    specials = [special.encode() for special in tokenizer.specials]

    def words(left: _Side, right: _Side) -> Because | None:
        return _because_of_words(tokenizer, left, right)

    def fixed(left: _Side, right: _Side) -> Because | None:
        return _after(tokenizer.splits.fixed, left, right, Because.SPLIT, words)

    return _after(specials, left, right, Because.SPECIAL, fixed)


def _after(
    texts: Sequence[bytes],
    left: _Side,
    right: _Side,
    because: Because,
    prove: Callable[[_Side, _Side], Because | None],
) -> Because | None:
    """Prove the seam when `texts` are found first: `because` where nothing is left of one side, else by `prove`."""
    if any(_crossings(texts, left, right)):
        return None
    cases = product(_lefts(texts, left), _rights(texts, right))
    reasons = [because if before.is_empty or after.is_empty else prove(before, after) for before, after in cases]
    found = [reason for reason in reasons if reason is not None]
    return max(found, key=list(Because).index) if len(found) == len(reasons) else None


def _because_of_words(tokenizer: Tokenizer, left: _Side, right: _Side) -> Because | None:
    splits = tokenizer.splits
    if _splits_surely(splits, left, right):
        return Because.SPLIT
    is_blind = splits.words in (Words.WHOLE, Words.BEFORE_SPACE) and splits.is_merges_only
    return Because.NO_PIECE if is_blind and not any(_crossings(tokenizer.pieces, left, right)) else None


def _splits_surely(splits: Splits, left: _Side, right: _Side) -> bool:
    if splits.words is Words.PATTERN:
        return parts_surely(splits.pattern, left.known, right.known, is_left_open=left.is_open)
    return splits.words is Words.BEFORE_SPACE and right.known.startswith(b" ")


def _lefts(texts: Sequence[bytes], side: _Side) -> set[_Side]:
    """Return what may stand between the last of `texts` that is found on the left and the cut."""
    found = {_left_from(texts, side.known, 0, is_open=side.is_open)}
    if side.is_open:  # one that began before what is known may end within it
        ends = {
            n for text in texts for n in range(1, min(len(text), len(side.known) + 1)) if text.endswith(side.known[:n])
        }
        found |= {_left_from(texts, side.known, end, is_open=False) for end in ends}
    return found


def _left_from(texts: Sequence[bytes], known: bytes, start: int, *, is_open: bool) -> _Side:
    """Return what is left of `known` after the last of `texts`, looked for from `start` on."""
    at, end = start, start
    while at < len(known):
        length = max((len(text) for text in texts if known.startswith(text, at)), default=0)
        at += length or 1
        end = at if length else end
    return _Side(known[end:], is_open and end == 0)


def _rights(texts: Sequence[bytes], side: _Side) -> set[_Side]:
    """Return what may stand between the cut and the first of `texts` that is found on the right."""
    known = side.known
    first = min((at for text in texts if (at := known.find(text)) >= 0), default=len(known))
    found = {_Side(known[:first], side.is_open and first == len(known))}
    if side.is_open:  # one that ends beyond what is known may begin earlier
        starts = (at for at in range(first) if any(text.startswith(known[at:]) for text in texts))
        found |= {_Side(known[:start], False) for start in starts}
    return found


def _crossings(texts: Iterable[bytes], left: _Side, right: _Side) -> Iterator[tuple[bytes, bytes]]:
    """Yield the two parts of every text that may stand across the cut."""
    for text in texts:
        for at in range(1, len(text)):
            begin, end = text[:at], text[at:]
            # Both sides are UTF-8: no character stands across.
            if end[0] & 0xC0 != 0x80 and left.may_end_in(begin) and right.may_start_with(end):
                yield begin, end


# The example


def _examples(tokenizer: Tokenizer, left: _Side, right: _Side) -> Iterator[SeamExample]:
    """Try the pieces that may stand across, the shortest first, then a few texts that move where words are cut."""
    pieces = sorted({*tokenizer.pieces, *map(str.encode, tokenizer.specials)}, key=lambda piece: (len(piece), piece))
    crossing = (
        (max(begin, left.known, key=len), max(end, right.known, key=len))
        for begin, end in _crossings(pieces, left, right)
    )
    probes = (
        (begin + left.known, right.known + end)
        for begin in (_PROBES if left.is_open else [b""])
        for end in (_PROBES if right.is_open else [b""])
    )
    for begin, end in chain(islice(crossing, _N_TRIED), probes):
        example = _try(tokenizer, begin, end)
        if example is not None:
            yield example


def _try(tokenizer: Tokenizer, left: bytes, right: bytes) -> SeamExample | None:
    try:
        kept, whole = tokenizer.encode(left) + tokenizer.encode(right), tokenizer.encode(left + right)
    except NotEncodable:
        return None
    return SeamExample(left, right, kept, whole) if kept != whole else None
