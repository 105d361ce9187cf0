"""`oasis run`: one task, one agent, one line a turn."""

import contextlib
import datetime
import json
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from oasis_harness.agent import N_REQUIRED, Agent, ChooseTools, Finished, ReasoningPolicy, Session, required_then_none
from oasis_harness.embedded import open_engine
from oasis_harness.engine import Engine, Sampling, ToolChoice
from oasis_harness.errors import OasisError, ReuseWarning
from oasis_harness.registry import Skills, Tool
from oasis_harness.replies import ToolCall
from oasis_harness.toolbox import workspace_tools

from .terminal import say
from .views import JsonView, TextView, View

__all__ = ["SYSTEM", "RunOptions", "ask", "read_reasoning_policy", "read_tool_choice", "run_task", "work"]

SYSTEM = "You are a careful assistant working in a folder of files. Use the tools to look before you answer."


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `oasis run`."""

    model: str
    workspace: Path
    allow_all: bool
    as_json: bool
    max_turns: int
    tool_choice: ToolChoice | ChooseTools | None
    strict: bool
    conversation: Path | None
    max_tokens: int
    skills: Path | None
    reasoning: ReasoningPolicy = ReasoningPolicy.RETAIN


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

    Returns 0 when it was answered or nothing was to do, 1 when it ended otherwise, 3 for a deficit under --strict.
    """
    warnings.simplefilter("ignore", ReuseWarning)  # every turn's line shows its deficit
    with _session(engine, options) as session:
        view.started(session, _explanation(session, options))
        if task is None and not session.open_calls and not session.is_waiting:
            view.report(f"nothing to do: {session.path} waits for no answer; say what to do: oasis run 'TASK'")
            return 0
        try:
            return _follow(task, options, session, view)
        except KeyboardInterrupt:
            view.report(f"\nconversation: {session.path}")
            raise


def _follow(task: str | None, options: RunOptions, session: Session, view: View) -> int:
    agent = Agent(
        session.engine,
        session=session,
        approve=None if options.allow_all else ask,
        tool_choice=options.tool_choice,
        max_turns=options.max_turns,
    )
    is_answered = False
    for event in agent.run(task) if task is not None else agent.resume():
        view.show(event)
        is_answered = isinstance(event, Finished) and event.reason == "answered"
    view.ended(session)
    if options.strict and any(turn.reuse.is_fault for turn in agent.turns):
        return 3
    return 0 if is_answered else 1


def _view(options: RunOptions) -> View:
    return JsonView() if options.as_json else TextView()


def _require_something_to_do(task: str | None, options: RunOptions) -> None:
    if task is not None:
        return
    if options.conversation is None or not options.conversation.is_file():
        raise OasisError("there is no task.", remedy="Say what to do: oasis run 'What does this folder hold?'")


def _session(engine: Engine, options: RunOptions) -> Session:
    tools = workspace_tools(options.workspace)
    skills = Skills([*Skills.shipped(), *(Skills.load(options.skills) if options.skills else ())])
    sampling = Sampling(max_tokens=options.max_tokens)
    path = options.conversation or _new_file()
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


def ask(call: ToolCall, tool: Tool) -> bool:
    """Ask on the terminal, by way of stderr; without a terminal, or at its end (Ctrl-D), deny."""
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return False
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    say(f"\n{tool.name} wants to {tool.effect}: {arguments}", to_stderr=True)
    say("Allow? [y/N] ", end="", to_stderr=True, flush=True)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        say(to_stderr=True)
        return False
