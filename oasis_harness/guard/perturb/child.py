"""The process in which a head is rendered once.

    python -m oasis_harness.guard.perturb.child TARGET ANSWER PROJECT CHANGES

Installs what CHANGES (JSON) says of the machine, loads TARGET, calls it, and writes its fields to the file ANSWER as
JSON: `[["system", "hex of its bytes"], ...]`. Whatever goes wrong ends the process with a traceback and no answer.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

from oasis_harness.canonical import canonical_json, text_bytes

from ..targets import load_target
from .clock import START_S, install_clock
from .shims import install_crlf, install_host, install_listing, install_locale

__all__ = ["Changes"]


class Changes(TypedDict):
    """What is installed in the process; see `Variation`."""

    clock_s: int
    listing: str
    is_foreign: bool
    host: str
    has_crlf: bool
    is_reversed: bool


def main(target: str, answer: str, project: str, changes: str) -> None:
    """Render `target` once and write its fields."""
    wanted: Changes = json.loads(changes)
    _install(wanted, project)
    fields = fields_of(_call(load_target(target), is_reversed=wanted["is_reversed"]), is_reversed=wanted["is_reversed"])
    names = [name for name, _ in fields]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"The target gives the fields {names}. Give at least one, each with a name of its own.")
    with open(answer, "w", encoding="ascii") as stream:  # noqa: PTH123 - pathlib costs every child its import
        json.dump([(text_bytes(name).hex(), data.hex()) for name, data in fields], stream)


def _install(wanted: Changes, project: str) -> None:
    install_clock(START_S + wanted["clock_s"])
    install_listing(wanted["listing"])
    if wanted["is_foreign"]:
        install_locale()
    if wanted["host"]:
        install_host(wanted["host"])
    if wanted["has_crlf"]:
        install_crlf(project)


def _call(function: Callable[..., object], *, is_reversed: bool) -> object:
    import inspect

    if "order" not in inspect.signature(function).parameters:
        return function()
    return function(order=_backwards if is_reversed else list)


def _backwards(items: Iterable[object]) -> list[object]:
    return list(items)[::-1]


def fields_of(value: object, *, is_reversed: bool = False) -> list[tuple[str, bytes]]:
    """Return the named parts of what a target gave, in order.

    Raises:
        TypeError: It is nothing that a head can be made of.
    """
    if isinstance(value, bytes | str):
        return [("head", _as_bytes(value))]
    if isinstance(value, Mapping):
        return _fields_of_mapping(value)
    if isinstance(value, list | tuple):
        return [field for part in value for field in fields_of(part, is_reversed=is_reversed)]
    return _fields_of_ours(value, is_reversed=is_reversed)


def _fields_of_mapping(value: Mapping[object, object]) -> list[tuple[str, bytes]]:
    """Return the fields of a request body, of a tool as it goes to an API, or of named parts."""
    messages, tools = value.get("messages"), value.get("tools", ())
    if isinstance(messages, list | tuple):
        rest = [(str(name), _json(part)) for name, part in value.items() if name not in ("messages", "tools")]
        shown = [field for n, message in enumerate(messages) for field in _fields_of_message(f"messages[{n}]", message)]
        return [*rest, *(field for tool in _items(tools) for field in fields_of(tool)), *shown]
    function = value.get("function", value)
    is_tool = not {"type", "function", "input_schema"}.isdisjoint(value)
    if is_tool and isinstance(function, Mapping) and isinstance(function.get("name"), str):
        return [(f"tool[{function['name']}]", _json(value))]
    return [(str(name), _as_bytes(part)) for name, part in value.items()]


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def _fields_of_message(name: str, message: object) -> list[tuple[str, bytes]]:
    """Return the content of a message as its own text, and what else it says as JSON."""
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
        return [(name, _json(message))]
    rest = {key: value for key, value in message.items() if key != "content"}
    return [(name, _json(rest)), (f"{name}.content", _as_bytes(message["content"]))]


def _json(value: object) -> bytes:
    return text_bytes(value) if isinstance(value, str) else canonical_json(value)


def _as_bytes(part: object) -> bytes:
    if isinstance(part, str):
        return text_bytes(part)
    if isinstance(part, bytes):
        return part
    raise TypeError(f"A field is {part!r:.80}, a {type(part).__name__}. Give bytes or text.")


def _fields_of_ours(value: object, *, is_reversed: bool) -> list[tuple[str, bytes]]:
    from oasis_harness.registry import Skills, Tools

    if isinstance(value, Tools):
        if is_reversed:
            value._tools = dict(reversed(value._tools.items()))  # as if they had been added in the opposite order
        return [(f"tool[{tool.name}]", tool.schema) for tool in value.frozen()]
    if isinstance(value, Skills):
        lines = [(f"skill[{skill.name}]", line) for skill, line in zip(value, value.lines(), strict=True)]
        return [*lines, *((f"skill[{skill.name}].body", text_bytes(skill.body)) for skill in value)]
    return _fields_of_head(value)


def _fields_of_head(value: object) -> list[tuple[str, bytes]]:
    from oasis_harness.conversation import Head

    value = getattr(value, "session", value)  # an agent, a session, a conversation
    value = getattr(value, "conversation", value)
    value = getattr(value, "head", value)
    if isinstance(value, Head):
        tools = [(f"tool[{json.loads(schema)['function']['name']}]", schema) for schema in value.tools]
        skills = [(f"skill[{line.partition(b':')[0].decode()}]", line) for line in value.skills]
        return [("system", value.system), *tools, *skills]
    wanted = "bytes, text, a mapping of them, Tools, Skills, tools as JSON objects or a request body"
    raise TypeError(f"The target gives a {type(value).__name__}. Give {wanted}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
