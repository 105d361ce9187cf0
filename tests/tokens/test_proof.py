"""What is proved of a seam holds for every text there, and what is open has an example."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.errors import NotEncodable
from oasis_harness.tokens import Because, SeamProof, Tokenizer, Verdict, byte_tokenizer, load_tokenizer, prove_seam
from oasis_harness.tokens.files import _around
from oasis_harness.tokens.splits import Splits, Words

from .conftest import Pair
from .texts import Pieces, joined, pieces, texts
from .training import byte_level, gpt2, llama3, metaspace, qwen2, split, write

SEAMS = [
    ("", "{end}\n"),
    ("", "\n{end}"),
    ("", "\n"),
    ("{end}", "\n{start}user\n"),
    ("{end}", ""),
    ("{end}\n", "{start}user\n"),
    ("{start}assistant\n", ""),
    ("{start}assistant\n", "Hello"),
    ("assistant\n", "Hello"),
    ("assistant\n", "\nHello"),
    ("{start}\n", ""),
    ("</think>\n\n", "Hi"),
    ("</think>\n\n", ""),
    ("", "</tool_call>"),
    ("}}", "\n</tool_call>"),
    ("[/INST]", " Hello"),
    ("x", " y"),
    ("a", "1"),
    ("", ""),
]
"""Where the deltas of model families meet, with the special tokens of the tokenizer at hand."""

proof = cache(prove_seam)


def seams(tokenizer: Tokenizer) -> list[tuple[bytes, bytes]]:
    start, end, *_ = tokenizer.specials
    return [
        (left.format(start=start, end=end).encode(), right.format(start=start, end=end).encode())
        for left, right in SEAMS
    ]


def check_example(tokenizer: Tokenizer, found: SeamProof) -> None:
    assert (found.verdict is Verdict.PROVED) == (found.because is not None)
    assert (found.verdict is Verdict.OPEN) == (found.example is not None)
    if found.example is not None:
        left, right = found.example.left, found.example.right
        assert found.example.kept == tokenizer.encode(left) + tokenizer.encode(right)
        assert found.example.whole == tokenizer.encode(left + right) != found.example.kept


def is_canonical(tokenizer: Tokenizer, before: Pieces, after: Pieces) -> bool:
    first, second = tokenizer.encode(*joined(before)), tokenizer.encode(*joined(after))
    return first + second == tokenizer.encode(*joined([*before, *after]))


def check_texts(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Draw a seam of a family and texts around it; what was proved must hold."""
    left, right = data.draw(st.sampled_from(seams(tokenizer)))
    parts = st.one_of(pieces(list(tokenizer.specials)), st.lists(st.tuples(texts, st.booleans()), max_size=2))
    before, after = data.draw(parts), data.draw(parts)
    carried = [[(tokenizer.escape(text.encode()).decode(), typed) for text, typed in side] for side in (before, after)]
    if proof(tokenizer, left, right).verdict is Verdict.PROVED:
        before, after = [*carried[0], (left.decode(), False)], [(right.decode(), False), *carried[1]]
        assert is_canonical(tokenizer, before, after)


@pytest.mark.slow
@settings(max_examples=200)
@given(data=st.data())
def test_no_text_contradicts_a_proof(every: Pair, data: st.DataObject) -> None:
    """Of any shape, typed or scaffold, special tokens and parts of them included."""
    check_texts(every.ours, data)


@pytest.mark.slow
@pytest.mark.model
@settings(max_examples=300)
@given(data=st.data())
def test_no_text_contradicts_a_proof_of_the_default_model(smollm2: Pair, data: st.DataObject) -> None:
    """On the real vocabulary."""
    check_texts(smollm2.ours, data)


def test_every_example_is_one(every: Pair) -> None:
    """The ids really differ; and only what is open has one."""
    for left, right in seams(every.ours):
        check_example(every.ours, proof(every.ours, left, right))


# The known ones


def verdict(tokenizer: Tokenizer, left: str, right: str) -> str:
    found = proof(tokenizer, left.encode(), right.encode())
    check_example(tokenizer, found)
    return found.because.name if found.because else found.verdict.name


SPECIAL = [("text", "<|im_end|>\n"), ("", "<|im_end|>"), ("<|im_end|>", "\n<|im_start|>user\n"), ("<think>", "")]
NEWLINES = [("<|im_start|>assistant\n", ""), ("<think>\n", ""), ("<think>\n\n</think>\n\n", ""), ("", "\n<|im_start|>")]


@pytest.mark.parametrize("train", [qwen2, llama3])
def test_the_seams_of_chatml_under_the_expressions_of_qwen_and_llama_3(tmp_path: Path, train: object) -> None:
    """A line end is kept apart from a word, and merges with a line end."""
    ours = load_tokenizer(write(train(), tmp_path))  # type: ignore[operator]  # a parameter has no narrower type
    assert {verdict(ours, *seam) for seam in SPECIAL} == {"SPECIAL"}
    assert {verdict(ours, *seam) for seam in NEWLINES} == {"OPEN"}
    assert verdict(ours, "assistant\n", "Hello") == verdict(ours, "</think>\n\n", "Hi") == "SPLIT"
    found = proof(ours, b"assistant\n", b"\nHello")
    assert found.example is not None and (found.example.left, found.example.right) == (b"assistant\n", b"\nHello")


@pytest.mark.model
def test_the_seams_of_the_default_model(smollm2: Pair) -> None:
    """After two line ends, a word takes the second one away: GPT-2's lookahead."""
    assert {verdict(smollm2.ours, *seam) for seam in SPECIAL if seam[0] != "<think>"} == {"SPECIAL"}
    assert {verdict(smollm2.ours, *seam) for seam in NEWLINES} == {"OPEN"}
    assert verdict(smollm2.ours, "assistant\n", "Hello") == "SPLIT"
    assert verdict(smollm2.ours, "</think>\n\n", "Hi") == "OPEN"
    assert verdict(smollm2.ours, "", "") == "OPEN"


def test_the_seams_of_sentencepiece(sentencepiece: Pair) -> None:
    """Nothing cuts its text, so what no piece reaches across is proved by the vocabulary alone."""
    assert verdict(sentencepiece.ours, "", "</s>\n") == verdict(sentencepiece.ours, "</s>", "") == "SPECIAL"
    assert verdict(sentencepiece.ours, "x", "=") == "NO_PIECE"
    assert verdict(sentencepiece.ours, "", "\n</s>") == verdict(sentencepiece.ours, "<s>\n", "") == "OPEN"


def test_metaspace_splits_before_a_space(tmp_path: Path) -> None:
    """Unless it is told not to."""
    (tmp_path / "whole").mkdir()
    ours = load_tokenizer(write(metaspace("always")(), tmp_path))
    whole = load_tokenizer(write(metaspace("first")(), tmp_path / "whole"))
    assert verdict(ours, "", " y") == "SPLIT" and ours.splits.words is Words.BEFORE_SPACE
    assert verdict(whole, "", " y") != "SPLIT" and whole.splits.words is Words.WHOLE


def test_without_an_expression_a_byte_level_text_is_one_word(tmp_path: Path) -> None:
    """And what comes from a chain or an expression that is not known is left unknown."""
    (tmp_path / "unknown").mkdir()
    whole = load_tokenizer(write(byte_level(use_regex=False), tmp_path))
    unknown = load_tokenizer(write(byte_level(split(r"\X"), split(QUIET), use_regex=False), tmp_path / "unknown"))
    assert verdict(whole, "\0", "") == "NO_PIECE" and verdict(unknown, "\0", "") == "UNKNOWN"
    assert verdict(unknown, "", "<|im_end|>") == "SPECIAL"


QUIET = r"\p{L}+"


def test_a_word_that_is_looked_up_whole_is_no_matter_of_merges(tmp_path: Path) -> None:
    """`xyz` is a piece without merges: alone it is one, next to anything it is three."""
    content = {"vocab": {**vocabulary(), "xyz": 256}, "merges": [], "added_tokens": [], "ignore_merges": True}
    ours = load_tokenizer(write(byte_level(use_regex=False), tmp_path, **content))
    assert len(ours.encode(b"xyz")) == 1 and len(ours.encode(b"xyz!")) == 4
    assert verdict(ours, "xyz", "!") == "OPEN"
    assert verdict(ours, "", "!") != "NO_PIECE"


def vocabulary() -> dict[str, int]:
    from oasis_harness.tokens.alphabet import byte_alphabet

    return {char: token for token, char in enumerate(sorted(byte_alphabet()))}


# Special tokens that begin or overlap others


def test_a_special_token_that_begins_another_is_open() -> None:
    """Unless what follows rules the longer one out."""
    ours = byte_tokenizer(["<a>", "<a><b>"])
    assert verdict(ours, "<a>", "") == verdict(ours, "<a>", "<b>") == "OPEN"
    assert verdict(ours, "<a>", "x") == verdict(ours, "<a><b>", "") == "SPECIAL"
    assert verdict(ours, "", "<b>") == "OPEN" and verdict(ours, "x", "<b>") == "NO_PIECE"


def test_a_special_token_that_another_may_eat_into_is_no_reason(tmp_path: Path) -> None:
    """`[hel` at the end is none after `[a`, where `[a[` is found first: then text meets text."""
    content = {"added_tokens": [added("[hel", 900), added("[a[", 901)]}
    ours = load_tokenizer(write(gpt2(), tmp_path, **content))
    assert not is_canonical(ours, [("[a[hel", False)], [("lo", False)])
    assert verdict(ours, "[hel", "lo") == "UNKNOWN" and verdict(ours, "![hel", "lo") == "SPECIAL"


def added(text: str, token: int) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token, "content": text, **flags}


def test_sides_that_are_known_are_encoded() -> None:
    """Nothing beyond them means that there is one text to try, or none at all."""
    ours = byte_tokenizer(["<a>"])
    assert prove_seam(ours, b"<", b"a>", is_left_open=False, is_right_open=False).verdict is Verdict.OPEN
    assert prove_seam(ours, b"", b"", is_left_open=False).because is Because.SPECIAL
    known = Tokenizer(ours.pieces, {}, lambda text: text.encode(), digest="")
    assert prove_seam(known, b"a", b"b").verdict is Verdict.UNKNOWN
    assert prove_seam(known, b"a", b"b", is_left_open=False, is_right_open=False).because is Because.ENCODED


def test_a_side_that_is_not_utf8_is_refused() -> None:
    """Half a character is no text."""
    with pytest.raises(NotEncodable):
        prove_seam(byte_tokenizer(), b"\xc3", b"\xa9")


# Against all texts of two letters


def merged(pairs: Sequence[tuple[str, str]], text: str) -> list[str]:
    """The slow twin of any BPE: the first listed pair that is there, the leftmost of those, until none is."""
    parts = list(text)
    while True:
        found = [(pairs.index(pair), at) for at, pair in enumerate(pairwise(parts)) if pair in pairs]
        if not found:
            return parts
        _, at = min(found)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def toy(pairs: Sequence[tuple[str, str]], specials: Sequence[str], fixed: Sequence[str]) -> Tokenizer:
    """A tokenizer of two letters: a few merges, special tokens, and texts of fixed ids."""
    made = ["a", "b", *dict.fromkeys("".join(pair) for pair in pairs)]
    ids = {text: token for token, text in enumerate(made)}
    fixed_ids = {text: [len(made) + i] for i, text in enumerate(fixed)}
    start = len(made) + len(fixed)
    all_pieces = [text.encode() for text in [*made, *fixed, *specials]]
    return Tokenizer(
        all_pieces,
        {text: start + i for i, text in enumerate(specials)},
        _around(fixed_ids, lambda text: [ids.get(part, 0) for part in merged(pairs, text)]),
        digest="",
        splits=Splits(Words.WHOLE, fixed=tuple(text.encode() for text in fixed), is_merges_only=True),
    )


@st.composite
def toys(draw: st.DrawFn) -> Tokenizer:
    words = st.text("ab", min_size=2, max_size=3)
    pairs: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 3))):
        known = st.sampled_from(["a", "b", *("".join(pair) for pair in pairs)])
        pairs.append((draw(known), draw(known)))
    specials = draw(st.lists(words, unique=True, max_size=2))
    fixed = draw(st.lists(words, unique=True, max_size=2))
    return toy(pairs, specials, fixed)


WORDS = ["".join(word) for n in range(4) for word in product("ab", repeat=n)]
ends = st.text("ab", max_size=3)


@pytest.mark.slow
@settings(max_examples=400)
@given(tokenizer=toys(), left=ends, right=ends, is_open=st.tuples(st.booleans(), st.booleans()))
def test_a_proof_holds_for_all_short_texts(
    tokenizer: Tokenizer, left: str, right: str, is_open: tuple[bool, bool]
) -> None:
    """Special tokens, fixed texts and pieces that begin, end and overlap each other in every way."""
    found = prove_seam(tokenizer, left.encode(), right.encode(), is_left_open=is_open[0], is_right_open=is_open[1])
    check_example(tokenizer, found)
    if found.verdict is Verdict.PROVED:
        befores, afters = (WORDS if side else [""] for side in is_open)
        for before, after, (is_first, is_second) in product(befores, afters, product([False, True], repeat=2)):
            whole = [(before, is_first), (left, False)], [(right, False), (after, is_second)]
            assert is_canonical(tokenizer, *whole), whole


def test_a_special_token_that_ends_beyond_what_is_known_may_take_a_fixed_text_apart() -> None:
    """`ab` has an id of its own, unless its `b` begins the special token `bb`; then `a` merges with what is before."""
    ours = toy([("b", "a")], ["bb"], ["ab"])
    assert not is_canonical(ours, [("b", False)], [("abb", False)])
    assert prove_seam(ours, b"b", b"ab", is_left_open=False).verdict is not Verdict.PROVED
    assert prove_seam(ours, b"b", b"ab", is_left_open=False, is_right_open=False).verdict is Verdict.PROVED
