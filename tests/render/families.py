"""What a test must know of each family: its template, how its model calls, and what the template's own render does."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.render import JSON_CALLS, CallSyntax

from .templates import (
    CHATML,
    CHATML_TOOLS,
    CODER,
    COMMAND,
    GEMMA,
    GLM,
    GRANITE,
    HARMONY,
    LLAMA,
    MISTRAL,
    MISTRAL_LAST,
    PHI,
    SYSTEM_FIRST,
    THINKING,
)


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


def _json(text: str, tools: Sequence[Mapping[str, Any]]) -> Any:
    return json.loads(text)


XML_CALLS = CallSyntax("<tool_call>", "</tool_call>", _xml_call)
GLM_CALLS = CallSyntax("<tool_call>", "</tool_call>", _glm_call)
MISTRAL_CALLS = CallSyntax("[TOOL_CALLS]", "", _json)
COMMAND_CALLS = CallSyntax("<|START_ACTION|>", "<|END_ACTION|>", _json)
LLAMA_CALLS = CallSyntax("<|python_tag|>", "", _json)
HARMONY_CALLS = CallSyntax("<|channel|>commentary to=functions.", "", _harmony_call)


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
    thinks: bool = False
    """Prints `reasoning_content`, of the newest turn only."""

    def __repr__(self) -> str:
        return self.name


VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}
_IM = ("<|im_end|>\n",)

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
]
"""Families whose own render of a longer conversation extends the one of a shorter."""

REWRITING = [
    Family("mistral, tools last", MISTRAL_LAST, MISTRAL_CALLS, closers=("</s>",), has_calls=True),
    Family("thinking", THINKING, JSON_CALLS, closers=_IM, has_calls=True, has_text_calls=True, thinks=True),
]
"""Families whose own render rewrites what was sent."""
