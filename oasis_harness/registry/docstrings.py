r"""What a docstring says of a function and of each parameter, whether in Google, NumPy or Sphinx style.

    Args:                      Parameters                   :param str path: Where it is,
        path: Where it is,     ----------                       in the workspace.
            in the workspace.  path : str
                                   Where it is,
                                   in the workspace.

Each gives `{"path": "Where it is, in the workspace."}`, and the text before it is the description. What only looks like
a section stays text: `:param x:` inside a line, or for an `x` the function does not take; "Parameters" without a rule
below it.

Formats: https://numpydoc.readthedocs.io/en/latest/format.html,
https://www.sphinx-doc.org/en/master/usage/domains/python.html#info-field-lists; Google's is read by docstring_parser.
"""

import re
from collections.abc import Collection, Iterator

import docstring_parser

__all__ = ["read_docstring"]

_ARGUMENTS = frozenset({"Parameters", "Params", "Arguments", "Args", "Other Parameters"})
_TITLES = _ARGUMENTS | {
    *("Returns", "Yields", "Receives", "Raises", "Warns", "Warnings", "Attributes"),
    *("See Also", "Notes", "References", "Examples"),
}
"""The sections of NumPy's style; under another title stands text."""

_HEADING = re.compile(r"^(\S.*?)[ \t]*\n-{3,}[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"^(\S.*)((?:\n(?:[ \t].*)?)*)", re.MULTILINE)
"""A line of names, and all indented lines below it."""

_FIELD = re.compile(r"^:(\w+)(?:[ \t]+([^:\n]*\w))?[ \t]*:(?=\s|$)", re.MULTILINE)
_FIELD_ARGUMENTS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_FIELDS = frozenset({"type", "raise", "raises", "except", "exception", "return", "returns", "rtype", "yield", "yields"})
_ENDED = re.compile(r"\n[ \t]*\n(?=\S)")
"""A paragraph that is not indented belongs to no field: it is text again."""


def read_docstring(text: str, parameters: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return the text before the sections, and what they say of each of `parameters`, on one line.

    Google's style wins where it describes a parameter.

    Raises:
        docstring_parser.ParseError: A section in Google's style is faulty.
    """
    google = _google(text)
    told = {item.arg_name: item.description or "" for item in google.params}
    if not told and (other := _numpy(text) or _sphinx(text, parameters)):
        google, told = _google(other[0]), other[1]
    described = {name: " ".join(words.split()) for name, words in told.items()}
    return (google.description or "").strip(), described


def _google(text: str) -> docstring_parser.Docstring:
    return docstring_parser.parse(text, style=docstring_parser.DocstringStyle.GOOGLE)


def _numpy(text: str) -> tuple[str, dict[str, str]] | None:
    """Return the text before the sections and what is said of each parameter; None where there is no section."""
    headings = list(_HEADING.finditer(text))
    starts = [heading.start() for heading in headings if heading[1] in _TITLES]
    if not starts:
        return None
    told: dict[str, str] = {}
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=True):
        if heading[1] in _ARGUMENTS:
            told |= _items(text[heading.end() : end])
    return text[: starts[0]], told


def _items(section: str) -> Iterator[tuple[str, str]]:
    for item in _ITEM.finditer(section):
        for name in item[1].partition(":")[0].split(","):
            yield name.strip(), item[2]


def _sphinx(text: str, parameters: Collection[str]) -> tuple[str, dict[str, str]] | None:
    """Return the text around the fields and what is said of each parameter; None where there is no field."""
    fields = list(_FIELD.finditer(text))
    start = next((field.start() for field in fields if _is_first(field, parameters)), None)
    if start is None:
        return None
    around, told = [text[:start].rstrip()], {}
    ends = [*(field.start() for field in fields[1:]), len(text)]
    for field, end in zip(fields, ends, strict=True):
        if field.start() >= start:
            body, *prose = _ENDED.split(text[field.end() : end], maxsplit=1)
            told[_argument(field)] = body
            around += [paragraphs.rstrip() for paragraphs in prose]
    return "\n\n".join(around), told


def _is_first(field: re.Match[str], parameters: Collection[str]) -> bool:
    """Say whether fields start here: with a parameter of the function, or at a paragraph; prose may begin a line so."""
    line_before = field.string[: field.start()].removesuffix("\n").rpartition("\n")[2]
    return _argument(field) in parameters or (field[1] in _FIELDS and not line_before.strip())


def _argument(field: re.Match[str]) -> str:
    """Return the parameter a field describes; empty where it describes something else."""
    return field[2].split()[-1] if field[1] in _FIELD_ARGUMENTS and field[2] else ""
