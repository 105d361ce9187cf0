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

CHATML_HEAD = """\
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

CHATML_RESULT = """\
{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}
{{- '<|im_start|>user' }}
{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
{{- '<|im_end|>\\n' }}
{%- endif %}
"""

CHATML_TOOLS = (
    CHATML_HEAD.replace("%HOW%", 'To call: <tool_call>{"name": …, "arguments": …}</tool_call>')
    + """\
{% for message in messages %}
{% if message.role == 'tool' %}
"""
    + CHATML_RESULT
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
    CHATML_HEAD.replace("%HOW%", "To call: <tool_call><function=name><parameter=key>value</parameter></function>")
    + """\
{% for message in messages %}
{% if message.role == 'tool' %}
"""
    + CHATML_RESULT
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

LAST_USER = """\
{%- set last = namespace(user=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}{%- set last.user = loop.index0 %}{%- endif %}
{%- endfor %}
"""

GEMMA_TALK_LATER = """\
{{- bos_token }}
{%- for tool in tools or [] %}{{- '<|tool>' + tool | tojson + '<tool|>' }}{%- endfor %}
{%- set calls = namespace(made=[], beside='') %}
{%- for message in messages %}
{%- set before = messages[loop.index0 - 1].role if not loop.first else '' %}
{%- set after = messages[loop.index0 + 1].role if not loop.last else '' %}
{%- if message.role == 'assistant' %}
{%- if before != 'tool' %}{{- '<|turn>model\\n' }}{%- endif %}
{%- if message.tool_calls %}
{%- set calls.made = message.tool_calls %}
{%- set calls.beside = message.content or '' %}
{%- for call in calls.made if call.function.arguments is mapping %}
{{- '<|tool_call>call:' + call.function.name + '{' }}
{%- for key, value in call.function.arguments | items %}
{{- key + ':<|"|>' + value | string + '<|"|>' + ('' if loop.last else ',') }}
{%- endfor %}
{{- '}<tool_call|>' }}
{%- endfor %}
{%- if after != 'tool' %}{{- calls.beside }}{%- endif %}
{%- else %}
{{- (message.content or '') | trim + '<turn|>\\n' }}
{%- endif %}
{%- elif message.role == 'tool' %}
{%- set found = calls.made | selectattr('id', 'equalto', message.tool_call_id) | first %}
{{- '<|tool_response>response:' + found.function.name + '{value:<|"|>' + message.content + '<|"|>}<tool_response|>' }}
{%- if after != 'tool' %}{{- calls.beside }}{%- endif %}
{%- else %}
{{- ('<turn|>\\n' if before == 'tool' else '') + '<|turn>' + message.role + '\\n' + message.content | trim }}
{{- '<turn|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt and messages[-1].role != 'tool' %}{{- '<|turn>model\\n' }}{%- endif %}
"""

PYTHONIC = """\
{%- for message in ([{'role': 'tools', 'content': tools | tojson}] if tools else []) + messages %}
{{- '<|header|>' + ('ipython' if message.role == 'tool' else message.role) + '<|/header|>' }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
{{- '<|python|>' + {'name': call.function.name, 'arguments': call.function.arguments} | string + '<|/python|>' }}
{%- endfor %}
{%- endif %}
{{- message.content + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|header|>assistant<|/header|>' }}{%- endif %}
"""

LONGCAT = """\
{%- if tools %}{{- 'TOOLS:' + tools | tojson + '\\n' }}{%- endif %}
{%- set round = namespace(number=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{%- set round.number = round.number + 1 %}
{{- '[Round ' + round.number | string + '] USER:' + message.content }}
{%- elif message.role == 'assistant' %}
{{- ' ASSISTANT:' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<longcat_call>' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
{{- '</longcat_call>' }}
{%- endfor %}
{{- '</longcat_s>' }}
{%- elif message.role == 'tool' %}
{{- '[Round ' + round.number | string + '] TOOL:' + message.content }}
{%- elif loop.first %}
{{- 'SYSTEM:' + message.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- ' ASSISTANT:' }}{%- endif %}
"""

APRIEL = """\
{%- if tools %}{{- '<|tools|>\\n' + tools | tojson + '\\n' }}{%- endif %}
{%- for message in messages %}
{{- '<|' + message.role + '|>\\n' + message.content }}
{%- if message.tool_calls %}
{%- set is_answered = not loop.last %}
{{- '\\n<calls>[' }}
{%- for call in message.tool_calls %}
{{- '{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- (', "id": "' + call.id + '"' if is_answered else '') + ('}' if loop.last else '}, ') }}
{%- endfor %}
{{- ']</calls>' }}
{%- endif %}
{{- '\\n<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}
"""

HOISTING = """\
{%- for message in messages if message.role == 'system' %}{{- '<sys>' + message.content + '</sys>' }}{%- endfor %}
{%- for message in messages if message.role in ('user', 'assistant') %}
{%- if message.content is none %}{{- raise_exception('content is missing') }}{%- endif %}
{{- '<' + message.role + '>' + message.content + '</s>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}
"""

HERMES = CHATML_TOOLS.replace(
    "{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}",
    "{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' + ('' if loop.last else '\\n') }}",
)

KIMI = """\
{%- if tools %}{{- '<|im_system|>tool_declare<|im_middle|>' + tools | tojson + '<|im_end|>' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_system|>' + message.name + '<|im_middle|>## Return of ' + message.tool_call_id + '\\n' + message.content }}
{%- else %}
{{- '<|im_' + message.role + '|>' + message.role + '<|im_middle|>' }}
{%- if message.content is not none %}{{- '<|text|>' + message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- ('<|calls|>' if loop.first else '') + '<|call|>' + call.function.name + ':' + call.id + '<|args|>' }}
{{- call.function.arguments | tojson + '<|/call|>' + ('<|/calls|>' if loop.last else '') }}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_assistant|>assistant<|im_middle|>' }}{%- endif %}
"""

AYA = """\
{%- if tools %}{{- '<|tools|>' + tools | tojson }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' and not loop.first and messages[loop.index0 - 1].role in ('user', 'tool') %}
{{- raise_exception('a user speaks after an answer') }}
{%- endif %}
{{- '<|' + message.role + '|>' }}
{%- for call in message.tool_calls or [] %}
{{- '<|action|>' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson + '<|/action|>' }}
{%- endfor %}
{{- (message.content or '') + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}
"""

SYSTEM_LAST = (
    "{%- set system = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}\n"
    + LAST_USER
    + """\
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'user' %}
{{- '[INST]' + (system if loop.index0 == last.user else '') + message.content + '[/INST]' }}
{%- elif message.role == 'assistant' %}
{{- message.content + eos_token }}
{%- endif %}
{%- endfor %}
"""
)
