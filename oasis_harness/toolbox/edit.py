r"""Replace a text that a model remembers in a file that has it slightly otherwise.

First exactly; then by whole lines with whitespace, quotes and dashes ignored, and the new lines indented as the file
is. Both only where the place is unique. Everything outside the replaced text keeps its bytes: the byte order mark,
bytes that are not UTF-8, and line ends (a file that has only CRLF gets CRLF, a file that has only LF gets LF). The
ladder is that of the coding agents pi and aider.
"""

import codecs
import difflib

from oasis_harness.registry import ToolRefused

from .workspace import shortened

__all__ = ["edit_bytes"]

_PLAIN = str.maketrans(dict.fromkeys("'‘’‚′“”„″", '"') | dict.fromkeys("‐‑‒–—−", "-"))
"""Characters that models mix up, to the one that stands for them in a comparison."""

_MAX_SHOWN = 20
_MAX_LINE = 200
_MAX_COMPARED = 5_000
"""Lines of a file that are looked through for the nearest one: so many of 100 similar characters took 1 s."""


def edit_bytes(data: bytes, old: str, new: str, *, shown: str) -> tuple[bytes, str]:
    """Replace the one `old` in `data` by `new`; return the new bytes and a sentence for the model.

    Raises:
        ToolRefused: `old` is empty, not there or there several times; the message about the file `shown` says what
            to send instead.
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = data.removeprefix(mark).decode("utf-8", "surrogateescape")
    n_crlf, n_lf = text.count("\r\n"), text.count("\n")
    is_crlf = n_crlf == n_lf > 0
    if is_crlf or n_crlf == 0 < n_lf:
        text, old, new = (part.replace("\r\n", "\n") for part in (text, old, new))
    if old == new:
        raise ToolRefused("old and new are the same: there is nothing to change.")
    edited, message = _edit(text, old, new, shown)
    if is_crlf:
        edited = edited.replace("\n", "\r\n")
    return mark + edited.encode("utf-8", "surrogateescape"), message


def _edit(text: str, old: str, new: str, shown: str) -> tuple[str, str]:
    if not old:
        if text:
            raise ToolRefused(
                f'old is empty. Send the text to replace: edit_file(path="{shown}", old="...", new="...").'
            )
        return new, f"Edited {shown}."
    if starts := _occurrences(text, old):
        numbers = [text.count("\n", 0, start) + 1 for start in starts]
        _refuse_several(numbers, shown)
        return text[: starts[0]] + new + text[starts[0] + len(old) :], f"Edited {shown}, line {numbers[0]}."
    return _edit_lines(text.split("\n"), old, new, shown)


def _edit_lines(lines: list[str], old: str, new: str, shown: str) -> tuple[str, str]:
    """Replace the one run of lines that equals `old` but for whitespace, quotes and dashes."""
    wanted, n_above, n_below = _trimmed(old.split("\n"))
    keys, wanted_keys = [_key(line) for line in lines], [_key(line) for line in wanted]
    runs = range(len(lines) - len(wanted) + 1) if wanted else ()
    starts = [start for start in runs if keys[start : start + len(wanted)] == wanted_keys]
    if not starts:
        raise ToolRefused(_not_found(lines, wanted, shown))
    _refuse_several([start + 1 for start in starts], shown)
    stop = starts[0] + len(wanted)
    added = _without_blank(new.split("\n"), n_above, n_below) if new else []
    lines[starts[0] : stop] = _reindented(added, wanted, lines[starts[0] : stop])
    message = f"Edited {shown}, line {starts[0] + 1}; old differed from the file in whitespace or quotes."
    return "\n".join(lines), message


def _occurrences(text: str, old: str) -> list[int]:
    """Find up to ten places of `old`; they may overlap, since either could be meant."""
    places: list[int] = []
    place = text.find(old)
    while place >= 0 and len(places) < 10:
        places.append(place)
        place = text.find(old, place + 1)
    return places


def _refuse_several(numbers: list[int], shown: str) -> None:
    if len(numbers) > 1:
        places = ", ".join(map(str, numbers[:10]))
        remedy = "Send more of the lines around the place, so that old occurs once."
        raise ToolRefused(f"old occurs several times in {shown}: lines {places}. {remedy}")


def _key(line: str) -> str:
    return "".join(line.translate(_PLAIN).split())


def _trimmed(lines: list[str]) -> tuple[list[str], int, int]:
    """Drop blank lines at both ends; return the rest and how many went above and below."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return [], len(lines), 0
    return lines[filled[0] : filled[-1] + 1], filled[0], len(lines) - 1 - filled[-1]


def _without_blank(lines: list[str], n_above: int, n_below: int) -> list[str]:
    """Drop at most so many blank lines at either end as were dropped from the old text."""
    while n_above and lines and not lines[0].strip():
        lines, n_above = lines[1:], n_above - 1
    while n_below and lines and not lines[-1].strip():
        lines, n_below = lines[:-1], n_below - 1
    return lines


def _reindented(added: list[str], wanted: list[str], found: list[str]) -> list[str]:
    """Give each added line the indent that the file has where the old text had the line's own."""
    indents: dict[str, str] = {}
    for theirs, ours in zip(wanted, found, strict=True):
        if theirs.strip():
            indents.setdefault(_indent(theirs), _indent(ours))
    longest_first = sorted(indents, key=len, reverse=True)

    def moved(line: str) -> str:
        known = next((indent for indent in longest_first if line.strip() and line.startswith(indent)), None)
        return line if known is None else indents[known] + line.removeprefix(known)

    return [moved(line) for line in added]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _not_found(lines: list[str], wanted: list[str], shown: str) -> str:
    """Say that `old` is missing, and show the lines that come nearest to it."""
    anchor = max(wanted, key=lambda line: len(line.strip()), default="")
    compared = [line[:_MAX_LINE].strip() for line in lines[:_MAX_COMPARED]]
    near = difflib.get_close_matches(anchor[:_MAX_LINE].strip(), compared, n=1) if anchor else []
    if not near:
        return f'old does not occur in {shown}, nor anything like it. Look first: read_file(path="{shown}").'
    first = max(compared.index(near[0]) - wanted.index(anchor), 0)
    region = lines[first : first + min(len(wanted), _MAX_SHOWN)]
    quoted = "\n".join(shortened(line, _MAX_LINE) for line in region)
    call = f'edit_file(path="{shown}", old="<these lines>", new="...")'
    return (
        f"old does not occur in {shown}. Nearest, from line {first + 1}:\n{quoted}\n"
        f"Send the lines as they stand there: {call}."
    )
