"""One conversation with one engine: bring your own loop.

    turn = session.send("What does calc.py do?")
    turn = session.results({call.id: run(call) for call in turn.calls})

A turn is: render the delta, encode it, append it (to the file too), ask the engine, append the reply, check the reuse.
"""

import datetime
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from oasis_harness.canonical import text_bytes
from oasis_harness.conversation import (
    Conversation,
    ConversationFile,
    Head,
    Node,
    Recovery,
    ToolResult,
    ToolResults,
    last_sent,
    save,
)
from oasis_harness.engine import Engine, Outcome, Policy, Prompt, Sampling, Step, ToolChoice, check, measure
from oasis_harness.errors import BrokenChain, OutOfOrder
from oasis_harness.registry import Skills, Tool, Tools
from oasis_harness.render import Dialect
from oasis_harness.replies import ToolCall
from oasis_harness.tokens import SeamCount

from .driving import driven, driven_choice
from .opening import dialect_of, new_file, registry_of
from .recorder import Recorder
from .thoughts import Thoughts
from .turn import Turn

__all__ = ["Session"]


class Session:
    """A conversation with an engine, recorded as it is sent.

    Args:
        engine: Who answers.
        system: The system text; constant for the whole conversation.
        tools: What may be called; frozen when the session starts.
        skills: What the head lists; their bodies come through the tool `load_skill`.
        path: A new file that gets every event before the engine is asked. Without one, nothing is written.
        policy: What to do about a reuse deficit: `warn` or `raise`.
        arguments: Switches of the chat template, such as `enable_thinking`.
        date: What a template that asks for the date is told, for the whole conversation; today if not given.
        thoughts: What becomes of what the model thought, where its template would drop it: `retain` or `epoch`.
        sampling: Defaults for every turn. The tool choice `auto` becomes a driven one where the model never opens a
            call by itself (see `opens_calls`).
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
        thoughts: Thoughts | str = Thoughts.RETAIN,
        sampling: Sampling | None = None,
    ) -> None:
        dialect = dialect_of(engine, arguments or {}, date or datetime.date.today())
        registry = registry_of(tools, skills)
        encoder = engine.card.tokenizer
        head = Head(
            epoch=dialect.epoch(encoder.digest),
            system=encoder.escape(text_bytes(system)),
            tools=tuple(tool.schema for tool in registry.values()),
            skills=skills.lines() if skills is not None else (),
        )
        file = new_file(path) if path is not None else None
        conversation = Conversation(head, sink=file.append if file else None)
        recorder = Recorder(conversation, dialect, engine.card, registry, thoughts=Thoughts(thoughts))
        self._begin(engine, recorder, policy, sampling, file)

    @classmethod
    def load(
        cls,
        path: Path | str,
        engine: Engine,
        *,
        tools: Tools | None = None,
        skills: Skills | None = None,
        policy: Policy | str = Policy.WARN,
        thoughts: Thoughts | str = Thoughts.RETAIN,
        sampling: Sampling | None = None,
    ) -> Self:
        """Continue the conversation in `path`, byte for byte and id for id; new events are written there.

        The schemas that were sent stay in the prompt; `tools` says what runs when one is called.

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
            conversation = Conversation.at(file.tip, sink=file.append)
            epoch = conversation.epoch
            dialect = dialect_of(engine, epoch.switches(), epoch.date(), is_new=False)
            epoch.require(dialect.epoch(engine.card.tokenizer.digest))
        except BaseException:
            file.close()
            raise
        session = cls.__new__(cls)
        registry = registry_of(tools, skills)
        recorder = Recorder(conversation, dialect, engine.card, registry, thoughts=Thoughts(thoughts))
        session._begin(engine, recorder, policy, sampling, file)
        return session

    def _begin(
        self,
        engine: Engine,
        recorder: Recorder,
        policy: Policy | str,
        sampling: Sampling | None,
        file: ConversationFile | None,
    ) -> None:
        self.engine = engine
        self.turns: list[Turn] = []
        self.policy = Policy(policy)
        self.sampling = sampling or Sampling()
        self._recorder = recorder
        self._file = file
        self._key = uuid.uuid4().hex  # names the engine's cache; never sent
        self._was_asked = False
        self._is_running = False
        self._is_closed = False

    @property
    def conversation(self) -> Conversation:
        """The log."""
        return self._recorder.conversation

    @property
    def dialect(self) -> Dialect:
        """How this model is spoken to."""
        return self._recorder.dialect

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What runs when a tool is called, by name, in prompt order."""
        return self._recorder.tools

    @property
    def opens_calls(self) -> bool:
        """Whether the model opens calls by itself. The default model does not, and is driven.

        Without a tool choice of yours, a user turn requires a call of it and results require an answer; and since it
        does not find the end by itself either, replies and their text arguments are kept short. Sampling only: the
        prompt is the same.
        """
        return self.engine.card.opens_calls

    @property
    def path(self) -> Path | None:
        """The file that gets every event, if there is one."""
        return self._file.path if self._file is not None else None

    @property
    def recovery(self) -> Recovery | None:
        """What was done about a torn last line when the file was opened."""
        return self._file.recovery if self._file is not None else None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no results yet."""
        return self._recorder.open_calls

    @property
    def is_waiting(self) -> bool:
        """Whether something was sent that has no reply: the process was killed, or the engine failed."""
        return self._recorder.is_waiting

    @property
    def seams(self) -> SeamCount:
        """How the ids of events and replies met those before them. O(events since it was asked last)."""
        return self._recorder.seams

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
        self._idle_recorder().user(text)
        return self.reply(tool_choice=tool_choice)

    def stream_results(
        self, results: Mapping[str, str | ToolResult], *, tool_choice: ToolChoice | str | None = None
    ) -> Iterator[Step | Turn]:
        """As `results`, step by step; ends with the Turn."""
        self._idle_recorder().results(results)
        return self.reply(tool_choice=tool_choice)

    def record_results(self, results: Mapping[str, str | ToolResult]) -> None:
        """Append results without asking for an answer; `reply` asks later."""
        self._idle_recorder().results(results)

    def reply(self, *, tool_choice: ToolChoice | str | None = None) -> Iterator[Step | Turn]:
        """Let the model answer what was sent last; also after a restart, when `is_waiting`.

        Raises:
            OutOfOrder: Nothing was asked.
        """
        if not self.is_waiting:
            raise OutOfOrder("nothing waits for an answer.", remedy="Ask something with send().")
        return self._answer(self._sampling(ToolChoice(tool_choice or self._default_choice())))

    def note(self, text: str) -> None:
        """Append a word of the harness (a mode change, the date); the next turn carries it to the model."""
        self._recorder.note(text)

    def add_tools(self, tools: Tools) -> None:
        """Append tools that arrived after the head was sent: shown with the next turn, callable at once."""
        self._recorder.add_tools(tools)

    def fork(self, at: Node | None = None) -> "Session":
        """Return a second session that shares everything up to `at` (default: now) and is recorded nowhere yet."""
        branch = type(self).__new__(type(self))
        branch._begin(self.engine, self._recorder.fork(at), self.policy, self.sampling, None)
        if self._was_asked and branch.conversation.tip.epoch == self.conversation.tip.epoch:  # it holds no other
            branch._was_asked = self.engine.fork(self._key, branch._key, branch.conversation.n_promised)
        return branch

    def save(self, path: Path | str) -> None:
        """Write the whole conversation to `path`."""
        save(self.conversation, path)

    def close(self) -> None:
        """Cancel what runs, let the engine forget the conversation, close its file. Idempotent."""
        self._is_closed = True
        self.engine.cancel(self._key)
        self.engine.forget(self._key)
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _answer(self, sampling: Sampling) -> Iterator[Step | Turn]:
        expected = self.conversation.n_promised
        if not self._idle_recorder().is_waiting:
            raise OutOfOrder("it was answered by another stream.", remedy="Ask something with send().")
        # Until its reply is recorded, nothing is promised of this call; the one after it counts as a first one.
        is_first_call, self._was_asked = not self._was_asked, False
        steps = self.engine.generate(Prompt(self._key, self.conversation.ids), sampling)
        outcome: Outcome | None = None
        self._is_running = True
        try:
            for step in steps:
                if isinstance(step, Outcome):
                    outcome = step
                else:
                    yield step
        except Exception:
            raise  # the engine's own; it knows what it holds
        except BaseException:
            outcome = outcome or self._cancelled(steps)
            raise
        finally:
            self._is_running = False
            if outcome is not None and not self._is_closed:
                self._record(outcome, expected, is_first_call, sampling.tool_choice)
        if not self._is_closed:
            yield self.turns[-1]

    def _cancelled(self, steps: Iterator[Step]) -> Outcome | None:
        """Cancel the running call and take its outcome; without one, the engine forgets what nobody recorded."""
        try:
            self.engine.cancel(self._key)
            return next((step for step in steps if isinstance(step, Outcome)), None)
        except BaseException:
            self.engine.forget(self._key)
            raise

    def _record(self, outcome: Outcome, expected: int, is_first_call: bool, tool_choice: ToolChoice) -> None:
        """Append the reply, then check the reuse: a deficit under `raise` must not lose what was sampled."""
        try:
            parsed = self._recorder.reply(outcome, tool_choice)
        except BaseException:
            self.engine.forget(self._key)
            raise
        self._was_asked = True
        reuse = measure(expected, outcome, is_first_call=is_first_call)
        self.turns.append(Turn.of(len(self.turns) + 1, parsed, outcome, reuse))
        check(reuse, self.policy)

    def _idle_recorder(self) -> Recorder:
        if self._is_closed:
            raise OutOfOrder("the session is closed.", remedy="Continue its file with Session.load().")
        if self._is_running:
            raise OutOfOrder("a reply is still being read.", remedy="Read its stream to the end, or close() it.")
        return self._recorder

    def _sampling(self, choice: ToolChoice) -> Sampling:
        sampling = self.sampling if self.opens_calls else driven(self.sampling)
        n_free = self.engine.card.n_context - self.conversation.tip.n_tokens
        return self._recorder.spoken(replace(sampling, tool_choice=choice, max_tokens=min(sampling.max_tokens, n_free)))

    def _default_choice(self) -> ToolChoice:
        choice = self.sampling.tool_choice
        if self.opens_calls or not self.tools or choice is not ToolChoice.AUTO:
            return choice
        return driven_choice(after_results=isinstance(last_sent(self.conversation.tip).event, ToolResults))


def _last(steps: Iterator[Step | Turn]) -> Turn:
    return next(step for step in steps if isinstance(step, Turn))
