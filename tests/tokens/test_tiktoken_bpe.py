"""The fast path gives the ids of the tokenizers library, or is not taken."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from tokenizers import pre_tokenizers

from oasis_harness.tokens import Tokenizer, load_tokenizer

from .conftest import Pair, read
from .texts import texts
from .training import byte_level, digits, gpt2, split, write


def is_fast(tokenizer: Tokenizer) -> bool:
    return "fast_encoder" in tokenizer._encode_text.__qualname__


def check_equal(pair: Pair, text: str) -> None:
    """With the special tokens that stand in `text`, and with none."""
    data = pair.ours.escape(text.encode())
    assert pair.ours.encode(data) == pair.library_ids(data.decode())
    ordinary = pair.ours.encode(data, [(0, len(data))])
    assert is_fast(pair.ours) and ordinary == pair.ours.encode(data, [(0, 1), (1, len(data))])


@pytest.mark.slow
@given(text=texts)
def test_every_byte_level_shape_gives_the_ids_of_the_library(byte_level: Pair, text: str) -> None:
    """Digits, contractions of any case, runs of white space, scripts old and new, special tokens."""
    check_equal(byte_level, unicodedata.normalize("NFC", text))


@pytest.mark.slow
@pytest.mark.model
@settings(max_examples=300)  # the real vocabulary is large, and read once
@given(text=texts)
def test_the_default_model_gives_the_ids_of_the_library(smollm2: Pair, text: str) -> None:
    """On the real vocabulary."""
    check_equal(smollm2, text)


@pytest.mark.slow
def test_every_character_gives_the_ids_of_the_library(byte_level: Pair) -> None:
    """Between letters, digits, spaces and apostrophes: the two libraries need not know the same Unicode."""
    for start in [*range(0, 0xD800, 64), *range(0xE000, 0x10000, 64), *range(0x1F000, 0x1FC00, 64)]:
        text = "".join(f" {char}1{char}a '{char}  {char}" for char in map(chr, range(start, start + 64)))
        composed = unicodedata.normalize("NFC", text)
        assert byte_level.ours.encode(composed.encode()) == byte_level.library_ids(composed)


@pytest.mark.parametrize("char", ["\U00011de0", "\U0002ebf0", "\U0001e5f1"])
def test_a_character_of_a_script_that_still_grows_goes_the_slow_way(tmp_path: Path, char: str) -> None:
    """A digit to a library that knows the newest Unicode, a sign to one that does not; the merge shows which."""
    pair = read(write(digits(), tmp_path, **merges(("Ġ", "ð"))))
    check_equal(pair, f"a {char}1 {char}{char}")


@pytest.mark.slow
def test_a_text_that_breaks_the_regular_expression_goes_the_slow_way(tmp_path: Path) -> None:
    """tiktoken panics on a million spaces; the ids come all the same."""
    tokenizer = load_tokenizer(write(gpt2(), tmp_path))
    data = b" " * 1_000_000 + b"x"
    assert tokenizer.decode(tokenizer.encode(data)) == data


def test_composed_and_decomposed_text_are_kept_apart(byte_level: Pair) -> None:
    """The normalizer of the file (NFC) is not followed: it would change what was recorded."""
    composed, decomposed = "é".encode(), "e\u0301".encode()
    assert byte_level.ours.encode(composed) != byte_level.ours.encode(decomposed)


# Where it is not taken


def slow(tmp_path: Path, tokenizer: tokenizers.Tokenizer, text: str, **changes: Any) -> None:
    """Check that this file is left to the tokenizers library, and that the ids are its."""
    pair = read(write(tokenizer, tmp_path, **changes))
    assert not is_fast(pair.ours)
    assert pair.ours.encode(text.encode()) == pair.library_ids(text)


def merges(*pairs: tuple[str, str]) -> dict[str, Any]:
    """A vocabulary of the bytes and what `pairs` give."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *dict.fromkeys(left + right for left, right in pairs)]
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    return {"vocab": vocabulary, "merges": [list(pair) for pair in pairs], "added_tokens": []}


def test_a_piece_that_only_tiktoken_would_merge_leaves_it_to_the_library(tmp_path: Path) -> None:
    """`abc` is listed as a + bc; tiktoken would also make it of ab + c. No probe has the letters: the pieces tell."""
    slow(tmp_path, gpt2(), "abc", **merges(("a", "b"), ("b", "c"), ("a", "bc")))


def test_a_piece_with_two_merges_leaves_it_to_the_library(tmp_path: Path) -> None:
    """tiktoken knows one rank a piece."""
    slow(tmp_path, gpt2(), "abc abcabc", **merges(("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")))


def test_a_piece_that_is_only_looked_up_leaves_it_to_the_library(tmp_path: Path) -> None:
    """With `ignore_merges` a whole word needs no merges; tiktoken has no rank for it."""
    content = merges(("a", "b"))
    content["vocab"]["xyz"] = len(content["vocab"])
    slow(tmp_path, gpt2(), "xyz ab", **content, ignore_merges=True)


def test_a_regular_expression_that_means_something_else_fails_the_probes(tmp_path: Path) -> None:
    """`$` is the end of a line to one library, and of the text to the other."""
    tokenizer = byte_level(split(r"\w+$|\w|[^\w]"), use_regex=False)
    slow(tmp_path, tokenizer, "14\n14", **merges(("1", "4")))


def test_a_regular_expression_that_tiktoken_does_not_know_leaves_it_to_the_library(tmp_path: Path) -> None:
    """`\\X`, a character as a reader sees it, which only Oniguruma has."""
    slow(tmp_path, byte_level(split(r"\X"), use_regex=False), "e\u0301ab")


@pytest.mark.parametrize("step", [pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=False)])
def test_an_unknown_chain_of_pre_tokenizers_leaves_it_to_the_library(tmp_path: Path, step: Any) -> None:
    """Only the known ones are translated."""
    slow(tmp_path, byte_level(step), "Hello, 123 world!")


def test_the_same_vocabulary_without_the_trap_is_fast(tmp_path: Path) -> None:
    """The tests above fail for the reason they name."""
    pair = read(write(gpt2(), tmp_path, **merges(("a", "b"), ("ab", "c"))))
    assert is_fast(pair.ours) and pair.ours.encode(b"abc") == pair.library_ids("abc")
    assert json.loads(pair.path.read_text("utf-8"))["added_tokens"] == []
