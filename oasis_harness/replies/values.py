"""The values of a call's arguments, read from text: JSON, Python's literals, and what only a schema can tell.

keywords('path="a.py", n=3)')           {"path": "a.py", "n": 3}
element_value("3", …)                   "3" where the schema of the parameter says string, else 3
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["element_value", "json_value", "keywords"]

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")
_KEYWORD = re.compile(r"\s*(\w+)\s*=\s*")
_AFTER = re.compile(r"\s*([,)])")
_WORDS = {"true": "True", "false": "False", "null": "None"}
_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def json_value(text: str, at: int) -> tuple[Any, int]:
    """Return (the JSON value at `at` of `text`, where it ends).

    Raises:
        ValueError: There is none.
    """
    start = _SPACE.match(text, at)
    assert start is not None, "no space is space enough"
    return _DECODER.raw_decode(text, start.end())


def keywords(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Return (the arguments of a call in Python's words, right after its `(`; the end of its `)`).

    Raises:
        ValueError: They are not keywords and literals.
    """
    found: dict[str, Any] = {}
    closed = re.compile(r"\s*\)").match(text, at)
    if closed:
        return found, closed.end()
    while True:
        key = _KEYWORD.match(text, at)
        if key is None:
            raise ValueError(f"{text[at : at + 40]!r} is no argument of the form key=value")
        found[key[1]], at = _literal(text, key.end())
        after = _AFTER.match(text, at)
        if after is None:
            raise ValueError(f"{text[at : at + 40]!r} stands after the argument {key[1]!r}")
        at = after.end()
        if after[1] == ")":
            return found, at


def element_value(
    text: str, key: str, name: str, tools: Sequence[Mapping[str, Any]], *, is_text: bool | None = None
) -> Any:
    """Return the value that `text` is for the parameter `key` of the function `name`.

    `is_text` says whether it was marked as text, or as something else; None where all values are written alike.
    """
    types = _types(key, name, tools) if is_text is None else (("string",) if is_text else ())
    if types == ("string",):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _python(text)
    if "string" in types and not any(_is_a(value, one) for one in types if one != "string"):
        return text
    return value


def _literal(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = json_value(text, at)
    except ValueError:
        end = _literal_end(text, at)
        return _evaluated(text[at:end]), end
    return value, end


def _literal_end(text: str, at: int) -> int:
    """Return where a Python literal ends: at the comma or bracket that is not its own."""
    depth, quote = 0, ""
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif depth == 0 and char in ",)":
            return at
        else:
            depth += (char in "([{") - (char in ")]}")
        at += 1
    raise ValueError("an argument is not closed")


def _evaluated(text: str) -> Any:
    try:
        return ast.literal_eval(_WORDS.get(text.strip(), text.strip()))
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"{text.strip()[:40]!r} is no literal") from None


def _python(text: str) -> Any:
    """Return the value of a Python literal, or the text itself where it is none."""
    try:
        value = _evaluated(text)
        json.dumps(value)
    except (ValueError, TypeError):
        return text
    return value


def _types(key: str, name: str, tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the types that the schema of a parameter names; none where nothing is known of it."""
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and function.get("name") == name:
            properties = (function.get("parameters") or {}).get("properties") or {}
            return tuple(_named(properties.get(key) or {}))
    return ()


def _named(schema: Any) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
    kinds += ["string"] if any(isinstance(one, str) for one in choices) and not kinds else []
    options = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return list(dict.fromkeys([*kinds, *(kind for option in options for kind in _named(option))]))


def _is_a(value: Any, kind: str) -> bool:
    is_bool = isinstance(value, bool)
    return isinstance(value, _TYPES.get(kind, ())) and (not is_bool or kind == "boolean")
