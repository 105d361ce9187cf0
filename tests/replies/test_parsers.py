"""mlx-lm's tool parsers, as an engine hands them in: each reads its family's calls between the marks it names."""

import importlib
import json
from typing import Any

import pytest

from oasis_harness.replies import CallSyntax, parse_reply

pytestmark = pytest.mark.slow

TOOL = {
    "type": "function",
    "function": {
        "name": "write",
        "description": "Write.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["path"],
        },
    },
}
ARGUMENTS = {"path": "a/é.py", "n": 3}
_JSON = json.dumps(ARGUMENTS, ensure_ascii=False)
_ATEM = '<atem:parameter name="path">"a/é.py"</atem:parameter><atem:parameter name="n">3</atem:parameter>'
_K3 = (
    '<|open|>call tool="write" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>a/é.py'
    '<|close|>argument<|sep|><|open|>argument key="n" type="integer"<|sep|>3<|close|>argument<|sep|>'
    "<|close|>call<|sep|>"
)
_XML = "<parameter=path>\na/é.py\n</parameter>\n<parameter=n>\n3\n</parameter>\n"
_KEYS = "<arg_key>path</arg_key><arg_value>a/é.py</arg_value><arg_key>n</arg_key><arg_value>3</arg_value>"
_INVOKE = '<invoke name="write"><parameter name="path">a/é.py</parameter><parameter name="n">3</parameter></invoke>'

BODIES = {
    "json_tools": f'\n{{"name": "write", "arguments": {_JSON}}}\n',
    "qwen3_coder": f"\n<function=write>\n{_XML}</function>\n",
    "mistral": f'[{{"name": "write", "arguments": {_JSON}, "id": "AbCdEf123"}}]',
    "pythonic": '[write(path="a/é.py", n=3)]',
    "glm47": f"write{_KEYS}",
    "laguna": f"write{_KEYS}",
    "longcat": f"write{_KEYS}".replace("arg_", "longcat_arg_"),
    "minimax_m2": _INVOKE,
    "minicpm5": '"write"><param name="path">a/é.py</param><param name="n">3</param>',
    "kimi_k2": f"<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{_JSON}<|tool_call_end|>",
    "kimi_k3": _K3,
    "muse_spark": f'<atem:invoke name="write">{_ATEM}</atem:invoke>',
    "gemma4": 'call:write{path:<|"|>a/é.py<|"|>,n:3}',
    "function_gemma": "call:write{path:<escape>a/é.py<escape>,n:3}",
}


def syntax(name: str) -> CallSyntax:
    parser = importlib.import_module(f"mlx_lm.tool_parsers.{name}")
    return CallSyntax(parser.tool_call_start, parser.tool_call_end, parser.parse_tool_call)


def read(name: str, text: str) -> list[tuple[str, Any, str]]:
    parsed = parse_reply(text.encode(), syntax(name), index=5, tools=[TOOL])
    return [(call.name, dict(call.arguments), call.error) for call in parsed.calls]


def marks(name: str) -> tuple[str, str]:
    return syntax(name).opener, syntax(name).closer


@pytest.mark.parametrize("name", BODIES)
def test_each_parser_reads_its_own_form(name: str) -> None:
    opener, closer = marks(name)
    call = f"{opener}{BODIES[name]}{closer}"
    assert read(name, f"Let me.\n{call}") == [("write", ARGUMENTS, "")]
    assert read(name, f"{call}\n{call}") == [("write", ARGUMENTS, "")] * 2


@pytest.mark.parametrize("name", BODIES)
def test_no_parser_raises_through_parse(name: str) -> None:
    opener, closer = marks(name)
    for body in ("", "x", "{", "[", '{"name": 1}', BODIES[name][:-3], BODIES[name][3:], "[" * 3000):
        for text in (f"{opener}{body}{closer}", f"{opener}{body}", f"{opener}{opener}{body}{closer}{closer}"):
            assert len({call.id for call in parse_reply(text.encode(), syntax(name), index=5, tools=[TOOL]).calls}) >= 1


@pytest.mark.parametrize("name", ["json_tools", "qwen3_coder", "mistral", "pythonic", "glm47", "minimax_m2", "kimi_k3"])
def test_marks_inside_an_argument_are_part_of_it(name: str) -> None:
    """A file about calls can be written in every syntax."""
    opener, closer = marks(name)
    for value in (f"x{opener}y", f"x{opener}y{closer}z"):
        body = BODIES[name].replace("a/é.py", value)
        assert read(name, f"{opener}{body}{closer}") == [("write", {"path": value, "n": 3}, "")]


def test_mistral_calls_by_header_are_read_too() -> None:
    text = f"[TOOL_CALLS]write[ARGS]{_JSON}[TOOL_CALLS]write[ARGS]{_JSON}"
    assert read("mistral", text) == [("write", ARGUMENTS, "")] * 2


def test_several_calls_between_one_pair_of_marks_are_all_read() -> None:
    assert read("pythonic", '<|tool_call_start|>[write(path="a"), write(path="b")]<|tool_call_end|>') == [
        ("write", {"path": "a"}, ""),
        ("write", {"path": "b"}, ""),
    ]
    assert len(read("minimax_m2", f"<minimax:tool_call>{_INVOKE}{_INVOKE}</minimax:tool_call>")) == 2
