"""The tiny tokenizers, each trained and loaded once, beside what the tokenizers library makes of the same file."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tokenizers

from oasis_harness.tokens import Tokenizer, load_tokenizer

from .training import BYTE_LEVEL, SENTENCEPIECE, write


class Pair(NamedTuple):
    """One file, read by us and by the tokenizers library."""

    path: Path
    ours: Tokenizer
    library: Any

    def library_ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.library.encode(text, add_special_tokens=False).ids)


def read(path: Path) -> Pair:
    return Pair(path, load_tokenizer(path), tokenizers.Tokenizer.from_file(str(path)))


@pytest.fixture(scope="session")
def smollm2(default_model: Path) -> Pair:
    """The real tokenizer of the default model."""
    return read(default_model / "tokenizer.json")


@pytest.fixture(scope="session", params=BYTE_LEVEL)
def byte_level(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Each byte-level shape."""
    return read(write(BYTE_LEVEL[request.param](), tmp_path_factory.mktemp("byte_level")))


@pytest.fixture(scope="session", params=SENTENCEPIECE)
def sentencepiece(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Each SentencePiece shape."""
    return read(write(SENTENCEPIECE[request.param](), tmp_path_factory.mktemp("sentencepiece")))


@pytest.fixture(scope="session", params=[*BYTE_LEVEL, *SENTENCEPIECE])
def every(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Each shape."""
    return read(write((BYTE_LEVEL | SENTENCEPIECE)[request.param](), tmp_path_factory.mktemp("every")))
