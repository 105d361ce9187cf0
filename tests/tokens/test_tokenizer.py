"""Bytes to ids and back, exactly; what was typed stays text."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.errors import NotEncodable
from oasis_harness.tokens import N_NEAR, Seam, SeamCount, Tokenizer, byte_tokenizer

from .conftest import Pair
from .texts import joined, pieces, raw, texts

BYTES = byte_tokenizer(["<|im_start|>", "<|im_end|>"])
MISSING = bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)])


def check_round_trip(tokenizer: Tokenizer, data: bytes) -> None:
    """Escaped bytes survive, whole and authored or not; escaping them again changes nothing."""
    carried = tokenizer.escape(data)
    carried.decode("utf-8")
    assert tokenizer.escape(carried) == carried
    assert tokenizer.decode(tokenizer.encode(carried)) == carried
    authored = tokenizer.encode(carried, [(0, len(carried))])
    assert tokenizer.decode(authored) == carried
    assert set(tokenizer.specials.values()).isdisjoint(authored)


# There and back


@given(raw)
def test_any_bytes_survive_the_byte_tokenizer(data: bytes) -> None:
    """After escape(), which only touches what is not UTF-8."""
    check_round_trip(BYTES, data)


@pytest.mark.slow
@given(data=raw)
def test_any_bytes_survive_every_shape(every: Pair, data: bytes) -> None:
    """Line ends, NUL, emoji, half characters, `▁` and `<0x0A>` as text."""
    check_round_trip(every.ours, data)


@pytest.mark.slow
@pytest.mark.model
@settings(max_examples=300)  # any bytes at all, and the tokenizer is read once
@given(data=raw)
def test_any_bytes_survive_the_default_model(smollm2: Pair, data: bytes) -> None:
    """Though its vocabulary lacks 21 bytes."""
    check_round_trip(smollm2.ours, data)


@given(texts)
def test_escape_changes_no_text_that_the_vocabulary_carries(text: str) -> None:
    """The byte tokenizer carries all of it."""
    assert BYTES.escape(text.encode()) == text.encode()


@given(st.binary())
def test_escape_makes_visible_what_is_not_utf8(data: bytes) -> None:
    """As Python's own `backslashreplace` does."""
    assert BYTES.escape(data).decode() == data.decode("utf-8", errors="backslashreplace")


@pytest.mark.model
@given(data=raw)
def test_escape_makes_visible_what_the_default_model_lacks(smollm2: Pair, data: bytes) -> None:
    """Characters with one of the 21 bytes, and only those."""
    expected = "".join(
        "".join(f"\\x{byte:02x}" for byte in char.encode()) if set(char.encode()) & set(MISSING) else char
        for char in data.decode("utf-8", errors="backslashreplace")
    )
    assert smollm2.ours.escape(data).decode() == expected


@pytest.mark.model
@pytest.mark.parametrize("byte", MISSING)
def test_each_byte_the_default_model_lacks_is_refused_bare_and_carried_escaped(smollm2: Pair, byte: int) -> None:
    """`NotEncodable` names the remedy."""
    with pytest.raises(NotEncodable, match=r"escape\(\)"):
        smollm2.ours.encode(bytes([byte]))
    assert smollm2.ours.decode(smollm2.ours.encode(smollm2.ours.escape(bytes([byte])))) == rb"\x%02x" % byte


def test_what_is_not_utf8_is_refused_with_its_offset() -> None:
    """And with the remedy."""
    with pytest.raises(
        NotEncodable, match=r"byte 2 of b'ab\\xff' … is not UTF-8. Pass text through escape\(\)"
    ) as error:
        BYTES.encode(b"ab\xff")
    assert error.value.values["offset"] == 2


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"a\x80"])
def test_half_characters_and_surrogates_become_visible(data: bytes) -> None:
    """Byte by byte."""
    escaped = BYTES.escape(data)
    assert escaped.isascii() and escaped.count(rb"\x") == sum(byte >= 0x80 for byte in data)


def test_the_byte_tokenizer_has_an_id_a_byte_and_then_its_specials() -> None:
    """Its digest depends on the specials."""
    assert BYTES.encode("é<|im_end|>".encode()) == (0xC3, 0xA9, 257)
    assert BYTES.digest != byte_tokenizer(["<|im_end|>", "<|im_start|>"]).digest
    assert BYTES.digest == byte_tokenizer(list(BYTES.specials)).digest
    assert byte_tokenizer().encode(b"<|im_end|>") == tuple(b"<|im_end|>")


# What was typed stays text


def cuts(special: str) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """Every way in which an authored range can touch `special` between other text."""
    data = f"a {special} b".encode()
    end = 2 + len(special.encode())
    for start in range(2, end):
        for stop in range(start + 1, end + 1):
            yield data, [(start, stop)]
        yield data, [(0, start + 1)]
        yield data, [(start, len(data))]


def check_typed_specials(tokenizer: Tokenizer) -> None:
    for special, token in tokenizer.specials.items():
        assert tokenizer.encode(special.encode()) == (token,)
        for data, authored in cuts(special):
            ids = tokenizer.encode(data, authored)
            assert set(tokenizer.specials.values()).isdisjoint(ids) and tokenizer.decode(ids) == data


def test_a_special_token_that_an_authored_range_touches_stays_text(every: Pair) -> None:
    """At any byte, from either side or within; pure scaffold is one id."""
    check_typed_specials(every.ours)


@pytest.mark.slow
@pytest.mark.model
def test_no_special_token_of_the_default_model_can_be_typed(smollm2: Pair) -> None:
    """All 17 of them."""
    assert len(smollm2.ours.specials) == 17
    check_typed_specials(smollm2.ours)


@given(pieces(list(BYTES.specials)))
def test_special_ids_are_those_of_the_scaffold_taken_alone(drawn: list[tuple[str, bool]]) -> None:
    """Stretch by stretch: no special token begins in one and ends in another."""
    stretches = [""]
    for text, is_authored in drawn:
        stretches = [*stretches, ""] if is_authored else [*stretches[:-1], stretches[-1] + text]
    expected = [token for text in stretches for token in BYTES.encode(text.encode()) if token > 255]
    assert [token for token in BYTES.encode(*joined(drawn)) if token > 255] == expected


@given(pieces(list(BYTES.specials)), st.randoms(use_true_random=False))
def test_the_order_of_the_ranges_does_not_matter(drawn: list[tuple[str, bool]], random: Random) -> None:
    """Nor that they overlap, or reach over the end."""
    data, authored = joined(drawn)
    mixed = random.sample(authored, len(authored)) + authored[:1]
    assert BYTES.encode(data, mixed) == BYTES.encode(data, authored)
    assert max(BYTES.encode(data, [(-9, len(data) + 9)]), default=0) < 256


def test_the_longest_special_token_wins_but_only_within_the_scaffold() -> None:
    """Where the longer one is touched by typed text, the shorter one before it still counts."""
    tokenizer = byte_tokenizer(["<a>", "<a><b>"])
    assert tokenizer.encode(b"<a><b>") == (257,)
    assert tokenizer.encode(b"<a><b>", [(3, 6)]) == (256, *b"<b>")


# Seams


def check_seam(tokenizer: Tokenizer, before: list[tuple[str, bool]], after: list[tuple[str, bool]]) -> None:
    """Where the seam is special, piece by piece is the same as the whole."""
    first, second = tokenizer.encode(*joined(before)), tokenizer.encode(*joined(after))
    seam = tokenizer.seam(first[-1] if first else None, second)
    special = set(tokenizer.specials.values())
    if not first:
        assert seam is Seam.START
    elif special & {first[-1], *second[:1]}:
        assert seam is Seam.SPECIAL
    else:
        assert seam is Seam.PLAIN
    if seam is not Seam.PLAIN:
        assert first + second == tokenizer.encode(*joined([*before, *after]))


@pytest.mark.slow
@given(data=st.data())
def test_at_a_special_seam_pieces_equal_the_whole(every: Pair, data: st.DataObject) -> None:
    """Whatever stands on either side, typed or scaffold."""
    drawn = pieces(list(every.ours.specials))
    check_seam(every.ours, data.draw(drawn), data.draw(drawn))


@pytest.mark.slow
@pytest.mark.model
@given(data=st.data())
def test_at_a_special_seam_pieces_equal_the_whole_for_the_default_model(smollm2: Pair, data: st.DataObject) -> None:
    """The same on the real vocabulary."""
    drawn = pieces(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    check_seam(smollm2.ours, data.draw(drawn), data.draw(drawn))


@pytest.mark.model
def test_at_a_plain_seam_they_need_not(smollm2: Pair) -> None:
    """A merge crosses the cut: this is what the seam records."""
    first, second = smollm2.ours.encode(b"hel"), smollm2.ours.encode(b"lo")
    assert smollm2.ours.seam(first[-1], second) is Seam.PLAIN
    assert first + second != smollm2.ours.encode(b"hello")


def test_a_seam_is_stored_as_its_name() -> None:
    """START before anything, SPECIAL at a special token on either side, PLAIN else; also with no new ids."""
    end, letter = BYTES.specials["<|im_end|>"], ord("a")
    assert BYTES.seam(None, (letter,)) == "start"
    assert BYTES.seam(end, (letter,)) == BYTES.seam(letter, (end,)) == BYTES.seam(end, ()) == "special"
    assert BYTES.seam(letter, (letter, end)) == BYTES.seam(letter, ()) == "plain"


# Seams, counted


def whole_differs(tokenizer: Tokenizer, left: bytes, right: bytes) -> bool:
    """The slow twin: both texts in full."""
    ids = [tokenizer.encode(data, [(0, len(data))]) for data in (left, right, left + right)]
    return ids[0] + ids[1] != ids[2]


def check_count(tokenizer: Tokenizer, left: str, right: str) -> None:
    before, after = tokenizer.escape(left.encode()), tokenizer.escape(right.encode())
    ids = [tokenizer.encode(data, [(0, len(data))]) for data in (before, after)]
    expected = SeamCount(plain=1, non_canonical=int(whole_differs(tokenizer, before, after)))
    assert tokenizer.count_seam(*ids) == (expected if all(ids) else SeamCount())


@pytest.mark.slow
@settings(max_examples=200)  # few seams of two drawn texts cut a merge
@given(left=texts, right=texts)
def test_a_counted_seam_is_canonical_when_the_whole_is(every: Pair, left: str, right: str) -> None:
    """The few ids beside it are enough to tell."""
    check_count(every.ours, left, right)


@pytest.mark.model
@given(left=texts, right=texts)
def test_a_counted_seam_of_the_default_model_is_canonical_when_the_whole_is(
    smollm2: Pair, left: str, right: str
) -> None:
    """The same on the real vocabulary."""
    check_count(smollm2.ours, left, right)


@pytest.mark.model
def test_a_seam_of_long_texts_costs_what_one_of_short_texts_does(smollm2: Pair) -> None:
    """Only what stands beside it is read, and only up to a special token."""
    ours = smollm2.ours
    before, after = ours.encode(b"hello world " * 9000 + b"hel"), ours.encode(b"lo" + b" world" * 9000)
    read: list[str] = []

    def encode(text: str) -> Sequence[int]:
        read.append(text)
        return ours._encode_text(text)

    watched = Tokenizer(ours.pieces, ours.specials, encode, digest="")
    assert watched.count_seam(before, after) == SeamCount(plain=1, non_canonical=1)
    assert max(map(len, read)) < 10 * 2 * N_NEAR
    end = ours.specials["<|im_end|>"]
    assert ours.count_seam((*before, end), (*after, end)) == SeamCount(special=1)
    read.clear()
    assert watched.count_seam((*before, end, *ours.encode(b"hel")), (*ours.encode(b"lo"), end, *after)).non_canonical
    assert set(read) == {"hel", "lo", "hello"}


@pytest.mark.model
def test_how_a_reply_was_sampled_is_not_counted_against_its_seam(smollm2: Pair) -> None:
    """`hel` and `lo`, sampled one after the other, are no `hello`; the line end after them is where it would be."""
    sampled = (*smollm2.ours.encode(b"hel"), *smollm2.ours.encode(b"lo"))
    assert smollm2.ours.count_seam(sampled, smollm2.ours.encode(b" world")) == SeamCount(plain=1)


def test_nothing_meets_nothing_and_half_characters_are_never_canonical() -> None:
    """An empty reply has no seam, nor have the first ids; a cut within a character is one that no encoder makes."""
    letter = (ord("a"),)
    assert BYTES.count_seam((), letter) == BYTES.count_seam(letter, ()) == SeamCount()
    assert BYTES.count_seam(tuple("aé".encode()[:2]), (0xA9,)) == SeamCount(plain=1, non_canonical=1)
    assert BYTES.count_seam(tuple(b"\xffa"), (*letter, 0xFF)) == SeamCount(plain=1)


def test_counts_add_up() -> None:
    """Field by field."""
    assert SeamCount(1, 2, 3) + SeamCount(special=1, plain=1) == SeamCount(2, 3, 3)
