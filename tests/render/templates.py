"""Small chat templates, each in the style of a family.

They are written for these tests: short, and with the family's one trap kept.
"""

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
{%- set last = namespace(user=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}{%- set last.user = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- if tools and loop.index0 == last.user %}
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
{% for message in messages %}
{% if message.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}
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
