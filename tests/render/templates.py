"""Small chat templates, each in the style of a family, and what a test must know of each.

They are written for these tests: short, and with the family's one trap kept.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.render import JSON_CALLS, CallSyntax

CHATML = """\
{% for message in messages %}
<|im_start|>{{ message.role + '\\n' + message.content }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""

_CHATML_HEAD = """\
{% if tools %}
<|im_start|>system
{% if messages[0].role == 'system' %}
{{ messages[0].content + '\\n' }}
{% endif %}
# Functions
{% for tool in tools %}
{{ tool | tojson }}
{% endfor %}
%HOW%<|im_end|>
{% elif messages[0].role == 'system' %}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
"""

_CHATML_RESULT = """\
{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}
{{- '<|im_start|>user' }}
{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
{{- '<|im_end|>\\n' }}
{%- endif %}
"""

CHATML_TOOLS = (
    _CHATML_HEAD.replace("%HOW%", 'To call: <tool_call>{"name": …, "arguments": …}</tool_call>')
    + """\
{% for message in messages %}
{% if message.role == 'tool' %}
"""
    + _CHATML_RESULT
    + """\
{% elif message.tool_calls %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role != 'system' or not loop.first %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
)

CODER = (
    _CHATML_HEAD.replace("%HOW%", "To call: <tool_call><function=name><parameter=key>value</parameter></function>")
    + """\
{% for message in messages %}
{% if message.role == 'tool' %}
"""
    + _CHATML_RESULT
    + """\
{% elif message.tool_calls %}
{{- '<|im_start|>assistant\\n' + message.content }}
{%- for call in message.tool_calls %}
{{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for key, value in call.function.arguments | items %}
{{- '<parameter=' + key + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>\\n' }}
{%- endfor %}
{{- '</function>\\n</tool_call>' }}
{%- if not loop.last %}{{- '\\n' }}{%- endif %}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role != 'system' or not loop.first %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
)

LLAMA = """\
{{- bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\nToday: ' + strftime_now('%d %b %Y') + '\\n\\n' }}
{%- if messages[0].role == 'system' %}
{{- messages[0].content | trim }}
{%- set messages = messages[1:] %}
{%- endif %}
{%- for tool in tools or [] %}
{{- '\\n' + tool | tojson(indent=4) }}
{%- endfor %}
{{- '<|eot_id|>' }}
{%- for message in messages %}
{%- set header = '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' %}
{%- if message.tool_calls %}
{%- if message.tool_calls | length > 1 %}{{- raise_exception('one call a message') }}{%- endif %}
{%- set call = message.tool_calls[0].function %}
{{- header + '<|python_tag|>{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}<|eom_id|>' }}
{%- elif message.role == 'tool' %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- else %}
{{- header + message.content | trim + '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

_MISTRAL_TURNS = """\
{%- if message.role == 'user' %}
{{- '[INST]' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}
{{- '[TOOL_CALLS][' }}
{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{- raise_exception('call ids have nine characters') }}{%- endif %}
{{- '{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- ', "id": "' + call.id + '"}' + (']' + eos_token if loop.last else ', ') }}
{%- endfor %}
{%- elif message.role == 'assistant' %}
{{- message.content + eos_token }}
{%- elif message.role == 'tool' %}
{{- '[TOOL_RESULTS]{"content": ' + message.content | tojson + ', "call_id": "' + message.tool_call_id }}
{{- '"}[/TOOL_RESULTS]' }}
{%- else %}
{{- raise_exception('no such role') }}
{%- endif %}
"""

MISTRAL = (
    """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}
{{- '[SYSTEM_PROMPT]' + messages[0].content + '[/SYSTEM_PROMPT]' }}
{%- set messages = messages[1:] %}
{%- endif %}
{%- if tools %}{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{%- endif %}
{%- for message in messages %}
"""
    + _MISTRAL_TURNS
    + "{%- endfor %}\n"
)

MISTRAL_LAST = (
    """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}
{{- '[SYSTEM_PROMPT]' + messages[0].content + '[/SYSTEM_PROMPT]' }}
{%- set messages = messages[1:] %}
{%- endif %}
{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}
{%- for message in messages %}
{%- if tools and message.role == 'user' and message == users[-1] %}
{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}
{%- endif %}
"""
    + _MISTRAL_TURNS
    + "{%- endfor %}\n"
)

GEMMA = """\
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}{{- raise_exception('no system role') }}{%- endif %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('roles must alternate') }}{%- endif %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}
{{- message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}
"""

GLM = """\
{{- '[gMASK]<sop>' }}
{%- if tools %}
{{- '<|system|>\\n# Tools\\n' }}
{%- for tool in tools %}{{- tool | tojson + '\\n' }}{%- endfor %}
{{- 'Call with <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|observation|>' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- elif message.role == 'assistant' %}
{{- '<|assistant|>\\n' + message.content.strip() }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + call.function.name + '\\n' }}
{%- for key, value in call.function.arguments | items %}
{{- '<arg_key>' + key + '</arg_key>\\n<arg_value>' + (value if value is string else value | tojson) }}
{{- '</arg_value>\\n' }}
{%- endfor %}
{{- '</tool_call>' }}
{%- endfor %}
{%- else %}
{{- '<|' + message.role + '|>\\n' + message.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}
"""

HARMONY = """\
{{- '<|start|>system<|message|>Current date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}
{%- if messages[0].role == 'system' or tools %}
{{- '<|start|>developer<|message|>' }}
{%- if messages[0].role == 'system' %}
{{- messages[0].content }}
{%- set messages = messages[1:] %}
{%- endif %}
{%- for tool in tools or [] %}
{{- '\\n// ' + tool.function.description + '\\ntype ' + tool.function.name + ' = (_: ' }}
{{- tool.function.parameters | tojson + ') => any;' }}
{%- endfor %}
{{- '<|end|>' }}
{%- endif %}
{%- set last = namespace(name=none) %}
{%- for message in messages %}
{%- if message.tool_calls %}
{%- set last.name = message.tool_calls[0].function.name %}
{{- '<|start|>assistant<|channel|>commentary to=functions.' + last.name + '<|message|>' }}
{{- message.tool_calls[0].function.arguments | tojson + '<|call|>' }}
{%- elif message.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' + message.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- elif message.role == 'tool' %}
{%- if last.name is none %}{{- raise_exception('a result without a call') }}{%- endif %}
{{- '<|start|>functions.' + last.name + ' to=assistant<|message|>' + message.content | tojson + '<|end|>' }}
{%- else %}
{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}
"""

THINKING = (
    _CHATML_HEAD.replace("%HOW%", 'To call: <tool_call>{"name": …, "arguments": …}</tool_call>')
    + """\
{% set last = namespace(user=-1) %}
{% for message in messages if message.role == 'user' %}
{% set last.user = messages.index(message) %}
{% endfor %}
{% for message in messages %}
{% if message.role == 'tool' %}
"""
    + _CHATML_RESULT
    + """\
{% elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > last.user and (message.reasoning_content or loop.last) %}
{{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role != 'system' %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""
)

PHI = """\
{% for message in messages %}
<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% else %}
{{- eos_token -}}
{% endif %}
"""

SYSTEM_FIRST = """\
{%- for message in messages %}
{%- if message.role == 'system' and not loop.first %}{{- raise_exception('system goes first') }}{%- endif %}
{{- '<|' + message.role + '|>' + message.content + '<|sep|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}
"""

GRANITE = """\
{% for message in ([{'role': 'tools', 'content': tools | tojson}] if tools else []) + messages %}
<|start_of_role|>{{ message.role }}<|end_of_role|>{{ message.content }}<|end_of_text|>
{% endfor %}
{% if add_generation_prompt %}
{{- '<|start_of_role|>assistant<|end_of_role|>' }}
{%- endif %}
"""

COMMAND = """\
{{- bos_token }}
{%- if tools %}{{- '<|SYSTEM|>' + tools | tojson + '<|END|>' }}{%- endif %}
{%- set calls = namespace(made=0, answered=0) %}
{%- for message in messages %}
{%- if message.tool_calls %}
{{- '<|BOT|><|START_ACTION|>[' }}
{%- for call in message.tool_calls %}
{{- '{"tool_call_id": "' + calls.made | string + '", "name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + ('}' if loop.last else '}, ') }}
{%- set calls.made = calls.made + 1 %}
{%- endfor %}
{{- ']<|END_ACTION|><|END|>' }}
{%- elif message.role == 'tool' %}
{{- '<|TOOL|>{"tool_call_id": "' + calls.answered | string + '", "result": ' + message.content | tojson + '}<|END|>' }}
{%- set calls.answered = calls.answered + 1 %}
{%- else %}
{{- {'user': '<|USER|>', 'assistant': '<|BOT|>', 'system': '<|SYSTEM|>'}[message.role] + message.content + '<|END|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|BOT|>' }}{%- endif %}
"""


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
    Family("thinking", THINKING, JSON_CALLS, closers=_IM, has_calls=True, has_text_calls=True),
]
"""Families whose own render rewrites what was sent."""
