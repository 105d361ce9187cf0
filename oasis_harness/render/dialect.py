"""A chat template with its certificate and its call syntax: how one model is spoken to.

Where a template knows no tools, or writes calls in a syntax nobody here can read, tools are listed in the system text,
and calls and results travel as text; where it knows no system message, the head stands before the first user's words.
All of it is decided once, by the certificate.
"""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oasis_harness.canonical import canonical_json
from oasis_harness.conversation import Epoch, Head, ToolResults

from .base import result_message
from .certify import Certificate, certify
from .parse import JSON_CALLS, CallSyntax, GivenIds, Parsed, parse
from .template import Message, Template, text_of

__all__ = ["Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one model is spoken to."""

    template: Template
    certificate: Certificate
    syntax: CallSyntax
    is_json: bool
    """Whether a call between its marks is `{"name": …, "arguments": …}`."""

    @classmethod
    def compose(
        cls,
        source: str,
        *,
        variables: Mapping[str, str] | None = None,
        arguments: Mapping[str, object] | None = None,
        date: datetime.date | None = None,
        syntax: CallSyntax | None = None,
        stops: Sequence[str] = (),
    ) -> "Dialect":
        """Certify the template `source` and choose how calls are written.

        `syntax` is the model family's own; it is used where the template knows tools. `stops` are the texts of the
        model's stop tokens. `date` is kept only where the template asks for one.

        Raises:
            TemplateFailed: The source does not compile.
            UnsupportedTemplate: It cannot be driven append-only.
        """
        template = Template(source, variables=variables, arguments=arguments, date=date)
        certificate = certify(template, syntax, stops=stops)
        if not certificate.uses_date:
            template = template.at(None)
        form = certificate.calls
        return cls(template, certificate, (form and syntax) or JSON_CALLS, form is None or form.is_json)

    def epoch(self, tokenizer: str) -> Epoch:
        """Return the binding of an epoch sent in this dialect and through the tokenizer of that digest."""
        arguments = dict(self.template.arguments)
        if self.template.date is not None:
            arguments["date"] = self.template.date.isoformat()
        return Epoch(self.template.digest, canonical_json(arguments).decode(), tokenizer)

    def first_messages(self, head: Head, text: str) -> tuple[list[Message], list[dict[str, Any]]]:
        """Return (messages, tools) of the first prompt: the head and the first user's words."""
        tools = [json.loads(tool) for tool in head.tools]
        in_system = tools if self.certificate.calls is None else []
        system = "\n\n".join(filter(None, [text_of(head.system), self._tool_section(in_system), _skill_section(head)]))
        if not system:
            messages = [_user(text)]
        elif self.certificate.has_system:
            messages = [{"role": "system", "content": system}, _user(text)]
        else:
            messages = [_user(f"{system}\n\n{text}")]
        return messages, [] if in_system else tools

    def result_messages(self, event: ToolResults, note: str) -> list[Message]:
        """Return the messages of all results of one reply; `note` rides inside the last."""
        contents = [text_of(result.content) for result in event.results]
        if note:
            contents[-1] = f"{contents[-1]}\n\n{note}"
        if self.certificate.calls is not None and self.certificate.calls.has_role:
            return [
                result_message(result.call_id, result.name, content)
                for result, content in zip(event.results, contents, strict=True)
            ]
        return [_user("\n".join(f"<tool_response>\n{content}\n</tool_response>" for content in contents))]

    def parse(self, data: bytes, index: int, tools: Sequence[bytes] = (), *, before: bytes | None = None) -> Parsed:
        """Return the parts of a reply, event `index` of its conversation.

        `before` is what was sent right before it; without it, a user turn is taken to have been.
        """
        form = self.certificate.calls
        return parse(
            data,
            self.syntax,
            index=index,
            tools=[json.loads(tool) for tool in tools],
            generation_prompt=self.certificate.generation_prompt if before is None else text_of(before[-200:]),
            given_ids=form.given_ids if form else GivenIds.NONE,
        )

    def added_tools_text(self, tools: Sequence[bytes]) -> str:
        """Return the words that show tools that arrived after the head was sent, which may have named none."""
        how = f"\n\n{self._how_to_call()}" if self.is_json else ""
        return f"You can now also call these functions:\n{_lines(map(json.loads, tools))}{how}"

    def _tool_section(self, tools: Sequence[Mapping[str, Any]]) -> str:
        if not tools:
            return ""
        return f"# Tools\n\nYou can call these functions:\n{_lines(tools)}\n\n{self._how_to_call()}"

    def _how_to_call(self) -> str:
        return (
            "To call one, answer with\n"
            f'{self.syntax.opener}{{"name": <name>, "arguments": <arguments>}}{self.syntax.closer}\n'
            "and wait for its result."
        )


def _lines(tools: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)


def _skill_section(head: Head) -> str:
    if not head.skills:
        return ""
    lines = "\n".join(f"- {text_of(line)}" for line in head.skills)
    return f"# Skills\n\nRead one with load_skill before work it is made for:\n{lines}"


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
