r"""The one way to the terminal: nothing that is written steers it or hides from its reader.

What a file, a model or a tool says reaches a person through `say` or a `Terminal`, on stdout and stderr alike. A
template whose error holds `\x1b]52;c;…\x07` would else put its own text into the clipboard; one with U+202E would read
backwards. Such characters are spelled out: `\x1b`, `\u202e`, `\U000e0041`.
"""

import json
import os
import re
import sys
import termios
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Terminal", "answer_to", "say", "say_json", "visible"]

_STEERING = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but newline and tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029"  # line and paragraph separators, which some terminals follow
    "\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # what has no shape
    "\U000e0000-\U000e0fff"  # tags and further variation selectors: text that only a machine reads
    "]"
)


def visible(text: str) -> str:
    """Spell out what would steer the terminal or hide; letters, emoji, newlines and tabs stay. Idempotent."""
    return _STEERING.sub(lambda match: _spelled(ord(match[0])), text)


def say(text: str = "", *, end: str = "\n", to_stderr: bool = False, flush: bool = False) -> None:
    """Write `text`, made visible, to stdout or stderr."""
    print(visible(text), end=end, file=sys.stderr if to_stderr else sys.stdout, flush=flush)


def say_json(fields: Mapping[str, object], *, is_ascii: bool = False) -> None:
    """Write one JSON object as one line on stdout; what would steer or hide stands in JSON's own escapes."""
    text = json.dumps(fields, ensure_ascii=is_ascii, allow_nan=False)
    print(_STEERING.sub(lambda match: json.dumps(match[0])[1:-1], text), flush=True)


def answer_to(question: str, *, terminal: str) -> str:
    """Write `question`, made visible, to the device `terminal`; return the line typed after it, if it is there.

    What was typed before the question is thrown away.
    """
    try:
        screen = os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        termios.tcflush(screen, termios.TCIFLUSH)
        os.write(screen, visible(question).encode("utf-8", "backslashreplace"))
        typed = os.read(screen, 1024)
        os.write(screen, b"" if typed else b"\n")  # after Ctrl-D
        return typed.decode("utf-8", "replace")
    except (OSError, termios.error):  # it went away, or is none
        return ""
    finally:
        os.close(screen)


class Terminal:
    """Stdout or stderr with styles and tables; no markup, no emoji codes, no wrapped lines."""

    def __init__(self, *, is_stderr: bool = False) -> None:
        from rich.console import Console

        self.console = Console(stderr=is_stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)
        """For what moves: a progress bar, whose texts are ours."""

    def line(self, text: str, style: str) -> None:
        """Write `text`, made visible, in a style of rich's."""
        self.console.print(visible(text), style=style)

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write a table of right-aligned cells, made visible."""
        from rich.table import Table

        table = Table(*map(visible, titles))
        for column in table.columns:
            column.justify = "right"
        for row in rows:
            table.add_row(*map(visible, row))
        self.console.print(table)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
