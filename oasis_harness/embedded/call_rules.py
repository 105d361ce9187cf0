r"""A grammar of calls, in llguidance's lark: the parts that a dialect writes around names and arguments, and schemas.

    call: one
    one: call_0 | call_1
    call_0: "{\"name\": \"" "read" "\", \"arguments\": " arguments_0 "}"       one JSON value, or an object after a name
    call_1: "<function=" "add" ">\n" p_1_0 p_1_1? "</function>\n"              an element a parameter: optional or not
    p_1_0: "<parameter=a>" value_1_0 "</parameter>\n"

Special tokens of the vocabulary stand as `<[id]>`: a literal never matches one.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from llguidance import LLMatcher

from oasis_harness.panics import without_panics
from oasis_harness.replies import ArgumentsForm, CallLayout, CallSyntax
from oasis_harness.tokens import Tokenizer

__all__ = ["call_rules", "layout_of", "literal"]

_LAYOUT = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
_COMMA = r"/,[ \n]{0,8}/"
_ID = "/[A-Za-z0-9]{9}/"


def layout_of(syntax: CallSyntax | None) -> CallLayout | None:
    """Return where the parts of a call stand, or None where that is not known to the letter."""
    if syntax is None:
        return None
    if syntax.is_json and syntax.opener and syntax.closer:
        return CallLayout(
            ArgumentsForm.CALL, syntax.opener, '{"name": "', '", "arguments": ', "}", syntax.closer, keys=_PLAIN
        )
    layout = syntax.layout
    return None if layout is None or not (layout.opener + layout.begin) or not layout.between else layout


_PLAIN = ("name", "arguments", "id")


def call_rules(layout: CallLayout, tools: Sequence[bytes], tokenizer: Tokenizer, max_string: int) -> str:
    """Return rules whose `call` is what stands between opener and closer: calls of `tools` that fit their schemas."""
    return "\n".join(_Rules(layout, tokenizer, max_string).lines(tools)) + "\n"


def literal(text: str, tokenizer: Tokenizer) -> str:
    """Return `text` in lark: its special tokens, and literals between them."""
    marks = sorted(tokenizer.specials, key=lambda mark: (-len(mark), mark))
    pattern = f"({'|'.join(map(re.escape, marks))})" if marks else "(?!)"
    parts = [part for part in re.split(pattern, text) if part]
    return " ".join(
        f"<[{tokenizer.specials[part]}]>" if part in tokenizer.specials else json.dumps(part) for part in parts
    )


class _Rules:
    """Writes the rules of one dialect's calls."""

    def __init__(self, layout: CallLayout, tokenizer: Tokenizer, max_string: int) -> None:
        self._layout = layout
        self._tokenizer = tokenizer
        self._max_string = max_string

    def lines(self, tools: Sequence[bytes]) -> Iterator[str]:
        layout, (opened, begin, end, closed) = self._layout, self._outside()
        is_list, has_more = bool(opened), self._layout.separator is not None
        separator = _COMMA if is_list else self._literal(layout.separator or "")
        yield f"call: {self._literal(opened)} one{f' ({separator} one)*' if has_more else ''} {self._literal(closed)}"
        yield f"one: {' | '.join(f'call_{i}' for i in range(len(tools)))}"
        for i, tool in enumerate(tools):
            function = json.loads(tool)["function"]
            name = json.dumps(json.dumps(function["name"])[1:-1])
            betweens = layout.betweens or (layout.between,)
            between = " | ".join(map(self._literal, (*betweens, layout.between)))
            yield f"call_{i}: {self._literal(begin)} {name} ({between}) arguments_{i} {self._literal(end)}"
            yield from self._arguments(i, tool, function["parameters"])

    def _outside(self) -> tuple[str, str, str, str]:
        """Return what opens a list of calls, begins and ends one of them, and closes the list."""
        layout = self._layout
        if layout.form is not ArgumentsForm.CALL or not layout.begin.lstrip().startswith("["):
            return "", layout.begin, layout.end, ""
        start, stop = layout.begin.index("{"), layout.end.rindex("}") + 1
        return layout.begin[:start], layout.begin[start:], layout.end[:stop], layout.end[stop:]

    def _arguments(self, i: int, tool: bytes, schema: dict[str, Any]) -> Iterator[str]:
        form = self._layout.form
        if form in (ArgumentsForm.CALL, ArgumentsForm.OBJECT):
            yield f"arguments_{i}: {_object_rule(tool, self._max_string)}"
            return
        required = set(schema.get("required", ()))
        keys = list(schema.get("properties", {}))
        for n, key in enumerate(keys):
            yield from self._parameter(f"{i}_{n}", key, schema)
        if form is ArgumentsForm.ELEMENTS:
            optional = (f"p_{i}_{n}{'' if key in required else '?'}" for n, key in enumerate(keys))
            yield f"arguments_{i}: {' '.join(optional)}" if keys else f'arguments_{i}: ""'
            return
        yield from _listed(i, [key in required for key in keys])

    def _parameter(self, at: str, key: str, schema: dict[str, Any]) -> Iterator[str]:
        one, definitions = schema["properties"][key], {name: schema[name] for name in ("$defs",) if name in schema}
        element = self._layout.element
        value = _json_rule({**definitions, **one}, self._max_string)
        if element is None:
            yield f"p_{at}: {json.dumps(f'{key}=')} {value}"
            return
        is_text = _is_text(one)
        between = element.between if is_text else element.between_other
        before = self._literal(f"{element.before}{key}{between}")
        if is_text:
            yield from self._text(at, before, one)
            return
        yield f"p_{at}: {before} value_{at} {self._literal(element.after)}"
        yield f"value_{at}: {value}"

    def _text(self, at: str, before: str, schema: dict[str, Any]) -> Iterator[str]:
        """Yield the rules of a bare text: one of its choices, or anything up to the first mark that ends it."""
        assert self._layout.element is not None, "only an element holds bare text"
        after = self._layout.element.after
        choices = [schema["const"]] if "const" in schema else schema.get("enum", ())
        if choices:
            yield f"p_{at}: {before} value_{at} {self._literal(after)}"
            yield f"value_{at}: {' | '.join(json.dumps(str(choice)) for choice in choices)}"
            return
        core, bound = after.strip(), f"{{0,{self._max_string}}}" if self._max_string else "*"
        lead, tail = after[: after.index(core)], after[after.index(core) + len(core) :]
        text = f"/(?s:.{bound})" + re.escape(lead).replace("\\\n", "\\n") + "/"
        if any(core.startswith(mark) for mark in self._tokenizer.specials):  # no text can match it
            yield f"p_{at}: {before} value_{at} {self._literal(core + tail)}"
            yield f"value_{at}: {text}"
        else:
            yield f"p_{at}: {before} value_{at} {self._literal(tail)}"
            yield f"value_{at}[suffix={json.dumps(core)}]: {text}"

    def _literal(self, text: str) -> str:
        parts = [literal(part, self._tokenizer) for part in text.split("{id}")]
        return f" {_ID} ".join(parts).strip() or '""'


def _listed(i: int, required: Sequence[bool]) -> Iterator[str]:
    """Yield rules of parameters between commas, in their order, up to the closing bracket."""
    n_all = len(required)
    yield f'arguments_{i}: {f"first_{i}_0" if n_all else ""} ")"'
    for n, is_required in enumerate(required):
        rest = f"rest_{i}_{n + 1}" if n + 1 < n_all else ""
        first = f"first_{i}_{n + 1}" if n + 1 < n_all else '""'
        skipped = "" if is_required else f" | {first}"
        yield f"first_{i}_{n}: p_{i}_{n} {rest}{skipped}"
        if n:
            yield f'rest_{i}_{n}: ", " p_{i}_{n} {rest}' + ("" if is_required else f" | {rest or chr(34) * 2}")


def _is_text(schema: dict[str, Any]) -> bool:
    """Say whether a bare text stands for a value of `schema`."""
    kinds = schema.get("type", [])
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return "string" in kinds or (not kinds and any(isinstance(one, str) for one in choices))


@lru_cache(maxsize=1024)
def _object_rule(tool: bytes, max_string: int) -> str:
    """Return the rule of all arguments as one object; any object where the schema has no grammar."""
    schema = {"additionalProperties": False, **json.loads(tool)["function"]["parameters"]}
    return _json_rule(schema, max_string, otherwise={"type": "object"})


def _json_rule(schema: dict[str, Any], max_string: int, *, otherwise: dict[str, Any] | None = None) -> str:
    rule = f"%json {json.dumps({**_LAYOUT, **_bounded(schema, max_string)})}"
    try:
        problem = without_panics(lambda: LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(f"start: {rule}")))
    except RuntimeError as error:
        problem = str(error)
    is_usable = not problem or problem.startswith("WARNING")
    return rule if is_usable else f"%json {json.dumps({**_LAYOUT, **(otherwise or {})})}"


def _bounded(schema: Any, max_string: int) -> Any:
    """Return `schema` with a bound on every free text in it."""
    if isinstance(schema, list):
        return [_bounded(item, max_string) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = {key: _bounded(value, max_string) for key, value in schema.items()}
    is_free_text = bounded.get("type") == "string" and not {"enum", "const", "pattern", "format"} & bounded.keys()
    return {"maxLength": max_string, **bounded} if is_free_text and max_string else bounded
