"""The words of a certificate's trials, as the template sees them: other ones for every template.

    tried        {"role": "user", "content": "Uoasis5c27"}
    rendered     <|user|>Uvalowoke            one template's own word for it, which looks like prose
    judged       <|user|>Uoasis5c27

A template that looked for the words it is tried with could behave while they are there only. What stands for a word
is drawn from the digest of the template and its switches, so that no template can hold its own, and every machine draws
the same. A delta's base has the sentinel in the same disguise. What a base says beside it (`dummy`), and the marks that
try how a text is quoted (`<i>&amp;</i>`), stay as they are.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from oasis_harness.canonical import canonical_json
from oasis_harness.templates import Template

__all__ = ["Disguise"]

_WORDS = re.compile(r"[A-Z]?oasis[A-Za-z0-9_]*")
_IDS = re.compile(r"oasis(?:\d{4}|ID\d\d)")
"""Ids of calls: some templates want nine letters and digits."""
_CONSONANTS, _VOWELS = "bdfgklmnprstvw", "aeiou"


class Disguise:
    """Puts a template's own words in place of the fixed ones, and back."""

    def __init__(self, template: Template) -> None:
        self._seed = f"{template.digest}\n{canonical_json(template.arguments).decode()}"
        self._source = template.source
        self._shown: dict[str, str] = {}  # by disguised word: the fixed one
        self._hidden = lru_cache(maxsize=None)(self._draw)

    def hide(self, value: Any) -> Any:
        """Return a message, or anything else that a template is given, in its own words."""
        if isinstance(value, str):
            return _WORDS.sub(lambda match: self._hidden(match[0]), value)
        if isinstance(value, dict):
            return {self.hide(key): self.hide(item) for key, item in value.items()}
        return [self.hide(item) for item in value] if isinstance(value, list | tuple) else value

    def show(self, text: str) -> str:
        """Return what the template wrote, in the fixed words."""
        for word, fixed in self._shown.items():
            if word in text:
                text = text.replace(word, fixed)
        return text

    def _draw(self, word: str) -> str:
        for attempt in range(100):
            drawn = _drawn(word, hashlib.sha256(f"{self._seed}\n{attempt}\n{word}".encode()).digest() * 2)
            if drawn not in self._source and not any(drawn in other or other in drawn for other in self._shown):
                self._shown[drawn] = word
                return drawn
        raise AssertionError("a source holds a hundred words of 64 random bits each")


def _drawn(word: str, noise: Sequence[int]) -> str:
    """Return a word of the same length that begins alike: two that part at their first letter still do."""
    if _IDS.fullmatch(word):
        return word[:1] + "".join("abcdefghijklmnopqrstuvwxyz0123456789"[byte % 36] for byte in noise[1 : len(word)])
    letters = (_VOWELS, _CONSONANTS)
    rest = "".join(letters[at % 2][noise[at] % len(letters[at % 2])] for at in range(1, len(word)))
    return word[:1] + rest
