"""Where a pre-tokenizer's regular expression is said to cut alike apart and together, the library does."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from oasis_harness.tokens.fast import _GPT2, _GPT2_SINGLE_DIGITS
from oasis_harness.tokens.pattern import parts_surely

from .texts import texts
from .training import LLAMA3, QWEN, split

_CASES = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_CASES[0]}]*[{_CASES[1]}]+{_CASES[2]}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{_CASES[0]}]+[{_CASES[1]}]*{_CASES[2]}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Words by case, as gpt-oss has them."""


def chain(*steps: Any) -> Any:
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


SHAPES: dict[str, tuple[str, Any]] = {
    "gpt2": (_GPT2, chain()),
    "digits": (_GPT2_SINGLE_DIGITS, chain(pre_tokenizers.Digits(individual_digits=True))),
    "qwen2": (QWEN, split(QWEN)),
    "llama3": (LLAMA3, split(LLAMA3)),
    "cased": (CASED, split(CASED)),
}
LETTERS = ["a", "S", "1", " ", "\n", "\t", "!", "'", "s", "é"]
ASCII = [letter for letter in LETTERS if letter.isascii()]
shapes = pytest.mark.parametrize("shape", SHAPES)


def cuts(shape: str, text: str) -> list[int]:
    """Where the library cuts `text`, its ends included."""
    words = SHAPES[shape][1].pre_tokenize_str(text)
    return sorted({end for _, span in words for end in span})


def check(shape: str, left: str, right: str) -> None:
    moved = [len(left) + cut for cut in cuts(shape, right)]
    assert cuts(shape, left + right) == sorted({*cuts(shape, left), *moved}), (left, right)


@shapes
@pytest.mark.slow
def test_whatever_stands_around_a_sure_cut_it_is_one(shape: str) -> None:
    """All short texts of one character of each kind, around every cut that is sure."""
    words = ["".join(word) for n in range(3) for word in product(LETTERS, repeat=n)]
    for last, first in product(ASCII, ASCII):
        if parts_surely(SHAPES[shape][0], last.encode(), first.encode(), is_left_open=True):
            for before, after in product(words, ["", *LETTERS]):
                check(shape, before + last, first + after)


@shapes
@given(before=texts, after=texts, known=st.lists(st.sampled_from(ASCII), min_size=2, max_size=4), data=st.data())
def test_texts_of_all_scripts_agree(shape: str, before: str, after: str, known: list[str], data: st.DataObject) -> None:
    """With more of the left side known, and with nothing before it."""
    at = data.draw(st.integers(1, len(known) - 1))
    left, right, is_open = "".join(known[:at]), "".join(known[at:]), data.draw(st.booleans())
    assume(parts_surely(SHAPES[shape][0], left.encode(), right.encode(), is_left_open=is_open))
    check(shape, (before if is_open else "") + left, right + after)


@shapes
def test_a_cut_that_is_not_sure_is_moved_by_some_text(shape: str) -> None:
    """The guard must fail: for each of these there are texts that the library cuts otherwise as one."""
    for left, right in [("he", "llo"), ("\n", "\n"), (" ", "a"), ("'", "s"), ("!", "!"), ("  ", "\t")]:
        assert not parts_surely(SHAPES[shape][0], left.encode(), right.encode(), is_left_open=True)
        with pytest.raises(AssertionError):
            check(shape, left, right)


def sure(shape: str) -> Callable[..., bool]:
    def is_sure(left: bytes, right: bytes, *, is_left_open: bool = True) -> bool:
        return parts_surely(SHAPES[shape][0], left, right, is_left_open=is_left_open)

    return is_sure


def test_white_space_before_a_word_is_sure_where_the_lookahead_is_not_asked() -> None:
    """After one line end in all shapes; after more, only where line ends are matched before it."""
    assert sure("gpt2")(b"assistant\n", b"Hello") and sure("qwen2")(b"assistant\n", b"Hello")
    assert sure("qwen2")(b"\n", b"Hello") and sure("llama3")(b"</think>\n\n", b"Hi")
    assert not sure("gpt2")(b"\n", b"Hello") and not sure("gpt2")(b"</think>\n\n", b"Hi")
    assert sure("gpt2")(b"\n", b"Hello", is_left_open=False)
    assert not sure("gpt2")(b"\n\n", b"Hello", is_left_open=False)


def test_digits_are_sure_where_each_is_a_word() -> None:
    """And not where three make one, or all."""
    assert sure("qwen2")(b"1", b"2") and sure("digits")(b"1", b"2")
    assert not sure("llama3")(b"1", b"2") and not sure("gpt2")(b"1", b"2")


def test_what_is_not_ascii_or_not_known_is_never_sure() -> None:
    """The libraries need not know the same Unicode."""
    assert not sure("qwen2")("é".encode(), b"1") and not sure("qwen2")(b"1", "é".encode())
    assert not sure("qwen2")(b"", b"1") and not sure("qwen2")(b"1", b"")
    assert not sure("qwen2")(b"\x1c", b"1")


@pytest.mark.parametrize(
    "part",
    [
        *(r"^a", r"a$", r"\b", r"(?<=a)b", r"(?!a)b", r"a(?!\S)", r"\s+(?!\S)a", r"(\s+(?!\S))", r"\p{Han}", r"[[a]b]"),
        *(r"a?+b", r"a{2}", r"a{2,3}", r"a{0,1}", r"\X", r".", r"a*", r"(a)", r"(?i:[^a])", r"(?i:\p{L})", r"[b-a]"),
        *("(?:a", "[a", "a)", "a||b"),
    ],
)
def test_an_expression_that_is_not_understood_proves_nothing(part: str) -> None:
    """Alone or as one alternative of many."""
    for pattern in (part, f"{part}|{QWEN}", f"{QWEN}|{part}"):
        assert not parts_surely(pattern, b"a", b"1", is_left_open=True)


def test_what_no_alternative_matches_is_never_sure() -> None:
    """Stretches between two matches would be one."""
    assert not parts_surely("a+", b"1", b"!", is_left_open=True)
    assert not parts_surely("a+|1a", b"a", b"1", is_left_open=True)
    assert parts_surely("a+|1a?", b"a", b"1", is_left_open=True)
    assert parts_surely(r"[\-a-c\x5d!-]+|1".replace(r"\x5d", r"\]"), b"-", b"1", is_left_open=True)


def test_the_cases_of_a_letter_are_one_where_case_is_ignored() -> None:
    """`'S` is a word with `'s`."""
    assert not parts_surely("(?i:'s)|'|S", b"'", b"S", is_left_open=True)
    assert parts_surely("(?:'s)|'|S", b"'", b"S", is_left_open=True)
