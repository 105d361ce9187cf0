"""How a run looks: text for people, JSON Lines for programs. Results go to stdout, progress to stderr."""

import codecs
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Protocol

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from oasis_harness.agent import AgentEvent, CallFinished, CallStarted, Finished, Session, Turn
from oasis_harness.engine import Piece, Progress
from oasis_harness.tokens import SeamCount

from .terminal import Terminal, say, say_json

__all__ = ["JsonView", "TextView", "View", "seam_line", "turn_line"]

_N_SHOWN = 12
"""Lines of a tool's result that are shown; the model gets all of it."""
_STOPS = {
    "max_turns": "no turns left (--max-turns)",
    "length": "the answer was cut by its length limit (--max-tokens)",
    "window_full": "the context window is full",
}
"""What a run's end is called, where its reason alone does not say it."""
_TITLES = ("turn", "prompt", "expected", "reused", "prefilled", "sampled", "first token", "deficit")


class View(Protocol):
    """What a run is shown through."""

    def report(self, doing: str, share: float = 0.0) -> None:
        """Show a step that takes long, and how much of it is done."""

    def started(self, session: Session, explanation: str) -> None:
        """Show what runs."""

    def show(self, event: AgentEvent) -> None:
        """Show what happened."""

    def ended(self, session: Session) -> None:
        """Show the end."""

    def close(self) -> None:
        """Leave the terminal as it was found. Idempotent."""


def remarks(session: Session) -> Iterator[str]:
    """Yield what is done otherwise than the model's template would, for a person to know."""
    yield from session.dialect.certificate.remarks
    if session.dialect.switch is not None:
        yield f"{session.dialect.switch.name} is set, so that the template keeps what the model thought."


def turn_line(turn: Turn) -> str:
    """Return the one line a turn gets: how many tokens were expected to be reused, and how many were."""
    reuse = turn.reuse
    parts = [
        f"turn {turn.index}",
        f"{turn.usage.n_prompt:,} tokens",
        f"reused {reuse.reused:,} of {reuse.expected:,}",
        f"prefilled {reuse.prefilled:,}",
        f"first token {turn.timing.first_token_s:.2f} s",
    ]
    if reuse.deficit:
        parts.append(f"deficit {reuse.deficit:,} ({reuse.cause})")
    return " · ".join(parts)


def seam_line(seams: SeamCount) -> str:
    """Return the line that says where the ids of a conversation were joined, and how many joins another made."""
    parts = [
        f"seams {seams.special + seams.plain:,}",
        f"special {seams.special:,}",
        f"plain {seams.plain:,}",
        f"non-canonical {seams.non_canonical:,}",
    ]
    return " · ".join(parts)


class TextView:
    """Text on stdout, a prefill bar on stderr."""

    def __init__(self) -> None:
        self._out = Terminal()
        self._error = Terminal(is_stderr=True)
        self._bar = _Bar(self._error)
        self._decoder = _utf8_decoder()
        self._reported = ""

    def report(self, doing: str, share: float = 0.0) -> None:
        if doing != self._reported:
            self._bar.end()
            self._error.line(doing, "dim")
            self._reported = doing
        if 0.0 < share < 1.0:
            self._bar.show("fetched", share * 100, 100, "%")

    def started(self, session: Session, explanation: str) -> None:
        self.report(f"model {session.engine.model_info.name}, {len(session.tools)} tools")
        for remark in (explanation, *remarks(session)):
            if remark:
                self.report(remark)
        if session.recovery is not None:
            torn = session.recovery
            self.report(f"line {torn.line} was torn; its {torn.n_bytes} bytes are in {torn.aside.name}")

    def show(self, event: AgentEvent) -> None:
        if isinstance(event, Progress):
            self._bar.show("read", event.n_done, event.n_total, "tokens")
            return
        self._bar.end()
        if isinstance(event, Piece):
            say(self._decoder.decode(event.data), end="", flush=True)
        elif isinstance(event, Turn):
            say(self._decoder.decode(b"", final=True))
            self._decoder = _utf8_decoder()
            self._out.line(turn_line(event), "bold red" if event.reuse.is_fault else "cyan")
        elif isinstance(event, CallFinished):
            self._show_result(event)
        elif isinstance(event, Finished) and event.reason != "answered":
            self.report(f"stopped: {_STOPS.get(event.reason, event.reason)}")

    def ended(self, session: Session) -> None:
        self._out.table(_TITLES, _rows(session))
        self._out.line(seam_line(session.seams), "cyan")
        path = session.path
        if path is not None:
            self.report(f"conversation: {path}")

    def close(self) -> None:
        self._bar.end()

    def _show_result(self, event: CallFinished) -> None:
        lines = event.result.content.decode("utf-8", errors="replace").removesuffix("\n").split("\n")
        shown = lines[:_N_SHOWN]
        if len(lines) > _N_SHOWN:
            shown.append(f"… {len(lines) - _N_SHOWN} more lines")
        style = "red" if event.result.is_error else "green"
        self._out.line("\n".join(f"  │ {line}" for line in shown), style)


class _Bar:
    """A progress bar on a terminal, and nothing elsewhere."""

    def __init__(self, terminal: Terminal) -> None:
        self._console = terminal.console
        self._bar: Bar | None = None

    def show(self, doing: str, n_done: float, n_total: float, unit: str) -> None:
        if n_done >= n_total:
            self.end()
        elif self._console.is_terminal:
            bar = self._bar or self._start(doing, n_total, unit)
            bar.update(bar.task_ids[0], completed=n_done)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self, doing: str, n_total: float, unit: str) -> Bar:
        counts = TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit)
        self._bar = Bar(TextColumn(doing), BarColumn(), counts, console=self._console, transient=True)
        self._bar.add_task(doing, total=n_total)
        self._bar.start()
        return self._bar


class JsonView:
    """One JSON object a line on stdout, each with a `type`; pieces are left to the turn they end in."""

    def __init__(self) -> None:
        self._reported = ""

    def report(self, doing: str, share: float = 0.0) -> None:
        if doing != self._reported:
            say(doing, to_stderr=True)
            self._reported = doing

    def started(self, session: Session, explanation: str) -> None:
        torn = session.recovery
        _print(
            type="started",
            model=session.engine.model_info.name,
            tools=list(session.tools),
            explanation=explanation,
            remarks=list(remarks(session)),
            conversation=str(session.path or ""),
            torn={"line": torn.line, "n_bytes": torn.n_bytes, "aside": str(torn.aside)} if torn else None,
        )

    def show(self, event: AgentEvent) -> None:
        if isinstance(event, Turn):
            _print(type="turn", **asdict(event))
        elif isinstance(event, CallStarted):
            _print(type="call", **asdict(event.call))
        elif isinstance(event, CallFinished):
            content = event.result.content.decode("utf-8", errors="replace")
            _print(
                type="result",
                call_id=event.result.call_id,
                name=event.result.name,
                content=content,
                is_error=event.result.is_error,
            )
        elif isinstance(event, Finished):
            _print(type="finished", reason=event.reason, text=event.text)

    def ended(self, session: Session) -> None:
        deficit = sum(turn.reuse.deficit for turn in session.turns if turn.reuse.is_fault)
        _print(
            type="ended",
            turns=len(session.turns),
            deficit=deficit,
            cold=sum(turn.reuse.n_cold for turn in session.turns),
            seams=asdict(session.seams),
            conversation=str(session.path or ""),
        )

    def close(self) -> None:
        """Nothing is open."""


def _rows(session: Session) -> Iterator[list[str]]:
    for turn in session.turns:
        reuse = turn.reuse
        counts = (turn.usage.n_prompt, reuse.expected, reuse.reused, reuse.prefilled, turn.usage.n_sampled)
        cause = f" {reuse.cause}" if reuse.cause else ""
        numbers = [f"{count:,}" for count in counts]
        yield [str(turn.index), *numbers, f"{turn.timing.first_token_s:.2f} s", f"{reuse.deficit:,}{cause}"]


def _utf8_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _print(**fields: object) -> None:
    """Print one line of plain ASCII, which holds a lone surrogate as well."""
    say_json({key: _finite(value) for key, value in fields.items()}, is_ascii=True)


def _finite(value: object) -> object:
    """Return `value` with null for NaN and infinity, which JSON has no words for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
