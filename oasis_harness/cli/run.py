"""`oasis run`: one task, one agent, one line a turn."""

import contextlib
import datetime
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import platformdirs

from oasis_harness.agent import (
    ALLOW_ALL,
    N_REQUIRED,
    Agent,
    ChooseTools,
    Finished,
    ReasoningPolicy,
    Session,
    required_then_none,
)
from oasis_harness.embedded import open_engine
from oasis_harness.engine import Engine, Reuse, Sampling, ToolChoice
from oasis_harness.errors import OasisError, ReuseWarning
from oasis_harness.registry import Skills
from oasis_harness.toolbox import Sandbox, workspace_tools

from .approval import ask
from .views import JsonView, TextView, View

__all__ = [
    "SYSTEM",
    "RunOptions",
    "Strictness",
    "read_reasoning_policy",
    "read_sandbox",
    "read_strictness",
    "read_tool_choice",
    "run_task",
    "work",
]

SYSTEM = "You are a careful assistant working in a folder of files. Use the tools to look before you answer."


class Strictness(StrEnum):
    """What of a run is answered with exit code 3."""

    OFF = ""
    WARM = "warm"
    """A turn that read again what it should not have; one cold start a process is none of these."""
    COLD = "cold"
    """Any turn that read again what was sent before."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `oasis run`."""

    model: str
    workspace: Path
    allow_all: bool
    as_json: bool
    max_turns: int
    tool_choice: ToolChoice | ChooseTools | None
    strict: Strictness
    conversation: Path | None
    max_tokens: int
    skills: Path | None
    reasoning: ReasoningPolicy = ReasoningPolicy.RETAIN
    sandbox: Sandbox = Sandbox.AUTO
    has_network: bool = False


def run_task(task: str | None, options: RunOptions) -> int:
    """Open the engine and `work`; return the exit code."""
    if not options.workspace.is_dir():
        raise OasisError(f"{options.workspace} is no folder.", remedy="Name one with --workspace.")
    _require_something_to_do(task, options)
    with (
        contextlib.closing(_view(options)) as view,
        open_engine(options.model, report=view.report) as engine,
    ):
        return work(task, options, engine, view)


def work(task: str | None, options: RunOptions, engine: Engine, view: View) -> int:
    """Let `engine` work on `task`, or go on with a conversation, and show it.

    Returns 0 when it was answered or nothing was to do, 1 when it ended otherwise, 3 for what `Strictness` says.
    """
    warnings.simplefilter("ignore", ReuseWarning)  # every turn's line shows its deficit
    with _session(engine, options) as session:
        view.started(session, _explanation(session, options))
        if task is None and not session.open_calls and not session.is_waiting:
            view.report(f"nothing to do: {session.path} waits for no answer; say what to do: oasis run 'TASK'")
            return 0
        for call in session.open_calls:  # of a loaded file, which may be somebody else's: seen before it runs
            view.report(f"open call: {call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}")
        try:
            return _follow(task, options, session, view)
        except KeyboardInterrupt:
            view.report(f"\nconversation: {session.path}")
            raise


def _follow(task: str | None, options: RunOptions, session: Session, view: View) -> int:
    agent = Agent(
        session.engine,
        session=session,
        approve=ALLOW_ALL if options.allow_all else ask,
        tool_choice=options.tool_choice,
        max_turns=options.max_turns,
    )
    is_answered = False
    for event in agent.run(task) if task is not None else agent.resume():
        view.show(event)
        is_answered = isinstance(event, Finished) and event.reason == "answered"
    view.ended(session)
    if _is_missed([turn.reuse for turn in agent.turns], options.strict):
        return 3
    return 0 if is_answered else 1


def _is_missed(reuses: Sequence[Reuse], strict: Strictness) -> bool:
    n_allowed = 1 if strict is Strictness.WARM else 0
    is_cold = sum(reuse.n_cold > 0 for reuse in reuses) > n_allowed
    return strict is not Strictness.OFF and (is_cold or any(reuse.is_fault for reuse in reuses))


def _view(options: RunOptions) -> View:
    return JsonView() if options.as_json else TextView()


def _require_something_to_do(task: str | None, options: RunOptions) -> None:
    if task is not None:
        return
    if options.conversation is None or not options.conversation.is_file():
        raise OasisError("there is no task.", remedy="Say what to do: oasis run 'What does this folder hold?'")


def _session(engine: Engine, options: RunOptions) -> Session:
    path = options.conversation or _new_file()
    tools = workspace_tools(
        options.workspace,
        sandbox=options.sandbox,
        has_network=options.has_network,
        protected=[path, *([options.skills] if options.skills else [])],
    )
    skills = Skills([*Skills.shipped(), *(Skills.load(options.skills) if options.skills else ())])
    sampling = Sampling(max_tokens=options.max_tokens)
    if path.is_file() and path.stat().st_size:
        return Session.load(path, engine, tools=tools, skills=skills, reasoning=options.reasoning, sampling=sampling)
    return Session(
        engine, system=SYSTEM, tools=tools, skills=skills, path=path, reasoning=options.reasoning, sampling=sampling
    )


def _new_file() -> Path:
    folder = Path(platformdirs.user_state_dir("oasis-harness")) / "conversations"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.jsonl"


def read_reasoning_policy(wish: str) -> ReasoningPolicy:
    """Read `retain` or `epoch`."""
    if wish not in list(ReasoningPolicy):
        raise OasisError(f"--reasoning is {wish!r}.", remedy=f"Say {' or '.join(ReasoningPolicy)}.")
    return ReasoningPolicy(wish)


def read_strictness(wish: str) -> Strictness:
    """Read `warm`, `cold`, or nothing."""
    if wish not in list(Strictness):
        raise OasisError(f"--strict={wish} is unknown.", remedy="Say --strict, or --strict=cold.")
    return Strictness(wish)


def read_sandbox(wish: str) -> Sandbox:
    """Read `auto`, `bubblewrap`, `landlock` or `off`."""
    if wish not in list(Sandbox):
        raise OasisError(f"--sandbox is {wish!r}.", remedy=f"Say {', '.join(Sandbox)}.")
    return Sandbox(wish)


def read_tool_choice(wish: str) -> ToolChoice | ChooseTools | None:
    """Read `auto`, `required`, `none` or `required:N`; nothing leaves it to the agent."""
    kind, _, number = wish.partition(":")
    if not wish:
        return None
    if kind == ToolChoice.REQUIRED and number.isdecimal() and int(number) > 0:
        return required_then_none(int(number))
    if wish in tuple(ToolChoice):
        return ToolChoice(wish)
    raise OasisError(f"no tool choice {wish!r}.", remedy="Use auto, required, none, or required:N.")


def _explanation(session: Session, options: RunOptions) -> str:
    if options.tool_choice is not None or session.opens_calls:
        return ""
    return (
        f"this model never opens a call by itself: one is required of it for {N_REQUIRED} turns, then an answer "
        f"(--tool-choice required:{N_REQUIRED}); its replies are kept short"
    )
