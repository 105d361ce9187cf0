"""Small templates that write calls as published ones do, each in a form of its own."""

from dataclasses import dataclass

__all__ = ["SHAPES", "Shape"]

_FRAME = (
    "{%%- if tools %%}<|system|>{{ tools | tojson }}<|end|>{%%- endif %%}"
    "{%%- for m in messages %%}"
    "{%%- if m.role == 'assistant' %%}{{ '<|assistant|>' + m.content }}"
    "{%%- if m.tool_calls %%}%s{%%- endif %%}{{- '<|end|>' }}"
    "{%%- else %%}{{- '<|' + m.role + '|>' + m.content + '<|end|>' }}{%%- endif %%}"
    "{%%- endfor %%}"
    "{%%- if add_generation_prompt %%}{{- '<|assistant|>' }}{%%- endif %%}"
)
_EACH = "{%%- for c in m.tool_calls %%}{%%- set f = c.function %%}%s{%%- endfor %%}"
_COMMA = "{{- ', ' if not loop.last }}"
_VALUE = "{{- v if v is string else v | tojson }}"


@dataclass(frozen=True)
class Shape:
    """One way of writing calls."""

    name: str
    source: str
    is_exact: bool = True
    """Any text can stand in its arguments; else one that ends an element ends the value."""
    n_calls: int = 2


def _shape(
    name: str, each: str, before: str = "", after: str = "", *, n_calls: int = 2, is_exact: bool = True
) -> Shape:
    loop = (_EACH % each) if n_calls > 1 else "{%- set c = m.tool_calls[0] %}{%- set f = c.function %}" + each
    opened, closed = (f"{{{{- {text!r} }}}}" if text else "" for text in (before, after))
    return Shape(name, _FRAME % (opened + loop + closed), is_exact, n_calls)


def _elements(begin: str, end: str, parameter: str) -> str:
    return f"{begin}{{%- for k, v in f.arguments.items() %}}{parameter}{{%- endfor %}}{end}"


_JSON = """{{- '{"%s": "' + f.name + '", "%s": ' + f.arguments | tojson + '}' }}"""
SHAPES = [
    _shape("one object, and nothing else", _JSON % ("name", "parameters"), n_calls=1),
    _shape("a list, and nothing else", _JSON % ("name", "arguments") + _COMMA, "[", "]"),
    _shape("a marked list", _JSON % ("tool_name", "parameters") + _COMMA, "<|START_ACTION|>[", "]<|END_ACTION|>"),
    _shape("objects without a closer", "{{- '<|call|>' }}" + _JSON % ("name", "arguments")),
    _shape(
        "the name as the key",
        """{{- '{"' + f.name + '": ' + f.arguments | tojson + '}' }}""" + _COMMA,
        "<|p|>[",
        "]<|s|>",
    ),
    _shape(
        "a nested function",
        "{{- '<call>' + {'id': c.id, 'type': 'function', 'function': {'name': f.name, 'arguments': f.arguments}}"
        " | tojson + '</call>' }}",
    ),
    _shape("a function's tag", "{{- '<function=' + f.name + '>' + f.arguments | tojson + '</function>' }}"),
    _shape(
        "a fenced object",
        "{{- '<tool_call>' + f.name + '\\n```json\\n' + f.arguments | tojson + '\\n```</tool_call>' }}",
        "<tool_calls>",
        "</tool_calls>",
    ),
    _shape(
        "an object after an id and a name",
        "{{- '<|c:begin|>' + c.id + '<|c:name|>' + f.name + '<|c:args|>' + f.arguments | tojson + '<|c:end|>' }}",
        "<|calls|>",
        "<|/calls|>",
    ),
    _shape(
        "harmony",
        "{{- ' to=functions.' + f.name + '<|channel|>commentary json<|message|>' + f.arguments | tojson }}",
        n_calls=1,
    ),
    _shape(
        "keywords",
        "{{- f.name + '(' }}{%- for k, v in f.arguments.items() %}{{- k + '=' + v | tojson }}"
        + _COMMA
        + "{%- endfor %}{{- ')' }}{{- '\\n' if not loop.last }}",
        "<function_calls>",
        "</function_calls>",
    ),
    _shape(
        "elements",
        _elements(
            "{{- '<seed:call>\\n<function=' + f.name + '>\\n' }}",
            "{{- '</function>\\n</seed:call>' }}",
            "{{- '<parameter=' + k + '>' }}" + _VALUE + "{{- '</parameter>\\n' }}",
        ),
        is_exact=False,
    ),
    _shape(
        "elements that say what is text",
        _elements(
            """{{- '<D_invoke name="' + f.name + '">\\n' }}""",
            "{{- '</D_invoke>\\n' }}",
            """{{- '<D_parameter name="' + k + '" string="' + ('true' if v is string else 'false') + '">' }}"""
            + _VALUE
            + "{{- '</D_parameter>\\n' }}",
        ),
        "\n\n<D_calls>\n",
        "</D_calls>",
        is_exact=False,
    ),
]
