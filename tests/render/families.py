"""What a test must know of each family: its template, how its model calls, and what the template's own render does."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.replies import JSON_CALLS, CallSyntax

from .templates import (
    APRIEL,
    AYA,
    CHATML,
    CHATML_TOOLS,
    CODER,
    COMMAND,
    GEMMA,
    GEMMA_TALK_LATER,
    GLM,
    GRANITE,
    HARMONY,
    HERMES,
    HOISTING,
    KIMI,
    LLAMA,
    LONGCAT,
    MISTRAL,
    MISTRAL_LAST,
    PHI,
    PYTHONIC,
    SYSTEM_FIRST,
    SYSTEM_LAST,
)
from .thinkers import DEEPSEEK, GLM_THINKING, KEEPING, MINIMAX, NEMOTRON, OSS, QWQ, SEED, SOLAR, THINKING


def _harmony_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    name, _, arguments = text.partition("<|message|>")
    return {"name": name.split()[0], "arguments": json.loads(arguments)}


def _xml_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    found = re.fullmatch(r"\s*<function=([^>]+)>\n(.*)</function>\s*", text, flags=re.DOTALL)
    if found is None:
        raise ValueError("no function")
    pairs = re.findall(r"<parameter=([^>]+)>\n(.*?)\n</parameter>\n", found[2], flags=re.DOTALL)
    return {"name": found[1], "arguments": dict(pairs)}


def _glm_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    name, _, rest = text.partition("\n")
    pairs = re.findall(r"<arg_key>(.*?)</arg_key>\n<arg_value>(.*?)</arg_value>\n", rest, flags=re.DOTALL)
    return {"name": name, "arguments": dict(pairs)}


def _minimax_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    pairs = re.findall(r'<parameter name="(.*?)">(.*?)</parameter>', text, flags=re.DOTALL)
    return {"name": re.findall(r'<invoke name="(.*?)">', text)[0], "arguments": dict(pairs)}


def _gemma_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    name, _, rest = text.removeprefix("call:").partition("{")
    return {"name": name, "arguments": dict(re.findall(r'(\w+):<\|"\|>(.*?)<\|"\|>', rest, flags=re.DOTALL))}


def _python_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    return ast.literal_eval(text)


def _json(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    return json.loads(text)


def _solar_call(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    name, _, arguments = text.partition("<|args|>")
    return {"name": name, "arguments": json.loads(arguments)}


def _deepseek_calls(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    pairs = [call.split("<|sep|>") for call in re.findall(r"<\|call\|>(.*?)<\|/call\|>", text, flags=re.DOTALL)]
    return [{"name": name, "arguments": json.loads(arguments)} for name, arguments in pairs]


def _kimi_calls(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    found = []
    while text:
        name, _, rest = text.removeprefix("<|call|>").partition(":")
        call_id, _, rest = rest.partition("<|args|>")
        arguments, end = json.JSONDecoder().raw_decode(rest)
        found.append({"id": call_id, "name": name, "arguments": arguments})
        text = rest[end:].removeprefix("<|/call|>")
    return found


XML_CALLS = CallSyntax("<tool_call>", "</tool_call>", _xml_call)
GLM_CALLS = CallSyntax("<tool_call>", "</tool_call>", _glm_call)
MISTRAL_CALLS = CallSyntax("[TOOL_CALLS]", "", _json)
COMMAND_CALLS = CallSyntax("<|START_ACTION|>", "<|END_ACTION|>", _json)
LLAMA_CALLS = CallSyntax("<|python_tag|>", "", _json)
HARMONY_CALLS = CallSyntax("<|channel|>commentary to=functions.", "", _harmony_call)


@dataclass(frozen=True)
class Thought:
    """How a model writes what it thinks, and what its template prints of that."""

    field: str
    opener: str
    closer: str
    is_prompted: bool = False
    """The generation prompt ends with the opener."""
    empties: tuple[str, ...] = ()
    """What the template prints in place of no thought; longest first."""
    forgotten: str = ""
    """What it prints in place of a thought that it drops."""


@dataclass(frozen=True)
class Family:
    """A template, and what its model and the template's own render do."""

    name: str
    source: str
    syntax: CallSyntax | None = None
    stops: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    """What may end the template's own render of an assistant message when that stands last; longest first."""
    has_calls: bool = False
    """Prints `tool_calls` and messages of role `tool`."""
    n_calls: int = 3
    """How many calls one message may hold."""
    has_system: bool = True
    has_text_calls: bool = False
    """Prints text that stands beside a call."""
    thought: Thought | None = None
    arguments: tuple[tuple[str, object], ...] = ()
    """Switches it is rendered under."""
    header: str = ""
    """What opens a reply, where a prompt is no prefix of the history it becomes."""
    takes_text: bool = False
    """Takes a call's arguments as a JSON string only."""

    def __repr__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.arguments)])

    def under(self, **arguments: object) -> "Family":
        """Return the same family with switches set."""
        return replace(self, arguments=tuple(arguments.items()))


VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}
_IM = ("<|im_end|>\n",)
_EMPTY = "<think>\n\n</think>\n\n"
_BLOCK = Thought("reasoning_content", "<think>\n", "\n</think>\n\n", empties=(_EMPTY,))
_PROMPTED = replace(_BLOCK, is_prompted=True)

EXTENDING = [
    Family("chatml", CHATML, closers=_IM),
    Family("chatml with tools", CHATML_TOOLS, JSON_CALLS, closers=_IM, has_calls=True, has_text_calls=True),
    Family("coder", CODER, XML_CALLS, closers=_IM, has_calls=True, has_text_calls=True),
    Family(
        "llama",
        LLAMA,
        LLAMA_CALLS,
        stops=("<|eot_id|>", "<|eom_id|>"),
        closers=("<|eot_id|>", "<|eom_id|>"),
        has_calls=True,
        n_calls=1,
    ),
    Family("mistral", MISTRAL, MISTRAL_CALLS, closers=("</s>",), has_calls=True),
    Family("gemma", GEMMA, closers=("<end_of_turn>\n",), has_system=False),
    Family("glm", GLM, GLM_CALLS, has_calls=True, has_text_calls=True),
    Family(
        "harmony",
        HARMONY,
        HARMONY_CALLS,
        stops=("<|return|>", "<|call|>"),
        closers=("<|return|>", "<|call|>"),
        has_calls=True,
        n_calls=1,
    ),
    Family("phi", PHI, closers=("<|end|>\n</s>",)),
    Family("system first", SYSTEM_FIRST, closers=("<|sep|>",)),
    Family("granite", GRANITE, JSON_CALLS, closers=("<|end_of_text|>\n",)),
    Family("command", COMMAND, COMMAND_CALLS, closers=("<|END|>",), has_calls=True),
    Family(
        "pythonic",
        PYTHONIC,
        CallSyntax("<|python|>", "<|/python|>", _python_call),
        closers=("<|eot|>",),
        has_calls=True,
        has_text_calls=True,
    ),
    Family(
        "longcat",
        LONGCAT,
        CallSyntax("<longcat_call>", "</longcat_call>", _json),
        closers=("</longcat_s>",),
        has_calls=True,
        has_text_calls=True,
    ),
    Family("hoisting", HOISTING, closers=("</s>",)),
    Family(
        "kimi",
        KIMI,
        CallSyntax("<|calls|>", "<|/calls|>", _kimi_calls),
        closers=("<|im_end|>",),
        has_calls=True,
        has_text_calls=True,
    ),
    Family(
        "aya",
        AYA,
        CallSyntax("<|action|>", "<|/action|>", _json),
        closers=("<|end|>",),
        has_calls=True,
        has_text_calls=True,
    ),
    Family(
        "seed",
        SEED,
        CallSyntax("<seed:call>", "</seed:call>", _json),
        closers=("</s>",),
        has_calls=True,
        has_text_calls=True,
        thought=Thought("reasoning_content", "<seed:think>", "</seed:think>"),
    ),
]
"""Families whose own render of a longer conversation extends the one of a shorter."""

KEEPING_FAMILY = Family(
    "keeping", KEEPING, JSON_CALLS, closers=_IM, has_calls=True, has_text_calls=True, thought=_PROMPTED
)
GLM_FAMILY = Family(
    "glm thinking",
    GLM_THINKING,
    GLM_CALLS,
    has_calls=True,
    has_text_calls=True,
    thought=Thought(
        "reasoning_content", "<think>", "</think>", is_prompted=True, empties=("</think>",), forgotten="</think>"
    ),
)
SOLAR_FAMILY = Family(
    "solar",
    SOLAR,
    CallSyntax("<|call|>", "<|/call|>", _solar_call),
    closers=("<|end|>", "<|calls|>"),
    has_calls=True,
    thought=Thought("reasoning", "<|think|>", "<|end|><|begin|>assistant"),
)
NEMOTRON_FAMILY = Family(
    "nemotron",
    NEMOTRON,
    JSON_CALLS,
    closers=_IM,
    has_calls=True,
    has_text_calls=True,
    thought=Thought(
        "reasoning_content",
        "<think>\n",
        "\n</think>\n",
        is_prompted=True,
        empties=("<think></think>",),
        forgotten="<think></think>",
    ),
)

KEPT = [
    KEEPING_FAMILY.under(preserve_thinking=True),
    GLM_FAMILY.under(clear_thinking=False),
    SOLAR_FAMILY.under(think_render_option="all"),
    NEMOTRON_FAMILY.under(truncate_history_thinking=False),
]
"""Families under the switch that makes them keep what was thought: they extend."""

REWRITING = [
    Family("mistral, tools last", MISTRAL_LAST, MISTRAL_CALLS, closers=("</s>",), has_calls=True),
    Family("system last", SYSTEM_LAST, closers=("</s>",)),
    Family("thinking", THINKING, JSON_CALLS, closers=_IM, has_calls=True, has_text_calls=True, thought=_BLOCK),
    Family(
        "deepseek",
        DEEPSEEK,
        CallSyntax("<|calls|>", "<|/calls|>", _deepseek_calls),
        takes_text=True,
        closers=("<|eos|>",),
        has_calls=True,
        has_text_calls=True,
        thought=replace(_PROMPTED, field="content"),
    ),
    Family(
        "qwq",
        QWQ,
        JSON_CALLS,
        closers=_IM,
        has_calls=True,
        has_text_calls=True,
        thought=replace(_PROMPTED, field="content"),
    ),
    KEEPING_FAMILY,
    replace(KEEPING_FAMILY.under(enable_thinking=False), thought=None),
    GLM_FAMILY,
    SOLAR_FAMILY,
    NEMOTRON_FAMILY,
    Family(
        "minimax",
        MINIMAX,
        CallSyntax("<minimax>", "</minimax>", _minimax_call),
        closers=("[e~[\n",),
        has_calls=True,
        has_text_calls=True,
        thought=_PROMPTED,
    ),
    Family(
        "oss",
        OSS,
        HARMONY_CALLS,
        stops=("<|return|>", "<|call|>"),
        closers=("<|return|>", "<|call|>"),
        has_calls=True,
        n_calls=1,
        thought=Thought("thinking", "<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
    ),
    Family(
        "gemma, text later",
        GEMMA_TALK_LATER,
        CallSyntax("<|tool_call>", "<tool_call|>", _gemma_call),
        closers=("<turn|>\n",),
        has_calls=True,
        has_text_calls=True,
    ),
    Family(
        "apriel",
        APRIEL,
        CallSyntax("<calls>", "</calls>", _json),
        closers=("\n<|end|>\n",),
        has_calls=True,
        has_text_calls=True,
    ),
    Family(
        "hermes",
        HERMES,
        JSON_CALLS,
        closers=_IM,
        has_calls=True,
        has_text_calls=True,
        header="<|im_start|>assistant\n",
    ),
]
"""Families whose own render rewrites what was sent."""
