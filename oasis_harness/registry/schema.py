"""From a Python function to the JSON schema of its arguments, and the validator of a call.

The schema is part of the prompt, so nothing in it may depend on the release of pydantic or on how a docstring is
wrapped: keywords stand in an order of our own, titles go, what releases write differently is written in one way
(`_tidy`), and line breaks inside a paragraph are folded. Parameters keep their declaration order. The form is that of
`transformers.utils.get_json_schema`, which chat templates expect.
"""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from oasis_harness.canonical import canonical_json
from oasis_harness.errors import BadToolSchema

from .docstrings import read_docstring

__all__ = ["Description", "complaints", "describe", "signature_text"]

_PREFIX = "p_"
"""Put before every field name, so that a parameter may be called `copy`, `schema` or `_private`."""

_KEYWORDS = ("type", "description", "enum", "const", "anyOf", "items", "properties", "required", "default")
"""The order in which the keywords of a schema are written; others follow by name."""

_MAPS = frozenset({"properties", "$defs"})
"""Keywords whose value maps names (which keep their order) to schemas."""

_DATA = frozenset({"default", "enum", "const", "examples", "required"})
"""Keywords whose value is data, not a schema: left as it is."""

_FOLD = re.compile(r"(?<=\S)[ \t]*\n(?=[^\s*-])")
"""A line break inside a paragraph; one before a blank line, an indent or a list item stays."""

_DECIMAL = "^(?!^[-+.]*$)"
"""How the pattern begins that some releases give the text of a `Decimal`; the validator knows it."""

_LONGEST_VALUE = 80
"""Characters of a refused value that the message repeats."""


@dataclass(frozen=True, slots=True)
class Description:
    """What the signature and docstring of a function say about it."""

    text: str
    """The docstring without its sections."""
    parameters: dict[str, object]
    """JSON schema of the arguments, an object."""
    arguments: type[BaseModel]
    """Validates the arguments of a call; field `p_x` holds parameter `x`."""

    def keywords(self, arguments: object) -> dict[str, object]:
        """Return the keyword arguments a call gives; defaults are left to the function.

        Raises:
            ValidationError: The arguments do not fit.
        """
        given = self.arguments.model_validate(arguments)
        return {name.removeprefix(_PREFIX): getattr(given, name) for name in sorted(given.model_fields_set)}


def describe(function: Callable[..., object]) -> Description:
    """Describe `function` for the model.

    Raises:
        BadToolSchema: It is not a plain function or method, has no docstring, has a parameter that cannot be given
            by name or has no annotation, or a type or default that JSON cannot express.
    """
    _refuse_odd_callables(function)
    signature = _signature(function)
    text, told = _docstring(function, signature)
    fields = {
        _PREFIX + parameter.name: _field(function, parameter, told.get(parameter.name, ""))
        for parameter in signature.parameters.values()
    }
    arguments, parameters = _model(function, fields)
    return Description(text, parameters, arguments)


def signature_text(name: str, parameters: dict[str, object]) -> str:
    """Write the call shape a small model can copy: `read_file(path: string, limit: integer = 200)`."""
    required = parameters.get("required", [])
    properties = parameters.get("properties")
    assert isinstance(required, list) and isinstance(properties, dict)
    shapes = []
    for parameter, schema in properties.items():
        default = "" if parameter in required else f" = {_as_json(schema.get('default'))}"
        shapes.append(f"{parameter}: {_type_text(schema)}{default}")
    return f"{name}({', '.join(shapes)})"


def complaints(error: ValidationError) -> list[str]:
    """Say for each argument at fault what is wrong with it, first fault only."""
    told: dict[object, str] = {}
    for fault in error.errors(include_url=False, include_context=False):
        place = ".".join(str(step) for step in fault["loc"])
        match fault["type"]:
            case "missing":
                text = f"missing argument {place}"
            case "extra_forbidden":
                text = f"unknown argument {place}"
            case _ if not place:
                text = f"the arguments must be a JSON object, got {_as_json(fault['input'])}"
            case _:
                text = f"argument {place}: {fault['msg']}, got {_as_json(fault['input'])}"
        told.setdefault(fault["loc"][:1], text)
    return list(told.values())


def _refuse_odd_callables(function: Callable[..., object]) -> None:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise _refusal(function, "is neither a function nor a method.", "Register a function made with def.")
    if function.__name__ == "<lambda>":
        raise _refusal(function, "is a lambda.", "Write it with def, annotations and a docstring.")
    bare = inspect.unwrap(function)
    if inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare):
        raise _refusal(function, "is async.", "Tools are synchronous: run the coroutine inside a plain function.")
    if inspect.isgeneratorfunction(bare):
        raise _refusal(function, "is a generator.", "Return one value: join what it yields.")


def _docstring(function: Callable[..., object], signature: inspect.Signature) -> tuple[str, dict[str, str]]:
    """Return the text before the sections, and what they say of each parameter."""
    try:
        text, told = read_docstring(inspect.getdoc(function) or "", signature.parameters)
    except docstring_parser.ParseError as error:
        raise _refusal(
            function, f"has a faulty docstring: {error}", "Write `Args:`, then `name: text` indented."
        ) from error
    if not text:
        raise _refusal(function, "has no docstring.", "Say in one sentence what it does: the model reads nothing else.")
    return _FOLD.sub(" ", text), told


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception as error:  # evaluating an annotation runs the author's code
        raise _refusal(function, f"has an annotation that does not evaluate: {error}.", "Import its names.") from error


def _field(function: Callable[..., object], parameter: inspect.Parameter, told: str) -> tuple[object, object]:
    """Return what pydantic needs to know of one parameter: its type and its field."""
    name, default = parameter.name, parameter.default
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise _refusal(function, f"takes {parameter}, which cannot be given by name.", "Name every parameter.")
    if parameter.annotation is parameter.empty:
        raise _refusal(function, f"has no annotation for {name}.", f"Write {name}: str, or the type it takes.")
    if default is not parameter.empty:
        try:
            canonical_json(default)
        except (TypeError, ValueError) as error:
            remedy = "Use a string, number, boolean, list or None, and convert it inside."
            raise _refusal(function, f"has a default for {name} that JSON cannot express: {error}.", remedy) from error
    options: dict[str, Any] = {"description": told} if told else {}  # pydantic knows absent from None
    return parameter.annotation, Field(... if default is parameter.empty else default, alias=name, **options)


def _model(
    function: Callable[..., object], fields: dict[str, tuple[object, object]]
) -> tuple[type[BaseModel], dict[str, object]]:
    """Build the validator and the schema of `fields`."""
    try:
        # pydantic types each keyword as a field definition, which a built mapping cannot show.
        model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)  # type: ignore[call-overload]
        schema = _tidy(model.model_json_schema(schema_generator=_LoudSchema))
        assert isinstance(schema, dict)
        canonical_json(schema)
    except (PydanticUserError, TypeError, ValueError, NameError) as error:
        first_line = str(error).partition("\n")[0]
        remedy = "Annotate with str, int, float, bool, list, dict, Literal or a pydantic model."
        raise _refusal(function, f"has a parameter that no JSON schema describes: {first_line}.", remedy) from error
    return model, schema


class _LoudSchema(GenerateJsonSchema):
    """Raises where pydantic would warn and leave something out of the schema."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        raise TypeError(detail)


def _tidy(schema: object) -> object:
    """Drop titles and null defaults, flatten `X | None = None` to X, write what releases differ in one way, and order.

        {"enum": ["a"], "const": "a", "type": "string"}      {"type": "string", "const": "a"}
        {"type": "object", "additionalProperties": true}     {"type": "object"}

    Whether an object may have more members is said by the validator; in the prompt it only costs tokens.
    """
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {keyword: value for keyword, value in schema.items() if keyword != "title"}
    if "default" in kept and kept["default"] is None:
        del kept["default"]
        match kept.get("anyOf"):
            case [{**only}, {"type": "null"}]:
                del kept["anyOf"]
                kept = {**{keyword: value for keyword, value in only.items() if keyword != "title"}, **kept}
    if isinstance(kept.get("additionalProperties"), bool):
        del kept["additionalProperties"]
    if str(kept.get("pattern", "")).startswith(_DECIMAL):
        del kept["pattern"]
    match kept.get("enum"):
        case [only_value]:
            del kept["enum"]
            kept["const"] = only_value
    return {keyword: _tidy_value(keyword, kept[keyword]) for keyword in sorted(kept, key=_keyword_order)}


def _tidy_value(keyword: str, value: object) -> object:
    if keyword in _DATA:
        return value
    if keyword in _MAPS and isinstance(value, dict):
        return {name: _tidy(schema) for name, schema in value.items()}
    return _tidy(value)


def _keyword_order(keyword: str) -> tuple[int, str]:
    return (_KEYWORDS.index(keyword) if keyword in _KEYWORDS else len(_KEYWORDS), keyword)


def _type_text(schema: object) -> str:
    match schema:
        case {"enum": [*values]}:
            return " | ".join(_as_json(value) for value in values)
        case {"const": value}:
            return _as_json(value)
        case {"anyOf": [*choices]}:
            return " | ".join(_type_text(choice) for choice in choices)
        case {"type": "array", "items": items}:
            return f"array of {_type_text(items)}"
        case {"type": str(word)}:
            return word
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
    return "any"


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _refusal(function: Callable[..., object], fault: str, remedy: str) -> BadToolSchema:
    name = getattr(function, "__qualname__", repr(function))
    return BadToolSchema(f"The tool {name} {fault}", remedy=remedy, function=function)
