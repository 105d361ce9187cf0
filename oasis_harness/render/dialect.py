"""A chat template with its certificate and its call syntax: how one model is spoken to.

Where a template knows no tools, or writes calls in a syntax nobody here can read, tools are listed in the system text,
and calls and results travel as text; where it knows no system message, the head stands before the first user's words.
All of it is decided once, by the certificate.
"""

import datetime
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.canonical import canonical_json
from oasis_harness.certify import Certificate, Kept, Switch, certify_template, result_message
from oasis_harness.conversation import Epoch, Head, ToolResults
from oasis_harness.replies import JSON_CALLS, CallSyntax, GivenIds, Parsed, left_open, parse_reply, reasoning_extent
from oasis_harness.templates import Message, Shape, Template, text_of

from .owned_text import OwnedText, joined, named, tool_owner
from .trace import schema_text

__all__ = ["Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one model is spoken to."""

    template: Template
    certificate: Certificate
    syntax: CallSyntax
    switch: Switch | None = None
    """The switch that was set, so that the template itself keeps what the model thought."""

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
        sets_switch: bool = True,
    ) -> "Dialect":
        """Certify the template `source` and choose how calls are written.

        `syntax` is the model family's own; it is used where the template knows tools. `stops` are the texts of the
        model's stop tokens. `date` is kept only where the template asks for one. Where the template drops what the
        model thought and has a switch against that, the switch is set, unless `arguments` sets it or `sets_switch` is
        false.

        Raises:
            TemplateFailed: The source does not compile.
            UnsupportedTemplate: It cannot be driven append-only.
        """
        template = Template(source, variables=variables, arguments=arguments, date=date)
        certificate = certify_template(template, syntax, stops=stops)
        switch = certificate.reasoning_form.switch if certificate.reasoning_form is not None and sets_switch else None
        if switch is not None:
            template = template.under({switch.name: switch.value})
            certificate = certify_template(template, syntax, stops=stops)
        if not certificate.uses_date:
            template = template.at(None)
        template = template.shaped(Shape(certificate.has_parts, certificate.lists_no_tools))
        return cls(template, certificate, _syntax(certificate, syntax), switch)

    @property
    def drops_reasoning(self) -> bool:
        """Whether the template would drop what the model thought; here it stays, unless a session says otherwise."""
        reasoning_form = self.certificate.reasoning_form
        return reasoning_form is not None and not reasoning_form.is_skipped and reasoning_form.kept is not Kept.ALWAYS

    def wraps_in_text(self, specials: Collection[str]) -> bool:
        """Whether `<tool_response>` marks around a result are text: ours always are, the template's may be tokens."""
        form = self.certificate.calls
        is_ours = form is None or not form.has_role
        return is_ours or ("tool_response" in self.template.source and "</tool_response>" not in specials)

    def closing(self, data: bytes, *, opener: bytes) -> bytes:
        """Return the words of the harness that close what the reply `data` left open, reasoning or a call.

        `opener` is the scaffold right before it (`Renderer.opener`), here and below.
        """
        reasoning_form = self.certificate.reasoning_form
        closer = reasoning_form.closer if reasoning_form is not None else ""
        return left_open(data, self.syntax, generation_prompt=text_of(opener), reasoning_closer=closer).encode()

    def reasoning_extent(self, data: bytes, *, opener: bytes) -> tuple[int, int]:
        """Return how many last bytes of `opener` open reasoning, and how many of the reply `data` belong to it."""
        return reasoning_extent(data, self.syntax, generation_prompt=text_of(opener))

    def epoch(self, tokenizer: str) -> Epoch:
        """Return the binding of an epoch sent in this dialect and through the tokenizer of that digest."""
        arguments = dict(self.template.arguments)
        if self.template.date is not None:
            arguments["date"] = self.template.date.isoformat()
        return Epoch(self.template.digest, canonical_json(arguments).decode(), tokenizer)

    def first_messages(self, head: Head, text: str) -> tuple[list[Message], list[dict[str, Any]]]:
        """Return (messages, tools) of the first prompt: the head and the first user's words.

        A content that is put together of several texts is `OwnedText`, a string that knows whose they are.
        """
        tools = [json.loads(tool) for tool in head.tools]
        in_system = tools if self.certificate.calls is None else []
        system_text = named("head/system", text_of(head.system))
        system = joined("\n\n", filter(None, [system_text, self.tool_section(in_system), _skill_section(head)]))
        is_asked_for = self.certificate.tools_need_system and bool(tools) and not in_system
        if not system and not is_asked_for:
            messages = [_user(text)]
        elif self.certificate.has_system:
            messages = [{"role": "system", "content": system}, _user(text)]
        else:
            messages = [_user(joined("\n\n", [system, text]))]
        return messages, [] if in_system else tools

    def result_messages(self, event: ToolResults, note: str, *, index: int) -> list[Message]:
        """Return the messages of all results of one reply, event `index`; `note` rides inside the last."""
        contents = [named(f"event {index} result[{n}]", text_of(one.content)) for n, one in enumerate(event.results)]
        if note:
            contents[-1] = joined("\n\n", [contents[-1], note])
        if self.certificate.calls is not None and self.certificate.calls.has_role:
            return [
                result_message(result.call_id, result.name, content)
                for result, content in zip(event.results, contents, strict=True)
            ]
        wrapped = [joined("", ["<tool_response>\n", content, "\n</tool_response>"]) for content in contents]
        return [_user(joined("\n", wrapped))]

    def marks_among(self, specials: Collection[str]) -> tuple[str, ...]:
        """Return the marks of a reply that are tokens of their own, and so are no marks where they are only spelled."""
        return self.syntax.marks_among(specials)

    def parse(self, data: bytes, index: int, tools: Sequence[bytes] = (), *, opener: bytes | None = None) -> Parsed:
        """Return the parts of a reply, event `index` of its conversation.

        Without an `opener`, a user turn is taken to have been before it.
        """
        form = self.certificate.calls
        return parse_reply(
            data,
            self.syntax,
            index=index,
            tools=[json.loads(tool) for tool in tools],
            generation_prompt=self.certificate.generation_prompt if opener is None else text_of(opener),
            given_ids=form.given_ids if form else GivenIds.NONE,
        )

    def added_tools_text(self, tools: Sequence[bytes], *, index: int = 0) -> OwnedText:
        """Return the words that show tools that arrived after the head was sent, which may have named none.

        They came with event `index`.
        """
        how = f"\n\n{self._how_to_call()}" if self.syntax.is_json else ""
        lines = _lines(map(json.loads, tools), f"event {index} ")
        return joined("", ["You can now also call these functions:\n", lines, how])

    def tool_section(self, tools: Sequence[Mapping[str, Any]]) -> OwnedText:
        """Return the words that list `tools` in a system text, where the template prints none; empty without any."""
        if not tools:
            return joined("", [])
        how = f"\n\n{self._how_to_call()}"
        return joined("", ["# Tools\n\nYou can call these functions:\n", _lines(tools, "head/"), how])

    def _how_to_call(self) -> str:
        return (
            "To call one, answer with\n"
            f'{self.syntax.opener}{{"name": <name>, "arguments": <arguments>}}{self.syntax.closer}\n'
            "and wait for its result."
        )


def _syntax(certificate: Certificate, known: CallSyntax | None) -> CallSyntax:
    """Return how calls are written: as the family does where the template takes part in it, else in words of ours."""
    form = certificate.calls
    if form is not None and certificate.layout is not None:
        return CallSyntax.of_layout(certificate.layout)
    return replace((form and known) or JSON_CALLS, is_json=form is None or form.is_json)


def _lines(tools: Iterable[Mapping[str, Any]], prefix: str) -> OwnedText:
    return joined("\n", [schema_text(tool["function"], tool_owner(tool, prefix)) for tool in tools])


def _skill_section(head: Head) -> OwnedText:
    if not head.skills:
        return joined("", [])
    lines = [text_of(line) for line in head.skills]
    shown = [joined("", ["- ", named(f"head/skill[{line.partition(':')[0]}]", line)]) for line in lines]
    intro = "# Skills\n\nRead one with load_skill before work it is made for:\n"
    return joined("", [intro, joined("\n", shown)])


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
