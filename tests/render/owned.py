"""What tests of spans share: a head with a rich schema, and a second, slower opinion on whose words are whose."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.conversation import Conversation, Head, Note, ToolResults, ToolsAdded, User
from oasis_harness.render import Delta, Dialect, Renderer, Resolution, Span

from .families import VARIABLES
from .talk import EPOCH, tool

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": 'The "path".'},
        "limit": {"type": "integer", "description": "At most.", "default": 200, "enum": ["all", "it's\n"]},
        "options": {"type": "object", "properties": {"depth": {"type": "integer", "description": "How déep."}}},
        "name": {"type": "array", "items": {"type": "string", "description": "Each."}},
    },
    "required": ["path"],
}
READ = {"type": "function", "function": {"name": "read_file", "description": "Read it.", "parameters": SCHEMA}}
SHELL = tool("shell", "Read it.")


def head(*tools: dict[str, Any], system: str = "Be brief.", skills: Sequence[str] = ()) -> Head:
    lines = tuple(skill.encode() for skill in skills)
    return Head(EPOCH, system.encode(), tuple(json.dumps(one).encode() for one in tools), lines)


def opened(source: str, head: Head, text: str = "Hi") -> tuple[Delta, Conversation]:
    """Return the first delta that a template writes, and the conversation after it."""
    log, event = Conversation(head), User(text.encode())
    delta = Renderer(Dialect.compose(source, variables=VARIABLES)).extend(log.tip, event)
    log.append(event, delta.data)
    return delta, log


def first(source: str, head: Head, text: str = "Hi") -> Delta:
    return opened(source, head, text)[0]


def said(delta: "Delta | Forged") -> list[tuple[str, str]]:
    """Return (name, text) of what has a span of its own."""
    return [
        (span.name, delta.data[span.start : span.end].decode())
        for span in delta.spans
        if span.resolution is Resolution.EXACT
    ]


def assert_tiled(spans: Sequence[Span], n_bytes: int) -> None:
    assert [span.start for span in spans] == [0, *(span.end for span in spans)][: len(spans)]
    assert all(span.start < span.end for span in spans)
    assert (spans[-1].end if spans else 0) == n_bytes


def written(log: Conversation) -> dict[str, set[str]]:
    """Return the texts that may stand under each name."""
    found: dict[str, set[str]] = {}
    for node in log.nodes():
        for name, text in _written(node.event, f"event {node.index} "):
            found.setdefault(name, set()).add(text.strip())
    return found


def _written(event: Any, place: str) -> Iterator[tuple[str, str]]:
    match event:
        case Head():
            yield "head/system", event.system.decode()
            yield from ((f"head/skill[{line.decode().split(':')[0]}]", line.decode()) for line in event.skills)
            yield from (item for one in event.tools for item in _of_tool(json.loads(one)["function"], "head/"))
        case ToolsAdded():
            yield from (item for one in event.tools for item in _of_tool(json.loads(one)["function"], place))
        case User() | Note():
            yield place + ("text" if isinstance(event, User) else "note"), event.text.decode()
        case ToolResults():
            yield from ((f"{place}result[{n}]", one.content.decode()) for n, one in enumerate(event.results))


def _of_tool(function: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    owner = f"{place}tool[{function['name']}]"
    yield f"{owner}.type", "function"
    yield from _of_schema(function, owner)


def _of_schema(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    if isinstance(value, list):
        for n, item in enumerate(value):
            yield from _of_schema(item, f"{place}[{n}]")
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "properties":
                yield from ((f"{place}.{name}", name) for name in item)
                yield from _of_schema(item, place)
            else:
                yield from _of_schema(item, f"{place}.{key}")


def forms(text: str) -> set[str]:
    plain = {text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1], repr(text)[1:-1]}
    return plain | {json.dumps(form, ensure_ascii=False)[1:-1] for form in plain}  # a schema shown in a text


@dataclass(frozen=True)
class Forged:
    """Looks like a delta."""

    data: bytes
    spans: tuple[Span, ...]


def assert_true(deltas: Sequence[Delta | Forged], log: Conversation) -> None:
    """Check that the spans of `deltas` tile them, and that each text of its own is one that its name allows."""
    texts = written(log)
    for delta in deltas:
        assert_tiled(delta.spans, len(delta.data))
        for name, text in said(delta):
            allowed = set().union(*map(forms, texts[name]))
            assert text in allowed or any(_is_in_python(text, one) for one in texts[name])


def _is_in_python(text: str, whole: str) -> bool:
    """Say whether `text` is `whole` inside a longer Python string, whose quotes the rest of it decides."""
    return text == repr(whole + "\"'")[1:-4]
