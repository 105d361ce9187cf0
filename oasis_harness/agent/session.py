"""One conversation with one engine: bring your own loop.

    turn = session.send("What does calc.py do?")
    turn = session.results({call.id: run(call) for call in turn.calls})

A turn is: render the delta, encode it, append it (to the file too), ask the engine, append the reply, check the reuse.
"""

import datetime
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from oasis_harness.conversation import (
    Conversation,
    ConversationFile,
    Event,
    Head,
    Node,
    Note,
    Recovery,
    Reply,
    ToolResult,
    ToolResults,
    ToolsAdded,
    User,
    save,
)
from oasis_harness.engine import (
    Engine,
    Finish,
    Outcome,
    Policy,
    Prompt,
    Reuse,
    Sampling,
    Step,
    Timing,
    ToolChoice,
    check,
)
from oasis_harness.errors import BrokenChain, OutOfOrder, PromptTooLong
from oasis_harness.registry import Skills, Tool, Tools
from oasis_harness.render import CallSyntax, Dialect, Parsed, Renderer, ToolCall

__all__ = ["Session", "Turn", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn cost, in tokens."""

    n_prompt: int
    n_sampled: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, and the proof of its reuse."""

    index: int
    """Number of this turn in the session, from 1."""
    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    reuse: Reuse
    finish: Finish
    timing: Timing


class Session:
    """A conversation with an engine, recorded as it is sent.

    Args:
        engine: Who answers.
        system: The system text; constant for the whole conversation.
        tools: What may be called; frozen when the session starts.
        skills: What the head lists; their bodies come through the tool `load_skill`.
        path: A file that gets every event before the engine is asked. Without one, nothing is written.
        policy: What to do about a reuse deficit: `warn` or `raise`.
        arguments: Switches of the chat template, such as `enable_thinking`.
        date: What a template that asks for the date is told, for the whole conversation; today if not given.
        sampling: Defaults for every turn.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        system: str = "",
        tools: Tools | None = None,
        skills: Skills | None = None,
        path: Path | str | None = None,
        policy: Policy | str = Policy.WARN,
        arguments: Mapping[str, object] | None = None,
        date: datetime.date | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        dialect = _dialect(engine, arguments or {}, date or datetime.date.today())
        registry = _registry(tools, skills)
        encoder = engine.card.tokenizer
        head = Head(
            epoch=dialect.epoch(encoder.digest),
            system=encoder.escape(system.encode()),
            tools=tuple(tool.schema for tool in registry.values()),
            skills=skills.lines() if skills else (),
        )
        file = ConversationFile(path) if path is not None else None
        if file is not None and file.tip is not None:
            file.close()
            raise OutOfOrder(
                f"{path} already holds a conversation.", remedy="Continue it with Session.load(), or name a new file."
            )
        conversation = Conversation(head, sink=file.append if file else None)
        self._begin(engine, dialect, registry, conversation, Policy(policy), sampling or Sampling(), file)

    @classmethod
    def load(
        cls,
        path: Path | str,
        engine: Engine,
        *,
        tools: Tools | None = None,
        skills: Skills | None = None,
        policy: Policy | str = Policy.WARN,
        sampling: Sampling | None = None,
    ) -> Self:
        """Continue the conversation in `path`, byte for byte and id for id; new events are written there.

        The schemas that were sent stay in force; `tools` says what runs when one is called.

        Raises:
            FileNotFoundError: There is no such file.
            BrokenChain: The file is damaged other than by a torn last line.
            ConversationLocked: Another process has it open.
            EpochMismatch: It was sent with another template or tokenizer than this engine's.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"no conversation file {path}")
        file = ConversationFile(path)
        try:
            if file.tip is None:
                raise BrokenChain(f"{path} holds no event.", remedy="Name a file written by a session.", path=path)
            session = cls.__new__(cls)
            conversation = Conversation.at(file.tip, sink=file.append)
            epoch = conversation.epoch
            dialect = _dialect(engine, epoch.switches(), epoch.date())
            epoch.require(dialect.epoch(engine.card.tokenizer.digest))
        except BaseException:
            file.close()
            raise
        registry = _registry(tools, skills)
        session._begin(engine, dialect, registry, conversation, Policy(policy), sampling or Sampling(), file)
        return session

    def _begin(
        self,
        engine: Engine,
        dialect: Dialect,
        registry: dict[str, Tool],
        conversation: Conversation,
        policy: Policy,
        sampling: Sampling,
        file: ConversationFile | None,
    ) -> None:
        self.engine = engine
        self.conversation = conversation
        self.turns: list[Turn] = []
        self.tools = registry
        """What runs when a tool is called, by name."""
        self.recovery: Recovery | None = file.recovery if file is not None else None
        """What was done about a torn last line, after load()."""
        self.policy = policy
        self.sampling = sampling
        self._renderer = Renderer(dialect)
        self._file = file
        self._key = uuid.uuid4().hex  # names the engine's cache; never sent
        self._was_asked = False

    @property
    def dialect(self) -> Dialect:
        """How this model is spoken to."""
        return self._renderer.dialect

    @property
    def path(self) -> Path | None:
        """The file that gets every event, if there is one."""
        return self._file.path if self._file is not None else None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no results yet."""
        node = self.conversation.tip
        while isinstance(node.event, Note | ToolsAdded) and node.parent is not None:
            node = node.parent
        return self._parse(node).calls if isinstance(node.event, Reply) else ()

    @property
    def is_waiting(self) -> bool:
        """Whether something was sent that has no reply: the process was killed, or the engine failed."""
        event = self.conversation.tip.event
        return isinstance(event, User | ToolResults) and bool(self.conversation.tip.sent)

    def send(self, text: str, *, tool_choice: ToolChoice | str | None = None) -> Turn:
        """Append a user turn and return the model's answer.

        Raises:
            OutOfOrder: The last reply made calls that have no results yet.
            PromptTooLong: It does not fit the context window; nothing was recorded.
            ReuseDeficit: Under the policy `raise`; the reply is recorded.
        """
        return _last(self.stream(text, tool_choice=tool_choice))

    def results(self, results: Mapping[str, str | ToolResult], *, tool_choice: ToolChoice | str | None = None) -> Turn:
        """Append the results of all calls of the last reply, by call id, and return the model's answer.

        Raises:
            OutOfOrder: A call has no result, or a result has no call.
            PromptTooLong: They do not fit the context window; nothing was recorded.
            ReuseDeficit: Under the policy `raise`; the reply is recorded.
        """
        return _last(self.stream_results(results, tool_choice=tool_choice))

    def stream(self, text: str, *, tool_choice: ToolChoice | str | None = None) -> Iterator[Step | Turn]:
        """As `send`, step by step; ends with the Turn. Closing it cancels, and records what was sampled."""
        if self.open_calls:
            raise OutOfOrder(
                f"{len(self.open_calls)} calls of the last reply have no results.",
                remedy="Give them with results(); a call you will not run has the result that says so.",
            )
        self._give_up_waiting()
        self._append(User(self._recordable(text)))
        return self.reply(tool_choice=tool_choice)

    def stream_results(
        self, results: Mapping[str, str | ToolResult], *, tool_choice: ToolChoice | str | None = None
    ) -> Iterator[Step | Turn]:
        """As `results`, step by step; ends with the Turn."""
        self.record_results(results)
        return self.reply(tool_choice=tool_choice)

    def record_results(self, results: Mapping[str, str | ToolResult]) -> None:
        """Append results without asking for an answer; `reply` asks later."""
        calls = self.open_calls
        if {call.id for call in calls} != set(results):
            raise OutOfOrder(
                f"the last reply made the calls {[call.id for call in calls]}, there are results for {list(results)}.",
                remedy="Give one result for every call, all at once.",
            )
        self._append(ToolResults(tuple(self._result(call, results[call.id]) for call in calls)))

    def reply(self, *, tool_choice: ToolChoice | str | None = None) -> Iterator[Step | Turn]:
        """Let the model answer what was sent last; also after a restart, when `is_waiting`.

        Raises:
            OutOfOrder: Nothing was asked.
        """
        if not self.is_waiting:
            raise OutOfOrder("nothing waits for an answer.", remedy="Ask something with send().")
        choice = ToolChoice(tool_choice) if tool_choice is not None else self.sampling.tool_choice
        return self._answer(self._sampling(choice))

    def note(self, text: str) -> None:
        """Append a word of the harness (a mode change, the date); the next turn carries it to the model."""
        self.conversation.append(Note(self._recordable(text)))

    def add_tools(self, tools: Tools) -> None:
        """Append tools that arrived after the head was sent: shown with the next turn, callable at once."""
        new = {tool.name: tool for tool in tools.frozen() if tool.name not in self.tools}
        if new:
            self.conversation.append(ToolsAdded(tuple(tool.schema for tool in new.values())))
            self.tools = {**self.tools, **new}

    def fork(self, at: Node | None = None) -> "Session":
        """Return a second session that shares everything up to `at` (default: now) and is recorded nowhere yet."""
        branch = type(self).__new__(type(self))
        conversation = self.conversation.fork(at)
        branch._begin(self.engine, self.dialect, self.tools, conversation, self.policy, self.sampling, None)
        if self._was_asked:
            self.engine.fork(self._key, branch._key, conversation.n_promised)
            branch._was_asked = True
        return branch

    def save(self, path: Path | str) -> None:
        """Write the whole conversation to `path`."""
        save(self.conversation, path)

    def close(self) -> None:
        """Let the engine forget the conversation and close its file. Idempotent; the engine stays open."""
        self.engine.forget(self._key)
        self._was_asked = False
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, sampling: Sampling) -> Iterator[Step | Turn]:
        expected = self.conversation.n_promised
        is_first_call, self._was_asked = not self._was_asked, False
        steps = self.engine.generate(Prompt(self._key, self.conversation.ids), sampling)
        outcome: Outcome | None = None
        try:
            for step in steps:
                if isinstance(step, Outcome):
                    outcome = step
                else:
                    yield step
        except BaseException:
            outcome = outcome or _cancelled(self.engine, steps)
            raise
        finally:
            if outcome is not None:
                turn = self._record(outcome, expected, is_first_call, sampling.tool_choice)
        yield turn

    def _record(self, outcome: Outcome, expected: int, is_first_call: bool, tool_choice: ToolChoice) -> Turn:
        """Append the reply, then check the reuse: a deficit under `raise` must not lose what was sampled."""
        self._was_asked = True
        data = self.engine.card.tokenizer.decode(outcome.ids)
        reply = Reply(data, outcome.finish, tool_choice, outcome.n_pending)
        node = self.conversation.append(reply, data, outcome.ids)
        parsed = self._parse(node)
        reuse = check(expected, outcome, is_first_call=is_first_call, policy=self.policy)
        turn = Turn(
            index=len(self.turns) + 1,
            text=parsed.text,
            reasoning=parsed.reasoning,
            calls=parsed.calls,
            usage=Usage(outcome.n_presented, len(outcome.ids)),
            reuse=reuse,
            finish=outcome.finish,
            timing=outcome.timing,
        )
        self.turns.append(turn)
        return turn

    def _append(self, event: Event) -> None:
        delta = self._renderer.extend(self.conversation.tip, event)
        tokenizer = self.engine.card.tokenizer
        ids = tokenizer.encode(delta.data, delta.authored)
        n_tokens = self.conversation.tip.n_tokens + len(ids)
        if n_tokens >= self.engine.card.n_context:
            raise PromptTooLong(
                f"this turn makes the prompt {n_tokens:,} tokens long, the window has {self.engine.card.n_context:,}.",
                remedy="Start a new conversation, or use a model with a larger window.",
                n_tokens=n_tokens,
                n_context=self.engine.card.n_context,
            )
        last_id = int(self.conversation.ids[-1]) if self.conversation.tip.n_tokens else None
        self.conversation.append(event, delta.data, ids, seam=tokenizer.seam(last_id, ids))

    def _give_up_waiting(self) -> None:
        """Close a turn that was never answered with an empty reply, so that the next one finds its place."""
        if self.is_waiting:
            n_pending = self.conversation.tip.n_tokens - self.conversation.n_promised
            self.conversation.append(Reply(b"", Finish.CANCELLED, self.sampling.tool_choice, n_pending))

    def _parse(self, node: Node) -> Parsed:
        assert isinstance(node.event, Reply), "only replies are parsed"
        return self.dialect.parse(node.event.data, node.index, self._schemas)

    @property
    def _schemas(self) -> tuple[bytes, ...]:
        return tuple(tool.schema for tool in self.tools.values())

    def _sampling(self, choice: ToolChoice) -> Sampling:
        n_free = self.engine.card.n_context - self.conversation.tip.n_tokens
        return replace(
            self.sampling,
            tool_choice=choice,
            tools=self._schemas,
            opener=self.dialect.syntax.opener,
            closer=self.dialect.syntax.closer,
            is_json=self.dialect.is_json,
            max_tokens=min(self.sampling.max_tokens, n_free),
        )

    def _result(self, call: ToolCall, result: str | ToolResult) -> ToolResult:
        if isinstance(result, str):
            result = ToolResult(call.id, call.name, result.encode("utf-8", errors="surrogateescape"))
        return replace(result, content=self.engine.card.tokenizer.escape(result.content))

    def _recordable(self, text: str) -> bytes:
        return self.engine.card.tokenizer.escape(text.encode("utf-8", errors="surrogateescape"))


def _dialect(engine: Engine, arguments: Mapping[str, object], date: datetime.date | None) -> Dialect:
    card = engine.card
    syntax = CallSyntax(*card.call_syntax) if card.call_syntax is not None else None
    return Dialect.compose(
        card.chat_template, variables=card.template_variables, arguments=arguments, date=date, syntax=syntax
    )


def _registry(tools: Tools | None, skills: Skills | None) -> dict[str, Tool]:
    """Return the frozen tools by name, in prompt order, with `load_skill` where there are skills."""
    every = tools.copy() if tools is not None else Tools()
    if skills is not None:
        skills.register(every)
    return {tool.name: tool for tool in every.frozen()}


def _cancelled(engine: Engine, steps: Iterator[Step]) -> Outcome | None:
    """Cancel the running call and take its outcome, if it still gives one."""
    engine.cancel()
    for step in steps:
        if isinstance(step, Outcome):
            return step
    return None


def _last(steps: Iterator[Step | Turn]) -> Turn:
    for step in steps:
        if isinstance(step, Turn):
            return step
    raise AssertionError("a stream of steps ends with its turn")
