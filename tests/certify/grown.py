"""Conversations that grow by one step, rendered twice over as a plain client would: what was sent, and what comes next.

Nothing here knows how certificates are found. Every text begins with a word of its own, so that no two are alike where
one takes the place of the other.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from oasis_harness.certify.certificate import Anchor, BoundaryName
from oasis_harness.templates import Message

from ..render.families import Family, Thought
from ..render.talk import dialect, sampled, tool
from .truth import TRUTH

TOOLS = [tool("read_file"), tool("shell")]


@dataclass(frozen=True)
class Plan:
    """The shape of a conversation, and what its texts end in."""

    past: Sequence[int]
    """How many rounds of calls each earlier turn had."""
    n_rounds: int
    """How many the present one has behind it."""
    n_calls: Sequence[int]
    """How many calls the rounds make, in a cycle."""
    ends: Sequence[str]


ends = st.lists(st.text("abé<{", max_size=3), min_size=1, max_size=5)
plans = st.builds(
    Plan,
    st.lists(st.integers(0, 2), max_size=2),
    st.integers(0, 2),
    st.lists(st.integers(1, 2), min_size=1, max_size=3),
    ends,
)


@dataclass(frozen=True)
class Step:
    """What was sent and sampled, what a plain client sends next, and where things stand in the first."""

    sent: str
    rendered: str
    places: Mapping[Anchor, Callable[[], int]]

    def broken(self) -> int | None:
        """Return the first byte of `sent` that is not what comes next, or None."""
        sent, rendered = self.sent.encode(), self.rendered.encode()
        if rendered.startswith(sent):
            return None
        pairs = itertools.zip_longest(sent, rendered)
        return next(at for at, (one, other) in enumerate(pairs) if one != other)


@dataclass(frozen=True)
class Way:
    """How one conversation goes: all of its replies are alike."""

    thinks: bool = False
    speaks: bool = False
    """Calls have words beside them, whether the template prints these or not."""
    has_tools: bool = True
    """Tools are given; without them no reply makes a call that is not its own text."""
    has_system: bool = True
    calls_twice: bool = False
    """The last reply makes two calls, though its template prints one."""


class Grown:
    """One conversation."""

    def __init__(self, family: Family, plan: Plan, way: Way) -> None:
        self.family, self.plan, self.way = family, plan, way
        self.truth = TRUTH[repr(family)]
        self._prints_results = self.truth.native is not None and (way.has_tools or not self.truth.has_tools)
        self._template = dialect(family).template
        self._numbers = itertools.count()
        self._n_rounds = itertools.count()
        self.history: list[Message] = []
        if family.has_system and way.has_system:
            self.history.append(_message("system", self._word("S")))
        for n_rounds in [*plan.past, plan.n_rounds]:
            if self.history and self.history[-1]["role"] in ("user", "tool"):
                self.history.append(self._reply())
            self.history.append(_message("user", self._word("U")))
            for _ in range(n_rounds if self._prints_results else 0):
                self.history += self._round()

    def step(self, name: BoundaryName) -> Iterator[Step]:
        """Yield what happens at the boundary, or nothing where such a conversation has none."""
        of_results = (BoundaryName.RESULT, BoundaryName.SECOND_RESULT, BoundaryName.NOTE)
        if name in of_results and not self._prints_results:
            return
        if name is BoundaryName.GENERATION_PROMPT:
            prompt, reply = self._render(self.history), self._reply()
            yield self._step(prompt, prompt, [*self.history, reply], generation_prompt=False)
        elif name is BoundaryName.SECOND_RESULT:
            reply, first, second = self._round(n_calls=2)
            sent = self._render([*self.history, reply, first], generation_prompt=False)
            step = self._step(sent, sent, [*self.history, reply, first, second])
            yield replace(step, places={**step.places, Anchor.RESULT: lambda: _end(sent, first)})
        elif name in (BoundaryName.RESULT, BoundaryName.NOTE):
            reply, *results = self._round(n_calls=2 if self.way.calls_twice else 0)
            note = [_message("user", self._word("N"))] if name is BoundaryName.NOTE else []
            yield self._sampled(reply, [*results, *note])
        else:
            yield self._sampled(self._reply(), [_message("user", self._word("V"))])
            yield self._text_call()
            if name is BoundaryName.TRUNCATED and self.way.thinks:
                yield self._cut_in_thought()

    def _sampled(self, reply: Message, new: Sequence[Message]) -> Step:
        prompt = self._render(self.history)
        return self._step(prompt + self._said_bytes(reply), prompt, [*self.history, reply, *new])

    def _said_bytes(self, reply: Message) -> str:
        """Return all that the model said, also what the template leaves out: the words beside a call, a second call."""
        calls = reply.get("tool_calls", [])
        if len(calls) > self.family.n_calls:
            return "".join(self._said_bytes({**reply, "tool_calls": [call]}) for call in calls)
        said = sampled(self.family, self._render, self.history, reply)
        if not calls or not self.way.speaks or self.family.has_text_calls:
            return said
        thought = ""
        if self.way.thinks:
            marks = self._thought()
            thought = ("" if marks.is_prompted else marks.opener) + reply[marks.field] + marks.closer
        assert said.startswith(thought)
        return f"{thought}{reply['content']}{said.removeprefix(thought)}"

    def _text_call(self) -> Step:
        """Return what happens to a call and a result that are the model's and a user's own text."""
        reply = self._reply()
        reply["content"] += '\n<tool_call>{"name": "shell", "arguments": {}}</tool_call>'
        return self._sampled(reply, [_message("user", f"<tool_response>\n{self._word('D')}\n</tool_response>")])

    def _cut_in_thought(self) -> Step:
        thought, reasoning = self._thought(), self._word("R")
        opened = "" if thought.is_prompted else thought.opener
        reply = _message("assistant", thought.opener + reasoning if thought.field == "content" else "")
        if thought.field != "content":
            reply[thought.field] = reasoning
        prompt = self._render(self.history)
        new = [reply, _message("user", self._word("V"))]
        return self._step(prompt + opened + reasoning, prompt, [*self.history, *new])

    def _step(self, sent: str, prompt: str, after: Sequence[Message], *, generation_prompt: bool = True) -> Step:
        rendered = self._render(after, generation_prompt=generation_prompt)
        turn = max(index for index, message in enumerate(self.history) if message["role"] == "user")
        results = [message for message in self.history[turn:] if message["role"] == "tool"]
        mark = self.family.syntax.closer if self.family.syntax is not None else ""
        places: dict[Anchor, Callable[[], int]] = {
            Anchor.START: lambda: 0,
            Anchor.SYSTEM: lambda: sent.index(self.history[0]["content"]),
            Anchor.TOOLS: lambda: _common(self._render(self.history), self._render(self.history, has_tools=False)),
            Anchor.USER: lambda: _end(sent, self.history[turn]),
            Anchor.FIRST_REPLY: lambda: len(self._render(self.history[: turn + 1])),
            Anchor.LAST_REPLY: lambda: len(prompt),
            Anchor.FIRST_CALL: lambda: _end(sent, {"content": self._words_of_calls[0]}),
            Anchor.LAST_CALL: lambda: sent.rindex(mark) + len(mark),
            Anchor.LAST_END: lambda: len(sent),
        }
        if results:
            places[Anchor.RESULT] = lambda: _end(sent, results[-1])
        return Step(sent, rendered, places)

    def _round(self, n_calls: int = 0) -> list[Message]:
        """Return a reply that makes calls, and their results."""
        cycle = self.plan.n_calls[next(self._n_rounds) % len(self.plan.n_calls)]
        n_calls = n_calls or min(cycle, self.family.n_calls)  # one that prints fewer is given more on purpose only
        reply = self._reply()
        self._words_of_calls: list[str] = []
        ids = [f"id{next(self._numbers):07d}" for _ in range(n_calls)]
        if self.family.has_calls:
            thought = reply["content"].removesuffix(self._said) if self._is_inline() else ""
            reply["content"] = thought + (self._said if self.way.speaks else "")
            reply["tool_calls"] = [self._call(call_id) for call_id in ids]
        return [reply, *({**_message("tool", self._word("D")), "tool_call_id": one, "name": "shell"} for one in ids)]

    def _call(self, call_id: str) -> Message:
        given: Any = {"path": self._word("P"), "n": 3, "text": self._word("T")}
        self._words_of_calls.append(given["text"])
        given = json.dumps(given) if self.family.takes_text else given
        return {"id": call_id, "type": "function", "function": {"name": "shell", "arguments": given}}

    def _reply(self) -> Message:
        self._said = self._word("A")
        reply = _message("assistant", self._said)
        if not self.way.thinks:
            return reply
        thought, reasoning = self._thought(), self._word("R")
        if thought.field == "content":
            return _message("assistant", thought.opener + reasoning + thought.closer + self._said)
        return {**reply, thought.field: reasoning}

    def _is_inline(self) -> bool:
        return self.way.thinks and self._thought().field == "content"

    def _thought(self) -> Thought:
        assert self.family.thought is not None, "only a thinker thinks"
        return self.family.thought

    def _word(self, letter: str) -> str:
        number = next(self._numbers)
        return f"{letter}{number:03d}{self.plan.ends[number % len(self.plan.ends)]}"

    def _render(self, messages: Sequence[Message], *, generation_prompt: bool = True, has_tools: bool = True) -> str:
        tools = TOOLS if has_tools and self.truth.has_tools and self.way.has_tools else []
        return self._template.render(messages, tools=tools, generation_prompt=generation_prompt)


def variants(family: Family, plan: Plan) -> Iterator[Grown]:
    """Yield the conversations of that shape in every way that its template can be driven."""
    truth = TRUTH[repr(family)]
    both = (False, True)
    may_think: tuple[bool, ...] = both
    if truth.reasoning_form is None or truth.reasoning_form.is_skipped:
        may_think = (False,)
    elif truth.reasoning_form.is_prompted:
        may_think = (True,)
    for thinks, speaks, has_tools, has_system in itertools.product(may_think, both, both, both):
        if has_tools <= truth.has_tools and (has_tools or not truth.has_tools or not speaks):
            for twice in both if family.has_calls and family.n_calls == 1 and has_tools else (False,):
                way = Way(thinks, speaks, has_tools, has_system, twice)
                yield Grown(family, plan, way)


def _common(one: str, other: str) -> int:
    pairs = itertools.zip_longest(one, other)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), len(one))


def _end(text: str, message: Message) -> int:
    return text.rindex(message["content"]) + len(message["content"])


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}
