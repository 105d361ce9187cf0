"""The agent: ask, run the calls, give all results back at once, until the model answers without a call."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oasis_harness.conversation import ToolResult
from oasis_harness.engine import Engine, Step, ToolChoice
from oasis_harness.registry import Effect, Skills, Tool, Tools
from oasis_harness.render import ToolCall

from .execute import Limits, denied, execute, interrupted, out_of_turns
from .session import Session
from .turn import Turn

__all__ = [
    "N_REQUIRED",
    "Agent",
    "AgentEvent",
    "CallFinished",
    "CallStarted",
    "ChooseTools",
    "Finished",
    "required_then_none",
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


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over."""

    reason: str
    """`answered`, or `max_turns`."""
    text: str


AgentEvent: TypeAlias = Step | Turn | CallStarted | CallFinished | Finished
Approve: TypeAlias = Callable[[ToolCall, Tool], bool]
ChooseTools: TypeAlias = Callable[[int], ToolChoice]
"""From the number of the turn in this run (from 1) to its tool choice."""


N_REQUIRED = 3
"""Turns in which a call is required of a model that never opens one by itself."""


def required_then_none(n_turns: int) -> ChooseTools:
    """Require a call in the first `n_turns`, then an answer: for models that never open a call by themselves."""
    return lambda turn: ToolChoice.REQUIRED if turn <= n_turns else ToolChoice.NONE


class Agent:
    """A model with tools, and a session.

    Args:
        engine: Who answers.
        system: The system text; constant for the whole conversation.
        tools: What may be called.
        skills: What can be read with `load_skill`.
        session: A session to go on with, instead of `system`, `tools` and `skills`.
        approve: Asked before a tool that writes or executes; without it, everything may run.
        tool_choice: The tool choice, or a function from the turn's number to it. Without one: `auto`, and for a model
            that never opens a call by itself, `required` for three turns and then `none`.
        max_turns: After so many turns a run ends, whatever the model still calls.
        limits: What one result may cost.
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
        self.session = session or Session(engine, system=system, tools=tools, skills=skills)
        self._approve = approve
        self._choose = _chooser(tool_choice, self.session)
        self._max_turns = max_turns
        self._limits = limits or Limits()

    @property
    def turns(self) -> list[Turn]:
        """The turns so far."""
        return self.session.turns

    def run(self, task: str) -> Iterator[AgentEvent]:
        """Work on `task` and yield what happens, the sampled pieces included; ends with Finished."""
        yield from self._loop(self.session.stream(task, tool_choice=self._choose(1)))

    def resume(self) -> Iterator[AgentEvent]:
        """Go on with a loaded session where it stopped: run its open calls, or let the model answer."""
        if self.session.open_calls:
            results = yield from self._run_calls(self.session.open_calls)
            yield from self._loop(self.session.stream_results(results, tool_choice=self._choose(1)))
        elif self.session.is_waiting:
            yield from self._loop(self.session.reply(tool_choice=self._choose(1)))

    def _loop(self, steps: Iterator[Step | Turn]) -> Iterator[AgentEvent]:
        for number in range(1, self._max_turns + 1):
            turn = yield from _forward(steps)
            if not turn.calls:
                yield Finished("answered", turn.text)
                return
            if number == self._max_turns:
                break
            results = yield from self._run_calls(turn.calls)
            steps = self.session.stream_results(results, tool_choice=self._choose(number + 1))
        self.session.record_results({call.id: out_of_turns(call) for call in turn.calls})
        yield Finished("max_turns", turn.text)

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
            self.session.record_results(results | rest)
            raise
        return results

    def _run_call(self, call: ToolCall) -> ToolResult:
        tool = self.session.tools.get(call.name)
        if tool is not None and not call.error and not self._may_run(call, tool):
            return denied(call)
        return execute(self.session.tools, call, self._limits)

    def _may_run(self, call: ToolCall, tool: Tool) -> bool:
        return tool.effect is Effect.READ or self._approve is None or self._approve(call, tool)


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
    if tool_choice is None and session.tools and not session.opens_calls:
        return required_then_none(N_REQUIRED)
    choice = ToolChoice(tool_choice or ToolChoice.AUTO)
    return lambda turn: choice
