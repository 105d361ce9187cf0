"""One conversation with one engine: bring your own loop.

    turn = session.send("What does calc.py do?")
    turn = session.results({call.id: run(call) for call in turn.calls})

A turn is: render the delta, encode it, append it (to the file too), ask the engine, append the reply, check the reuse.
"""

import datetime
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from oasis_harness.engine import Engine, Policy, Sampling, Step, ToolChoice
from oasis_harness.errors import BrokenChain, OutOfOrder
from oasis_harness.registry import Skills, Tool, Tools
from oasis_harness.render import Dialect
from oasis_harness.replies import ToolCall
from oasis_harness.tokens import SeamCount

from .asking import Asking, last_value
from .opening import dialect_of, new_file, registry_of, require_own_tokens
from .reasoning import ReasoningPolicy
from .recorder import Recorder
from .tool_policy import choose_tools
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
        is_synced: Whether each event is on the disk before the engine is asked, not in the system's hands only: a power
            cut loses none then, at some milliseconds a turn.
        policy: What to do about a reuse deficit: `warn` or `raise`.
        arguments: Switches of the chat template, such as `enable_thinking`.
        date: What a template that asks for the date is told, for the whole conversation; today if not given.
        reasoning: What becomes of what the model thought, where its template would drop it: `retain` or `epoch`.
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
        is_synced: bool = False,
        policy: Policy | str = Policy.WARN,
        arguments: Mapping[str, object] | None = None,
        date: datetime.date | None = None,
        reasoning: ReasoningPolicy | str = ReasoningPolicy.RETAIN,
        sampling: Sampling | None = None,
    ) -> None:
        dialect = dialect_of(engine, arguments or {}, date or datetime.date.today())
        registry = registry_of(tools, skills)
        encoder = engine.model_info.tokenizer
        head = Head(
            epoch=dialect.epoch(encoder.digest),
            system=encoder.escape(text_bytes(system)),
            tools=tuple(tool.schema for tool in registry.values()),
            skills=skills.lines() if skills is not None else (),
        )
        file = new_file(path, is_synced=is_synced) if path is not None else None
        conversation = Conversation(head, sink=file.append if file else None)
        recorder = Recorder(conversation, dialect, engine.model_info, registry, reasoning=ReasoningPolicy(reasoning))
        self._begin(engine, recorder, policy, sampling, file)

    @classmethod
    def load(
        cls,
        path: Path | str,
        engine: Engine,
        *,
        tools: Tools | None = None,
        skills: Skills | None = None,
        is_synced: bool = False,
        policy: Policy | str = Policy.WARN,
        reasoning: ReasoningPolicy | str = ReasoningPolicy.RETAIN,
        sampling: Sampling | None = None,
    ) -> Self:
        """Continue the conversation in `path`, byte for byte and id for id; new events are written there.

        The schemas that were sent stay in the prompt; `tools` says what runs when one is called.

        Raises:
            FileNotFoundError: There is no such file.
            BrokenChain: The file is damaged other than by a torn last line, or its tokens spell other words.
            ConversationLocked: Another process has it open.
            EpochMismatch: It was sent with another template or tokenizer than this engine's.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"no conversation file {path}")
        file = ConversationFile(path, is_synced=is_synced)
        try:
            if file.tip is None:
                raise BrokenChain(f"{path} holds no event.", remedy="Name a file written by a session.", path=path)
            conversation = Conversation.at(file.tip, sink=file.append)
            epoch = conversation.epoch
            dialect = dialect_of(engine, epoch.switches(), epoch.date(), is_new=False)
            epoch.require(dialect.epoch(engine.model_info.tokenizer.digest))
            require_own_tokens(conversation, engine.model_info.tokenizer, path)
        except BaseException:
            file.close()
            raise
        session = cls.__new__(cls)
        registry = registry_of(tools, skills)
        recorder = Recorder(conversation, dialect, engine.model_info, registry, reasoning=ReasoningPolicy(reasoning))
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
        """Who answers; it stays open when the session is closed."""
        self.policy = Policy(policy)
        """What is done about a reuse deficit; may be changed between turns."""
        self.sampling = sampling or Sampling()
        """Defaults for every turn; may be changed between turns, since no byte of the prompt depends on them."""
        self._recorder = recorder
        self._file = file
        self._writing = threading.RLock()  # held around every look at the tip and what is appended after it
        self._asking = Asking(engine, recorder, self._writing)
        self._is_running = False

    @property
    def turns(self) -> list[Turn]:
        """The turns that were answered here, with their reuse; none of those in a loaded file."""
        return self._asking.turns

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
        return self.engine.model_info.opens_calls

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
        with self._turn() as recorder:
            with self._writing:
                recorder.user(text)
            return self._answered(tool_choice)

    def results(self, results: Mapping[str, str | ToolResult], *, tool_choice: ToolChoice | str | None = None) -> Turn:
        """Append the results of all calls of the last reply, by call id, and return the model's answer.

        Raises:
            OutOfOrder: A call has no result, or a result has no call.
            PromptTooLong: They do not fit the context window; nothing was recorded.
            ReuseDeficit: Under the policy `raise`; the reply is recorded.
        """
        with self._turn() as recorder:
            with self._writing:
                recorder.results(results)
            return self._answered(tool_choice)

    def stream(self, text: str, *, tool_choice: ToolChoice | str | None = None) -> Iterator[Step | Turn]:
        """As `send`, step by step; ends with the Turn. Closing it cancels, and records what was sampled."""
        with self._writing:
            self._idle_recorder().user(text)
            return self.reply(tool_choice=tool_choice)

    def stream_results(
        self, results: Mapping[str, str | ToolResult], *, tool_choice: ToolChoice | str | None = None
    ) -> Iterator[Step | Turn]:
        """As `results`, step by step; ends with the Turn."""
        with self._writing:
            self._idle_recorder().results(results)
            return self.reply(tool_choice=tool_choice)

    def record_results(self, results: Mapping[str, str | ToolResult]) -> None:
        """Append results without asking for an answer; `reply` asks later."""
        with self._writing:
            self._idle_recorder().results(results)

    def reply(self, *, tool_choice: ToolChoice | str | None = None) -> Iterator[Step | Turn]:
        """Let the model answer what was sent last; also after a restart, when `is_waiting`.

        Raises:
            OutOfOrder: Nothing was asked.
        """
        if not self.is_waiting:
            raise OutOfOrder("nothing waits for an answer.", remedy="Ask something with send().")
        return self._claimed(last_sent(self.conversation.tip), self._sampling(tool_choice))

    def note(self, text: str) -> None:
        """Append a word of the harness (a mode change, the date); the next turn carries it. Any thread may."""
        with self._writing:
            self._recorder.note(text)

    def add_tools(self, tools: Tools) -> None:
        """Append tools that arrived after the head was sent: shown with the next turn, callable at once."""
        with self._writing:
            self._recorder.add_tools(tools)

    def fork(self, at: Node | None = None) -> "Session":
        """Return a second session that shares everything up to `at` (default: now) and is recorded nowhere yet."""
        branch = type(self).__new__(type(self))
        with self._writing:
            recorder = self._recorder.fork(at)
        branch._begin(self.engine, recorder, self.policy, self.sampling, None)
        self._asking.share(branch._asking)
        return branch

    def save(self, path: Path | str) -> None:
        """Write the whole conversation to `path`."""
        with self._writing:
            save(self.conversation, path)

    def close(self) -> None:
        """Cancel what runs, let the engine forget the conversation, close its file. Idempotent."""
        self._asking.close()
        with self._writing:
            if self._file is not None:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _turn(self) -> Iterator[Recorder]:
        """Claim the session for one turn, before anything of it is recorded; another thread's turn is refused."""
        with self._writing:
            recorder = self._idle_recorder()
            self._is_running = True
        try:
            yield recorder
        finally:
            self._is_running = False

    def _claimed(self, question: Node, sampling: Sampling) -> Iterator[Step | Turn]:
        with self._turn():
            if last_sent(self.conversation.tip) is not question:
                raise OutOfOrder(
                    "it was answered by another stream, or overtaken.", remedy="Ask something with send()."
                )
            turn = yield from self._asking.answer(sampling, self.policy)
        if turn is not None:
            yield turn

    def _answered(self, tool_choice: ToolChoice | str | None) -> Turn:
        turn = last_value(self._asking.answer(self._sampling(tool_choice), self.policy))
        if turn is None:
            raise OutOfOrder(
                "the session was closed while it was answered.", remedy="Continue its file with Session.load()."
            )
        return turn

    def _idle_recorder(self) -> Recorder:
        if self._asking.is_closed:
            raise OutOfOrder("the session is closed.", remedy="Continue its file with Session.load().")
        if self._is_running:
            raise OutOfOrder("a reply is still being read.", remedy="Read its stream to the end, or close() it.")
        return self._recorder

    def _sampling(self, tool_choice: ToolChoice | str | None) -> Sampling:
        """Decide what is sampled in a turn: the caller's choice, or the default of a model that is driven.

        Raises:
            PromptTooLong: What waits for an answer leaves no room for one in this engine's window.
        """
        after_results = isinstance(last_sent(self.conversation.tip).event, ToolResults)
        sampling = choose_tools(
            self.sampling, tool_choice, self.engine.model_info, has_tools=bool(self.tools), after_results=after_results
        )
        return self._recorder.spoken(sampling)
