"""Where authored text went in a render: every byte of a prompt is either someone's text or template scaffold.

A second render, with marks around each text, shows it. It is believed only where taking the marks out gives exactly the
unmarked render, so a template cannot be fooled into writing anything else.
"""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from oasis_harness.errors import UnsupportedTemplate

from .template import Message

__all__ = ["Marks", "is_verbatim"]

_SCHEMA_TEXTS = frozenset({"const", "default", "description", "enum", "examples", "pattern", "title"})
"""Keys of a tool's schema under which free text stands."""


def is_verbatim(text: str, render: str) -> bool:
    """Say whether `render` holds `text`, its ends trimmed or not, as it is or inside a JSON or Python string."""
    return any(form in render for form in _forms(text.strip()))


class Marks:
    """Words to put around authored text. They stand inside its leading and trailing white space: templates trim."""

    def __init__(self, plain: str, contents: Sequence[str]) -> None:
        self._plain = plain
        self._contents = [content.strip() for content in contents if content.strip()]
        # Letters and digits, since some templates escape all else; the Z keeps a word from overlapping another.
        free = (word for word in (f"Z{n}oasis" for n in itertools.count()) if word not in plain)
        self._message, self._schema, self._end = next(free), next(free), next(free)

    def message(self, message: Message) -> Message:
        """Return `message` with its content marked."""
        return {**message, "content": self._around(self._message, message["content"])}

    def tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        """Return the schema `tool` with its free texts marked."""
        marked: dict[str, Any] = _map_texts(tool, lambda text: self._around(self._schema, text))
        return marked

    def ranges(self, marked: str) -> tuple[tuple[int, int], ...]:
        """Return the byte ranges (start, end) of the authored texts in the unmarked render, in order.

        Raises:
            UnsupportedTemplate: The template changes or drops a text, or writes other scaffold around it.
        """
        pattern = f"({self._message}|{self._schema})(.*?){self._end}"
        found: list[tuple[int, int]] = []
        printed: set[str] = set()
        plain: list[str] = []
        n_bytes = done = 0
        for match in re.finditer(pattern, marked, flags=re.DOTALL):
            opener, inside = match.groups()
            before = marked[done : match.start()]
            start = n_bytes + len(before.encode())
            n_bytes, done = start + len(inside.encode()), match.end()
            found.append((start, n_bytes))
            plain += [before, inside]
            printed |= {inside} if opener == self._message else set()
        self._refuse_changes("".join([*plain, marked[done:]]), printed)
        return tuple(found)

    def _refuse_changes(self, unmarked: str, printed: set[str]) -> None:
        unknown = printed.difference(*map(_forms, self._contents))
        lost = [content for content in self._contents if printed.isdisjoint(_forms(content))]
        if unmarked != self._plain or unknown or lost:  # a mark that is left over differs from the plain render too
            raise UnsupportedTemplate(
                "the chat template changes or drops the text it is given, so typed text cannot be told from its own "
                f"marks: {(lost or sorted(unknown) or [unmarked])[0][:80]!r} ….",
                remedy="Use another template for this model.",
            )

    def _around(self, opener: str, text: str) -> str:
        core = text.strip()
        if not core:
            return text
        start = text.index(core)
        return f"{text[:start]}{opener}{core}{self._end}{text[start + len(core) :]}"


def _forms(text: str) -> set[str]:
    """Return `text` as it is, and as it stands inside JSON and Python strings."""
    return {text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1], repr(text)[1:-1]}


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the schema `value` with `change` applied to every free text in it."""
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _changed(item, change) if key in _SCHEMA_TEXTS else _map_texts(item, change) for key, item in value.items()
    }


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    return _map_texts(value, change)
