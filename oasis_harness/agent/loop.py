"""The agent: ask, run the calls, give all results back at once, until the model answers without a call."""

import contextlib
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeAlias

from oasis_harness.conversation import ToolResult
from oasis_harness.engine import Engine, Finish, Step, ToolChoice
from oasis_harness.errors import PromptTooLong
from oasis_harness.registry import Effect, Skills, Tool, Tools
from oasis_harness.replies import ToolCall

from .execute import Limits, denied, execute, interrupted, out_of_turns, too_long
from .session import Session
from .tool_policy import N_REQUIRED, ChooseTools, is_driven, required_then_none
from .turn import Turn

__all__ = [
    "ALLOW_ALL",
    "Agent",
    "AgentEvent",
    "CallFinished",
    "CallStarted",
    "Finished",
    "Reason",
]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call has its result."""

    call: ToolCall
    result: ToolResult


class Reason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"
    MAX_TURNS = "max_turns"
    LENGTH = "length"
    """The answer was cut by the length limit."""
    CANCELLED = "cancelled"
    WINDOW_FULL = "window_full"
    """Not even a short result fits the context window any more."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over."""

    reason: Reason
    text: str
    """What the model said last."""


AgentEvent: TypeAlias = Step | Turn | CallStarted | CallFinished | Finished
Approve: TypeAlias = Callable[[ToolCall, Tool], bool]


def ALLOW_ALL(call: ToolCall, tool: Tool) -> bool:  # noqa: N802  # stands where an answer stands
    """Let every tool run, also what writes and executes: for a sandbox, or tools that do no harm."""
    return True


class Agent:
    """A model with tools, and a session.

    Args:
        engine: Who answers.
        system: The system text; constant for the whole conversation.
        tools: What may be called.
        skills: What can be read with `load_skill`.
        session: A session to go on with, instead of `system`, `tools` and `skills`.
        approve: Asked before a tool that writes or executes; says True or False. `ALLOW_ALL` lets everything run.
        tool_choice: The tool choice, or a function from the turn's number to it. Without one: `auto`, and for a model
            that never opens a call by itself, `required` for three turns and then `none`.
        max_turns: After so many turns a run ends, whatever the model still calls.
        limits: What one result may cost.

    Raises:
        ValueError: A session is given together with what it already has, or there are tools that write or execute and
            nobody to `approve` them.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        system: str = "",
        tools: Tools | None = None,
        skills: Skills | None = None,
        session: Session | None = None,
        approve: Approve | None = None,
        tool_choice: ToolChoice | str | ChooseTools | None = None,
        max_turns: int = 50,
        limits: Limits | None = None,
    ) -> None:
        self.session = _own_session(engine, session, system=system, tools=tools, skills=skills)
        self._approve = _approver(approve, self.session.tools)
        self._choose = _chooser(tool_choice, self.session)
        self._max_turns = max_turns
        self._limits = limits or Limits()

    @property
    def turns(self) -> list[Turn]:
        """The turns so far."""
        return self.session.turns

    def run(self, task: str) -> Iterator[AgentEvent]:
        """Work on `task` and yield what happens, the sampled pieces included; ends with Finished.

        Calls that an earlier run left open get the result that says so.
        """
        self._close_calls(interrupted)
        yield from self._loop(self.session.stream(task, tool_choice=self._choose(1)))

    def resume(self) -> Iterator[AgentEvent]:
        """Go on with a loaded session where it stopped: run its open calls, or let the model answer."""
        if self.session.open_calls:
            results = yield from self._run_calls(self.session.open_calls)
            steps = self._send(results, self._choose(1))
            yield from self._loop(steps) if steps else [Finished(Reason.WINDOW_FULL, "")]
        elif self.session.is_waiting:
            yield from self._loop(self.session.reply(tool_choice=self._choose(1)))

    def close(self) -> None:
        """Close the session; the engine stays open."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _loop(self, steps: Iterator[Step | Turn]) -> Iterator[AgentEvent]:
        for number in range(1, self._max_turns + 1):
            turn = yield from _forward(steps)
            if turn.finish is Finish.CANCELLED or not turn.calls:
                self._close_calls(interrupted)
                yield Finished(self._reason(turn), turn.text)
                return
            if number == self._max_turns:
                break
            results = yield from self._run_calls(turn.calls)
            following = self._send(results, self._choose(number + 1))
            if following is None:
                yield Finished(Reason.WINDOW_FULL, turn.text)
                return
            steps = following
        self._close_calls(out_of_turns)
        yield Finished(Reason.MAX_TURNS, turn.text)

    def _reason(self, turn: Turn) -> Reason:
        if turn.finish is Finish.CANCELLED:
            return Reason.CANCELLED
        is_cut = turn.finish is Finish.LENGTH and self.session.opens_calls  # a driven model's answer we cut ourselves
        return Reason.LENGTH if is_cut else Reason.ANSWERED

    def _send(self, results: Mapping[str, ToolResult], choice: ToolChoice | None) -> Iterator[Step | Turn] | None:
        """Send results; where they do not fit the window, short ones that say so; None where not even those fit."""
        try:
            return self.session.stream_results(results, tool_choice=choice)
        except PromptTooLong as error:
            n_tokens, n_context = error.n_tokens, error.n_context
        short = {call.id: too_long(call, n_tokens, n_context) for call in self.session.open_calls}
        try:
            return self.session.stream_results(short, tool_choice=choice)
        except PromptTooLong:
            return None

    def _close_calls(self, result: Callable[[ToolCall], ToolResult]) -> None:
        calls = self.session.open_calls
        if calls:
            self.session.record_results({call.id: result(call) for call in calls})

    def _run_calls(self, calls: Sequence[ToolCall]) -> Generator[AgentEvent, None, dict[str, ToolResult]]:
        """Run `calls` one after another and return their results; an interrupt gives the rest one too."""
        results: dict[str, ToolResult] = {}
        try:
            for call in calls:
                yield CallStarted(call)
                results[call.id] = self._run_call(call)
                yield CallFinished(call, results[call.id])
        except BaseException:
            rest = {call.id: interrupted(call) for call in calls if call.id not in results}
            with contextlib.suppress(PromptTooLong):  # then the next run closes them
                self.session.record_results(results | rest)
            raise
        return results

    def _run_call(self, call: ToolCall) -> ToolResult:
        tool = self.session.tools.get(call.name)
        if tool is not None and not call.error and not self._may_run(call, tool):
            return denied(call)
        return execute(self.session.tools, call, self._limits)

    def _may_run(self, call: ToolCall, tool: Tool) -> bool:
        if tool.effect is Effect.READ:
            return True
        answer: object = self._approve(call, tool)
        if isinstance(answer, bool):
            return answer
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError(f"approve answered {answer!r:.80}. Let it return True or False, from a plain function.")


def _forward(steps: Iterator[Step | Turn]) -> Generator[AgentEvent, None, Turn]:
    """Pass the steps of a turn on, and return the turn."""
    for step in steps:
        yield step
        if isinstance(step, Turn):
            return step
    raise AssertionError("a stream of steps ends with its turn")


def _chooser(tool_choice: ToolChoice | str | ChooseTools | None, session: Session) -> ChooseTools:
    if callable(tool_choice):
        return tool_choice
    if tool_choice is not None:
        choice = ToolChoice(tool_choice)
        return lambda turn: choice
    needs_choice = is_driven(session.sampling, session.engine.model_info, has_tools=bool(session.tools))
    return required_then_none(N_REQUIRED) if needs_choice else lambda turn: None


def _approver(approve: Approve | None, tools: Mapping[str, Tool]) -> Approve:
    if approve is not None:
        return approve
    if acting := [name for name, tool in tools.items() if tool.effect is not Effect.READ]:
        raise ValueError(
            f"{', '.join(acting)} may write or execute, and nobody is asked first. Give approve=your_function, or "
            "approve=ALLOW_ALL to let everything run."
        )
    return lambda call, tool: False  # a tool that came later


def _own_session(engine: Engine, session: Session | None, **options: Any) -> Session:
    if session is None:
        return Session(engine, **options)
    if session.engine is not engine:
        raise ValueError("the session was opened on another engine. Give the agent that one: Agent(session.engine, …).")
    if given := [name for name, value in options.items() if value]:
        raise ValueError(f"the session has its own {' and '.join(given)}. Give them to the session, not to the agent.")
    return session
