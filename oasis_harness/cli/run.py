"""`oasis run`: one task, one agent, one line a turn."""

import datetime
import json
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from oasis_harness.agent import N_REQUIRED, Agent, ChooseTools, Finished, Session, Turn, required_then_none
from oasis_harness.embedded import open_engine
from oasis_harness.engine import Engine, Sampling, ToolChoice
from oasis_harness.errors import OasisError, ReuseWarning
from oasis_harness.registry import Skills, Tool
from oasis_harness.render import ToolCall
from oasis_harness.toolbox import workspace_tools

from .views import JsonView, TextView, View

__all__ = ["RunOptions", "run_task"]

_SYSTEM = "You are a careful assistant working in a folder of files. Use the tools to look before you answer."


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `oasis run`."""

    model: str
    workspace: Path
    allow_all: bool
    as_json: bool
    max_turns: int
    tool_choice: str
    strict: bool
    conversation: Path | None
    max_tokens: int
    skills: Path | None


def run_task(task: str | None, options: RunOptions) -> int:
    """Run `task`, or go on with a conversation; return 0 when answered, 1 out of turns, 3 a deficit under --strict."""
    view: View = JsonView() if options.as_json else TextView()
    if not options.workspace.is_dir():
        raise OasisError(f"{options.workspace} is no folder.", remedy="Name one with --workspace.")
    _require_something_to_do(task, options)
    tool_choice = _tool_choice(options.tool_choice)
    warnings.simplefilter("ignore", ReuseWarning)  # every turn's line shows its deficit
    with open_engine(options.model, report=view.report) as engine, _session(engine, options) as session:
        agent = Agent(
            engine,
            session=session,
            approve=None if options.allow_all else _ask,
            tool_choice=tool_choice,
            max_turns=options.max_turns,
        )
        view.started(session, _explanation(session, options))
        finished: Finished | None = None
        for event in agent.run(task) if task is not None else agent.resume():
            view.show(event)
            finished = event if isinstance(event, Finished) else finished
        view.ended(session)
        return _exit_code(agent.turns, finished, options.strict)


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
        return Session.load(path, engine, tools=tools, skills=skills, sampling=sampling)
    return Session(engine, system=_SYSTEM, tools=tools, skills=skills, path=path, sampling=sampling)


def _new_file() -> Path:
    folder = Path(platformdirs.user_state_dir("oasis-harness")) / "conversations"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.jsonl"


def _tool_choice(wish: str) -> ToolChoice | ChooseTools | None:
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
    if options.tool_choice or session.opens_calls:
        return ""
    return (
        f"this model never opens a call by itself: one is required of it for {N_REQUIRED} turns, then an answer "
        f"(--tool-choice required:{N_REQUIRED}); its replies are kept short"
    )


def _ask(call: ToolCall, tool: Tool) -> bool:
    """Ask on the terminal; without one, deny."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(
        f"\n{tool.name} wants to {tool.effect}: {json.dumps(dict(call.arguments), ensure_ascii=False)}", file=sys.stderr
    )
    return input("Allow? [y/N] ").strip().lower() in ("y", "yes")


def _exit_code(turns: Sequence[Turn], finished: Finished | None, strict: bool) -> int:
    if strict and any(turn.reuse.is_fault for turn in turns):
        return 3
    return 0 if finished is None or finished.reason == "answered" else 1
