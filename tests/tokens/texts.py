"""Texts that tokenizers trip over, as Hypothesis strategies."""

from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import strategies as st

Pieces: TypeAlias = list[tuple[str, bool]]
"""Text in order, and whether a person, a tool or the harness wrote it; the rest is scaffold."""

FRAGMENTS = [
    *(
        "hello",
        "world",
        "def",
        "read_file",
        "12",
        "345",
        "½",
        "٣",
        "Ⅷ",
        "é",
        "e\u0301",
        "日本",
        "한국어",
        "😀",
        "👩‍👩‍👧",
    ),
    *(
        " ",
        "  ",
        "    ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\u00a0",
        "\u2003",
        "\u2028",
        "\u0085",
        "\0",
        "\x04",
        "\x1d",
    ),
    *("'s", "'LL", "'ve", "'ſ", "'", '"', "==", "***", "{}", "</", "\\x04", "▁", "▁▁", "Ġ", "<0x0A>", "<s>", "<unk>"),
    *(
        "<|im_start|>",
        "<|im_end|>",
        "<think>",
        "<|im_",
        "end|>",
        "<",
        "|>",
        "<|endoftext|>",
        "\U00011de0",
        "\U0002ebf0",
    ),
]

texts: st.SearchStrategy[str] = st.text(max_size=20) | st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
raw: st.SearchStrategy[bytes] = st.binary(max_size=20) | st.builds(
    lambda left, middle, right: left.encode() + middle + right.encode(), texts, st.binary(max_size=4), texts
)


def pieces(specials: Sequence[str]) -> st.SearchStrategy[Pieces]:
    """Scaffold and authored text in any order, special tokens and parts of them in both."""
    parts = [special[:3] for special in specials] + [special[3:] for special in specials]
    words = st.sampled_from([*specials, *specials, *parts, "user\n", "hello world", " 12", "é"])
    return st.lists(st.tuples(words, st.booleans()), max_size=8)


def joined(pieces: Pieces) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the bytes of `pieces` and the ranges of what is authored."""
    data, authored = b"", []
    for text, is_authored in pieces:
        start, data = len(data), data + text.encode()
        authored += [(start, len(data))] if is_authored else []
    return data, authored
