"""A chat template in a locked jinja2 environment, byte-compatible with the one transformers renders in.

What differs from stock jinja2: blocks are trimmed, `{% break %}` and `{% generation %}` exist, `tojson` keeps key order
and escapes no HTML, `raise_exception` raises, `strftime_now` tells one frozen date or nothing, and nothing is random.
Facts: https://huggingface.co/docs/transformers/chat_templating
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from oasis_harness.canonical import canonical_json, digest
from oasis_harness.errors import TemplateFailed

from .date import format_date

__all__ = ["Message", "Template", "text_of"]

Message: TypeAlias = dict[str, Any]
"""A chat message as templates know it: `role`, `content`, and for calls `tool_calls`."""


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
        try:
            self._compiled = _environment(date).from_string(source)
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
        return Template(self.source, variables=self.variables, arguments=self.arguments, date=date)

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), generation_prompt: bool = False
    ) -> str:
        """Render `messages`.

        Raises:
            TemplateFailed: The template raised; `values["reason"]` has its own words.
        """
        try:
            text = self._compiled.render(
                messages=messages,
                tools=list(tools) or None,
                add_generation_prompt=generation_prompt,
                **{"documents": None, **self.variables, **self.arguments},
            )
            text.encode()  # a template can write half a surrogate pair, which no prompt can carry
        except Exception as error:  # noqa: BLE001 - the template is foreign code
            raise TemplateFailed(
                f"the chat template refuses {[message['role'] for message in messages]}: {_words(error)}.",
                remedy="This sequence of roles cannot be sent to this model.",
                reason=_words(error),
            ) from None
        return text


def text_of(data: bytes) -> str:
    r"""Return recorded text as a string; a byte that is not UTF-8 becomes a visible `\xNN`."""
    return data.decode("utf-8", errors="backslashreplace")


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model said; for rendering it is only a scope."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def _environment(date: datetime.date | None) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    del environment.filters["random"], environment.globals["lipsum"]

    def strftime_now(format: str) -> str:
        if date is None:
            _raise("it asks for the date, and no date was frozen")
        return format_date(date, format)

    environment.globals["strftime_now"] = strftime_now
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
    return str(error) or type(error).__name__
