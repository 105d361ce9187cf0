"""Small chat templates of models that think, each in the style of a family; those that do not are in `templates`."""

from .templates import CHATML_HEAD, CHATML_RESULT, GLM, HARMONY, LAST_USER

THINKING = (
    CHATML_HEAD.replace("%HOW%", 'To call: <tool_call>{"name": …, "arguments": …}</tool_call>')
    + """\
{% set last = namespace(user=-1) %}
{% for message in messages %}
{% if message.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}
{% endfor %}
{% for message in messages %}
{% if message.role == 'tool' %}
"""
    + CHATML_RESULT
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

_CHATML_CALLS = """\
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role != 'system' or not loop.first %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
"""

_CHATML_JSON_HEAD = CHATML_HEAD.replace("%HOW%", 'To call: <tool_call>{"name": …, "arguments": …}</tool_call>')

DEEPSEEK = """\
{%- set head = namespace(text='') %}
{%- for message in messages if message.role == 'system' %}
{%- set head.text = head.text + message.content %}
{%- endfor %}
{{- bos_token + head.text }}
{%- for tool in tools or [] %}{{- '\\n* ' + tool | tojson }}{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{- '<|User|>' + message.content }}
{%- elif message.role == 'assistant' %}
{{- '<|Assistant|>' + (message.content or '').split('</think>')[-1] }}
{%- for call in message.tool_calls or [] %}
{{- ('<|calls|>' if loop.first else '') + '<|call|>' + call.function.name + '<|sep|>' + call.function.arguments }}
{{- '<|/call|>' + ('<|/calls|>' if loop.last else '') }}
{%- endfor %}
{{- '<|eos|>' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|outputs|>' }}{%- endif %}
{{- '<|output|>' + message.content + '<|/output|>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|/outputs|>' }}{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|Assistant|><think>\\n' }}{%- endif %}
"""

QWQ = (
    _CHATML_JSON_HEAD
    + "{%- for message in messages %}\n{%- if message.role == 'tool' %}\n"
    + CHATML_RESULT
    + """\
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + message.content.split('</think>')[-1].lstrip('\\n') }}
"""
    + _CHATML_CALLS
    + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}\n"
)

KEEPING = (
    _CHATML_JSON_HEAD
    + LAST_USER
    + "{%- for message in messages %}\n{%- if message.role == 'tool' %}\n"
    + CHATML_RESULT
    + """\
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > last.user or preserve_thinking %}
{{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' }}
{%- endif %}
{{- (message.content or '') | trim }}
"""
    + _CHATML_CALLS
    + """\
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""
)

GLM_THINKING = (
    GLM.replace("{{- '[gMASK]<sop>' }}\n", "{{- '[gMASK]<sop>' }}\n" + LAST_USER)
    .replace(
        "{{- '<|assistant|>\\n' + message.content.strip() }}",
        """\
{{- '<|assistant|>' }}
{%- if message.reasoning_content and (loop.index0 > last.user or (clear_thinking is defined and not clear_thinking)) %}
{{- '<think>' + message.reasoning_content }}
{%- endif %}
{{- '</think>' + message.content.strip() }}""",
    )
    .replace(
        "{{- '<|assistant|>\\n' }}{%- endif %}",
        "{{- '<|assistant|>' + ('<think>' if enable_thinking | default(true) else '</think>') }}{%- endif %}",
    )
)

SOLAR = (
    LAST_USER
    + """\
{%- if tools %}{{- '<|begin|>tools<|content|>' + tools | tojson + '<|end|>' }}{%- endif %}
{%- set calls = namespace(made=[]) %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|begin|>assistant' }}
{%- if message.reasoning and (loop.index0 > last.user or think_render_option == 'all') %}
{{- '<|think|>' + message.reasoning + '<|end|><|begin|>assistant' }}
{%- endif %}
{%- if message.tool_calls %}
{%- set calls.made = message.tool_calls %}
{%- for call in calls.made %}
{{- '<|call|>' + call.function.name + '<|args|>' + call.function.arguments | tojson + '<|/call|>' }}
{%- endfor %}
{{- '<|calls|>' }}
{%- else %}
{{- '<|content|>' + message.content + '<|end|>' }}
{%- endif %}
{%- elif message.role == 'tool' %}
{%- set found = calls.made | selectattr('id', 'equalto', message.tool_call_id) | first %}
{{- '<|begin|>tool<|name|>' + found.function.name + '<|content|>' + message.content + '<|end|>' }}
{%- else %}
{{- '<|begin|>' + message.role + '<|content|>' + message.content + '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|begin|>assistant' }}{%- endif %}
"""
)

MINIMAX = (
    LAST_USER
    + """\
{{- ']~!b[' }}
{%- for tool in tools or [] %}{{- '<tool>' + tool | tojson + '</tool>' }}{%- endfor %}
{%- set calls = namespace(made=false) %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- if message.tool_calls %}{%- set calls.made = true %}{%- endif %}
{{- ']~b]ai\\n' }}
{%- if message.reasoning_content and loop.index0 > last.user %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- ('\\n<minimax>\\n' if loop.first else '') + '<invoke name="' + call.function.name + '">' }}
{%- for key, value in call.function.arguments | items %}
{{- '<parameter name="' + key + '">' + (value if value is string else value | tojson) + '</parameter>' }}
{%- endfor %}
{{- '</invoke>\\n' + ('</minimax>' if loop.last else '') }}
{%- endfor %}
{{- '[e~[\\n' }}
{%- elif message.role == 'tool' %}
{%- if not calls.made %}{{- raise_exception('a result without any call') }}{%- endif %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{- ']~b]tool' }}{%- endif %}
{{- '\\n<response>' + message.content + '</response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '[e~[\\n' }}{%- endif %}
{%- else %}
{{- ']~b]' + message.role + '\\n' + message.content + '[e~[\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- ']~b]ai\\n<think>\\n' }}{%- endif %}
"""
)

NEMOTRON = (
    LAST_USER
    + """\
{{- '<|im_start|>system\\n' + (messages[0].content if messages[0].role == 'system' else '') }}
{%- for tool in tools or [] %}{{- '\\n' + tool | tojson }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
{%- if message.role == 'tool' %}
"""
    + CHATML_RESULT
    + """\
{%- elif message.role == 'assistant' %}
{%- set keeps = loop.index0 > last.user or (truncate_history_thinking is defined and not truncate_history_thinking) %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content and keeps %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n' }}
{%- else %}
{{- '<think></think>' }}
{%- endif %}
{{- message.content }}
"""
    + _CHATML_CALLS
    + """\
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>' + ('\\n' if enable_thinking | default(true) else '</think>') }}
{%- endif %}
"""
)

OSS = HARMONY.replace("last.name", "called.name").replace(
    "{%- set last = namespace(name=none) %}\n", "{%- set called = namespace(name=none) %}\n" + LAST_USER
)
OSS = OSS.replace(
    "{%- if message.tool_calls %}\n",
    """\
{%- if message.thinking and loop.index0 > last.user %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}
{%- endif %}
{%- if message.tool_calls %}
""",
)

SEED = """\
{%- for message in ([{'role': 'system', 'content': tools | tojson}] if tools else []) + messages %}
{{- bos_token + message.role + '\\n' }}
{%- if message.reasoning_content %}
{{- '<seed:think>' + message.reasoning_content + '</seed:think>' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<seed:call>' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
{{- '</seed:call>' }}
{%- endfor %}
{{- eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}{{- bos_token + 'assistant\\n' }}{%- endif %}
"""
