"""Random conversations, and two ways to render one: by deltas, and by the template's own render of the whole list."""

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st

from oasis_harness.conversation import Conversation, Epoch, Event, Head, Note, Reply, ToolResult, ToolResults, User
from oasis_harness.render import Delta, Dialect, Message, Renderer

from .families import VARIABLES, Family

DATE = datetime.date(2025, 3, 9)
EPOCH = Epoch("template", "{}", "tokenizer")

_NASTY = [
    *("<|im_end|>", "<|im_start|>system\n", "<tool_call>", "</tool_call>", "<tool_response>", "</think>", "<think>"),
    *("{{ 7 * 7 }}", "{% raise %}", "[INST]", "[/INST]", "</s>", "<|end|>", "<|eot_id|>", "<|call|>", "<|END|>"),
    *("oasisSENTINEL0f9d1b", "Z0oasis", "Z1oasis", "oasisFIRST", "oasisRESULT81e4", "dummy", "\ue000", "\ue001"),
    *("\n", "\r\n", "  ", "\t", "\u2028", "\x85", "\\", '"', "'", "\\n", "&lt;", "é", "日本", "🙂", "\u0301", "\x00"),
]
texts = st.lists(st.sampled_from(_NASTY) | st.text(max_size=5), max_size=6).map("".join)
"""What people type and tools print: template syntax, marks, special tokens, white space at both ends."""

names = st.sampled_from(["read_file", "shell", "a"])
arguments = st.dictionaries(st.sampled_from(["path", "text", "n", "zeta"]), texts | st.integers() | st.booleans())


@dataclass(frozen=True)
class Step:
    """What happened after a prompt: the model's answer or calls, what came back, and what the harness noted before."""

    said: str
    calls: Sequence[tuple[str, dict[str, Any]]]
    """(name, arguments) each; without any, `said` was an answer, and `back` has the next user's words."""
    back: Sequence[str]
    notes: Sequence[str] = ()
    reasoning: str = ""


@dataclass(frozen=True)
class Talk:
    """A conversation that ends with a prompt."""

    system: str
    tools: Sequence[dict[str, Any]]
    user: str
    steps: Sequence[Step] = field(default_factory=list)

    def head(self) -> Head:
        return Head(EPOCH, self.system.encode(), tuple(json.dumps(tool).encode() for tool in self.tools))


def tool(name: str, description: str = "Does it.") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": description}}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


@st.composite
def steps(draw: st.DrawFn, family: Family, texts: st.SearchStrategy[str] = texts) -> Step:
    calls = []
    if family.has_calls and draw(st.booleans()):
        calls = draw(st.lists(st.tuples(names, arguments), min_size=1, max_size=family.n_calls))
    back = draw(st.lists(texts, min_size=len(calls) or 1, max_size=len(calls) or 1))
    is_silent = bool(calls) and not family.has_text_calls
    reasoning = draw(texts) if family.thinks else ""
    return Step("" if is_silent else draw(texts), calls, back, draw(st.lists(texts, max_size=2)), reasoning)


@st.composite
def talks(draw: st.DrawFn, family: Family, texts: st.SearchStrategy[str] = texts) -> Talk:
    return Talk(
        system=draw(texts),
        tools=[tool(name, draw(texts)) for name in draw(st.lists(names, unique=True, max_size=2))],
        user=draw(texts),
        steps=draw(st.lists(steps(family, texts), max_size=5)),
    )


@cache
def dialect(family: Family, **arguments: object) -> Dialect:
    return Dialect.compose(
        family.source,
        variables=VARIABLES,
        arguments=arguments,
        syntax=family.syntax,
        stops=family.stops,
        date=DATE,
    )


class Driver:
    """Plays a talk into a conversation: `sent` is the prompt as it grows, `messages` what a template would be given."""

    def __init__(self, spoken: Dialect, family: Family, talk: Talk) -> None:
        self.dialect, self.family = spoken, family
        self.renderer = Renderer(spoken)
        self.conversation = Conversation(talk.head())
        self.messages, self.tools = spoken.first_messages(talk.head(), talk.user)
        self.sent = b""
        self.turns: list[tuple[Delta, list[str]]] = []
        """The deltas that sent bytes, each with the texts that were authored for it."""
        self._append(User(talk.user.encode()), [*self.messages, *(one["function"] for one in self.tools)])
        for step in talk.steps:
            self._play(step)

    def own_render(self, messages: Sequence[Message] | None = None, *, generation_prompt: bool = True) -> str:
        some = self.messages if messages is None else messages
        return self.dialect.template.render(some, tools=self.tools, generation_prompt=generation_prompt)

    def sampled(self, message: Message) -> str:
        """Return what the template itself prints for the assistant's `message` here, without its closer."""
        before, after = self.own_render(), self.own_render([*self.messages, message], generation_prompt=False)
        assert after.startswith(before)
        for closer in self.family.closers:
            if after.endswith(closer):
                return after.removesuffix(closer)[len(before) :]
        return after[len(before) :]

    def _play(self, step: Step) -> None:
        number = len(self.messages)
        calls = [(f"call{number:03d}{n:02d}", name, given) for n, (name, given) in enumerate(step.calls)]
        message = _assistant(step.said, calls)
        if step.reasoning:
            message["reasoning_content"] = step.reasoning
        data = self.sampled(message).encode()
        self.conversation.append(Reply(data, "stop", "auto", 0), data)
        self.messages.append(message)
        self.sent += data
        for note in step.notes:
            self.conversation.append(Note(note.encode()))
        noted = "\n\n".join(step.notes)
        if not calls:
            new = [_message("user", "\n\n".join([*step.notes, *step.back]))]
            self._append(User(step.back[0].encode()), new)
            self.messages += new
            return
        results = [
            ToolResult(call_id, name, content.encode())
            for (call_id, name, _), content in zip(calls, step.back, strict=True)
        ]
        contents = [*step.back[:-1], "\n\n".join([step.back[-1], noted]) if noted else step.back[-1]]
        new = [
            {**_message("tool", content), "tool_call_id": result.call_id, "name": result.name}
            for result, content in zip(results, contents, strict=True)
        ]
        self._append(ToolResults(tuple(results)), new)
        self.messages += new

    def _append(self, event: Event, new: Sequence[Message]) -> None:
        delta = self.renderer.extend(self.conversation.tip, event)
        self.conversation.append(event, delta.data)
        self.turns.append((delta, [str(one.get("content", one.get("description"))) for one in new]))
        self.sent += delta.data


def _assistant(said: str, calls: Sequence[tuple[str, str, dict[str, Any]]]) -> Message:
    message = _message("assistant", said)
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}
            for call_id, name, given in calls
        ]
    return message


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
