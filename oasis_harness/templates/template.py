"""A chat template in a locked jinja2 environment, byte-compatible with the one transformers renders in.

What differs from stock jinja2: blocks are trimmed, `{% break %}` and `{% generation %}` exist, `tojson` keeps key order
and escapes no HTML, `raise_exception` raises, `strftime_now` tells one frozen date or nothing, and nothing is random.
Facts: https://huggingface.co/docs/transformers/chat_templating
"""

import copy
import datetime
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser

from oasis_harness.canonical import canonical_json, digest
from oasis_harness.errors import TemplateFailed, TemplateRunaway

from .budget import Purse
from .frozen_date import format_date
from .sandbox import BoundedEnvironment

__all__ = ["USUAL_VARIABLES", "GenerationTag", "Message", "Shape", "Template", "text_of"]

Message: TypeAlias = dict[str, Any]
"""A chat message as templates know it: `role`, `content`, and for calls `tool_calls`."""


USUAL_VARIABLES: Mapping[str, str] = MappingProxyType(
    {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
)
"""The special tokens that a template file without its model is given."""


class Shape(NamedTuple):
    """The form in which a template wants what it is given, where that is not the usual one."""

    has_parts: bool = False
    """Contents are lists of parts, `[{"type": "text", "text": …}]`."""
    lists_no_tools: bool = False
    """No tools are an empty list."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that every render is given: such a template writes messages otherwise where there are none."""


class Words(Protocol):
    """What puts other words in place of those that a template is tried with, and back."""

    def hide(self, value: Any) -> Any:
        """Return what a template is given, in other words."""

    def show(self, text: str) -> str:
        """Return what it wrote, in the words of its caller."""


class Template:
    """A compiled chat template with its constant inputs. Rendering is a pure function of its arguments.

    `variables` are the special tokens it may print (`bos_token` ...); `arguments` are switches such as
    `enable_thinking`; `date` is what `strftime_now` tells, the same for the whole life of a conversation.

    Raises:
        TemplateFailed: The source does not compile.
    """

    def __init__(
        self,
        source: str,
        *,
        variables: Mapping[str, str] | None = None,
        arguments: Mapping[str, object] | None = None,
        date: datetime.date | None = None,
    ) -> None:
        self.source = source
        self.variables = dict(variables or {})
        self.arguments = dict(arguments or {})
        self.date = date
        self.shape = Shape()
        self._purse: Purse | None = None
        self._words: Words | None = None
        try:
            self._environment = _environment(date)
            self._compiled = self._environment.from_string(source)
        except Exception as error:  # noqa: BLE001 - the template is foreign code, and too deep for Python's own compiler
            raise TemplateFailed(
                f"the chat template does not compile: {error}.",
                remedy="Fetch the model again, or report its template.",
                reason=_words(error),
            ) from None

    def __repr__(self) -> str:
        return f"<Template {self.digest[:15]}, {len(self.source)} characters>"

    @property
    def digest(self) -> str:
        """Names the source and the special tokens it prints."""
        return digest(self.source.encode(), canonical_json(self.variables))

    def at(self, date: datetime.date | None) -> "Template":
        """Return the same template with another frozen date."""
        if "strftime_now" in self.source:
            other = Template(self.source, variables=self.variables, arguments=self.arguments, date=date)
            other.shape, other._purse, other._words = self.shape, self._purse, self._words
        else:
            other = copy.copy(self)  # shares what is compiled
            other.date = date
        return other

    def under(self, arguments: Mapping[str, object]) -> "Template":
        """Return the same template with `arguments` set besides its own."""
        other = copy.copy(self)  # shares what is compiled
        other.arguments = {**self.arguments, **arguments}
        return other

    def shaped(self, shape: Shape) -> "Template":
        """Return the same template, given what it renders in another form."""
        other = copy.copy(self)
        other.shape = shape
        return other

    def rationed(self, n_steps: int) -> "Template":
        """Return the same template, whose renders, and those of its copies, may take so many steps together."""
        other = copy.copy(self)
        other._purse = Purse(n_steps)
        return other

    def disguised(self, words: "Words") -> "Template":
        """Return the same template, which is given other words than its caller writes, and reads."""
        other = copy.copy(self)
        other._words = words
        return other

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), generation_prompt: bool = False
    ) -> str:
        """Render `messages`.

        Raises:
            TemplateRunaway: It takes more steps, or writes more, than `messages` and `tools` explain.
            TemplateFailed: The template raised; its `reason` has its own words.
        """
        some_tools = list(tools or self.shape.tools) or ([] if self.shape.lists_no_tools else None)
        some = [_in_parts(message) for message in messages] if self.shape.has_parts else messages
        given = {"messages": some, "tools": some_tools, "add_generation_prompt": generation_prompt}
        if self._words is not None:
            given = {name: self._words.hide(value) for name, value in given.items()}
        inputs = {"documents": None, **self.variables, **self.arguments, **given}
        try:
            text = self._environment.render(self._compiled, inputs, self._purse)
            text.encode()  # a template can write half a surrogate pair, which no prompt can carry
        except TemplateRunaway:
            raise
        except Exception as error:  # noqa: BLE001 - the template is foreign code
            raise TemplateFailed(
                f"the chat template refuses {[message['role'] for message in messages]}: {_words(error)}.",
                remedy="This sequence of roles cannot be sent to this model.",
                reason=_words(error),
            ) from None
        return self._words.show(text) if self._words is not None else text


def _in_parts(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, str):
        return message
    part = {"type": "text", "text": content}
    if message["role"] == "tool" and "name" in message:  # MiniMax-M1 reads it there
        part["name"] = message["name"]
    return {**message, "content": [part]}


def text_of(data: bytes) -> str:
    r"""Return recorded text as a string; a byte that is not UTF-8 becomes a visible `\xNN`."""
    return data.decode("utf-8", errors="backslashreplace")


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model said; for rendering it is only a scope."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def _environment(date: datetime.date | None) -> BoundedEnvironment:
    environment = BoundedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    del environment.filters["random"], environment.globals["lipsum"]

    def strftime_now(format: str) -> str:
        if date is None:
            _raise("it asks for the date, and no date was frozen")
        return format_date(date, format)

    environment.globals["strftime_now"] = strftime_now
    environment.seal()
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(reason: str) -> NoReturn:
    raise jinja2.TemplateError(reason)


def _words(error: Exception) -> str:
    return str(error)[:1000] or type(error).__name__
