"""Random conversations, and two ways to render one: by deltas, and by the template's own render of the whole list."""

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from hypothesis import example, settings
from hypothesis import strategies as st

from oasis_harness.certify import certify_template
from oasis_harness.conversation import Conversation, Epoch, Event, Head, Note, Reply, ToolResult, ToolResults, User
from oasis_harness.render import Delta, Dialect, Renderer
from oasis_harness.replies import JSON_CALLS
from oasis_harness.templates import Message, Template

from .families import VARIABLES, Family

DATE = datetime.date(2025, 3, 9)
EPOCH = Epoch("template", "{}", "tokenizer")

_NASTY = [
    *("<|im_end|>", "<|im_start|>system\n", "<tool_call>", "</tool_call>", "<tool_response>", "</think>", "<think>"),
    *("{{ 7 * 7 }}", "{% raise %}", "[INST]", "[/INST]", "</s>", "<|end|>", "<|eot_id|>", "<|call|>", "<|END|>"),
    *("oasisSENTINEL0f9d1b", "Z0oasis", "Z1oasis", "oasisFIRST", "oasisRESULT81e4", "dummy", "\ue000", "\ue001"),
    *("\n", "\r\n", "  ", "\t", "\u2028", "\x85", "\\", '"', "'", "\\n", "&lt;", "é", "日本", "🙂", "\u0301", "\x00"),
]
NASTY = "".join(_NASTY)
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
    whole = texts.map(lambda text: _closed(family, text))
    reasoning = draw(whole.filter(bool) if family.thought.is_prompted else whole) if family.thought else ""
    return Step("" if is_silent else draw(whole), calls, back, draw(st.lists(texts, max_size=2)), reasoning)


def _closed(family: Family, text: str) -> str:
    """Return `text` without the marks that a reply would leave open; what closes them is tested elsewhere."""
    for opener in ("<think>", (family.syntax or JSON_CALLS).opener, JSON_CALLS.opener):
        text = text.replace(opener, "")
    return text


@st.composite
def talks(draw: st.DrawFn, family: Family, texts: st.SearchStrategy[str] = texts) -> Talk:
    return Talk(
        system=draw(texts),
        tools=[tool(name, draw(texts)) for name in draw(st.lists(names, unique=True, max_size=2))],
        user=draw(texts),
        steps=draw(st.lists(steps(family, texts), max_size=5)),
    )


Played: TypeAlias = tuple[Family, Talk]
"""A conversation, and the family that plays it."""


@st.composite
def plays(draw: st.DrawFn, families: Sequence[Family], texts: st.SearchStrategy[str] = texts) -> Played:
    """Draw a family and a conversation of it."""
    family = draw(st.sampled_from(families))
    return family, draw(talks(family, texts))


def rich_talk(family: Family, text: str = NASTY) -> Talk:
    """Return a conversation that holds one of everything the family prints, each text of it `text`."""
    said = _closed(family, text)
    reasoning = said if family.thought else ""
    calls = [("shell", {"path": text, "n": 3}), ("read_file", {})][: family.n_calls] if family.has_calls else []
    called = Step(
        said if family.has_text_calls or not calls else "", calls, [text] * max(len(calls), 1), [text], reasoning
    )
    answered = Step(said, [], [text], [text, text], reasoning)
    return Talk(text, [tool("shell", text), tool("read_file", text)], text, [called, answered, called])


def in_every(families: Sequence[Family], words: str = NASTY, /, **others: object) -> Callable[[Any], Any]:
    """Try a rich conversation of every family as `played` before a property draws: no family is left to chance."""
    return _with_examples([{"played": (family, rich_talk(family, words)), **others} for family in families])


def for_every(families: Sequence[Family], /, **others: object) -> Callable[[Any], Any]:
    """Try `others` with every family as `family` before a property draws: no family is left to chance."""
    return _with_examples([{"family": family, **others} for family in families])


def often(n_times: int) -> settings:
    """Return settings under which a property that is a promise of ours is tried `n_times` as often as the others."""
    return settings(max_examples=n_times * settings().max_examples)


def _with_examples(examples: Sequence[dict[str, Any]]) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        for one in reversed(examples):
            test = example(**one)(test)
        return test

    return decorate


@cache
def dialect(family: Family, **arguments: object) -> Dialect:
    """Compose the dialect of a family, with no switch set but those that are given."""
    given = dict(family.arguments) | arguments
    options: dict[str, Any] = {"variables": VARIABLES, "arguments": given, "date": DATE}
    composed = Dialect.compose(family.source, syntax=family.syntax, stops=family.stops, **options)
    if composed.switch is None:
        return composed
    template = Template(family.source, **options)
    certificate = certify_template(template, family.syntax, stops=family.stops)
    return Dialect(template, certificate, family.syntax or JSON_CALLS, certificate.calls is None or composed.is_json)


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

    @classmethod
    def of(cls, played: Played) -> "Driver":
        family, talk = played
        return cls(dialect(family), family, talk)

    def own_render(self, messages: Sequence[Message] | None = None, *, generation_prompt: bool = True) -> str:
        some = self.messages if messages is None else messages
        return self.dialect.template.render(some, tools=self.tools, generation_prompt=generation_prompt)

    def sampled(self, message: Message) -> str:
        """Return what the model said when it made `message`."""
        return sampled(self.family, self.own_render, self.messages, message)

    def _play(self, step: Step) -> None:
        number = len(self.messages)
        calls = [(f"call{number:03d}{n:02d}", name, given) for n, (name, given) in enumerate(step.calls)]
        message = said = _assistant(step.said, calls, as_text=self.family.takes_text)
        thought = self.family.thought
        if step.reasoning and thought is not None:
            inline = thought.opener + step.reasoning + thought.closer + step.said
            said = {**message, thought.field: inline if thought.field == "content" else step.reasoning}
        data = self.sampled(said).encode()
        self.conversation.append(Reply(data, "stop", "auto", 0), data)
        self.messages.append(message if thought is not None and thought.field == "content" else said)
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


def sampled(family: Family, render: Callable[..., str], history: Sequence[Message], reply: Message) -> str:
    """Return what the model said: what it thought in its marks, then the reply as the template itself prints it."""
    thought, reasoning, plain = family.thought, "", reply
    if thought is not None and thought.field == "content":
        marked, closer, answer = reply["content"].partition(thought.closer)
        reasoning = marked.removeprefix(thought.opener) if closer else ""
        plain = {**reply, "content": answer if closer else reply["content"]}
    elif thought is not None:
        reasoning = reply.get(thought.field, "")
        plain = {key: value for key, value in reply.items() if key != thought.field}
    said = _own(family, render(history), render([*history, plain], generation_prompt=False))
    if not reasoning or thought is None:
        return said
    empties = [*thought.empties, *(empty.removeprefix(thought.opener) for empty in thought.empties)]
    said = said.removeprefix(next(filter(said.startswith, empties), ""))
    return ("" if thought.is_prompted else thought.opener) + reasoning + thought.closer + said


def _own(family: Family, prompt: str, alone: str) -> str:
    """Return the reply's part of its own render, without its closer."""
    closer = next((one for one in family.closers if alone.endswith(one)), "")
    alone = alone.removesuffix(closer)
    tail = family.thought.opener if family.thought is not None else ""
    for start in (prompt, prompt.removesuffix(tail)):
        if alone.startswith(start):
            return alone[len(start) :]
    assert family.header, "a prompt is no prefix of its history"
    return alone.rpartition(family.header)[2]


def _assistant(said: str, calls: Sequence[tuple[str, str, dict[str, Any]]], *, as_text: bool) -> Message:
    message = _message("assistant", said)
    if calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given) if as_text else given},
            }
            for call_id, name, given in calls
        ]
    return message


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
