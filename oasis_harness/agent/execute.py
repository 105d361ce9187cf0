"""Run one call, whatever the tool does: its result, its error, its silence or its flood become a bounded text.

Truncated here, when it is recorded, never later: what was recorded is what stays in the prompt.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from oasis_harness.canonical import text_bytes
from oasis_harness.conversation import ToolResult
from oasis_harness.errors import BadArguments
from oasis_harness.registry import Interrupt, Tool, ToolRefused
from oasis_harness.replies import ToolCall

__all__ = ["Limits", "denied", "execute", "interrupted", "out_of_turns", "too_long"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one result may cost."""

    max_bytes: int = 16_000
    """Longer results keep their beginning and their end."""
    timeout_s: float = 300.0
    """After this the call is given up: what it started by way of `registry.on_interrupt` ends, its thread is left."""


_ENDING_S = 10.0
"""How long an interrupted call may take to end what it started."""


def execute(tools: Mapping[str, Tool], call: ToolCall, limits: Limits) -> ToolResult:
    """Run `call` and return its result; what went wrong is a result too."""
    if call.error:
        return _error(call, f"{call.error}. Write the call again, complete.")
    tool = tools.get(call.name)
    if tool is None:
        return _error(call, f"there is no tool {call.name!r}. There are: {', '.join(tools)}.")
    text, is_error = _run(tool, call, limits.timeout_s)
    content = _bounded(text_bytes(text), limits.max_bytes)
    return ToolResult(call.id, call.name, content, is_error)


def denied(call: ToolCall) -> ToolResult:
    """Return the result of a call that was not approved."""
    return _error(call, "the user did not allow this call. Go on without it, or say what you need it for.")


def interrupted(call: ToolCall) -> ToolResult:
    """Return the result of a call that the user interrupted."""
    return _error(call, "the user interrupted this call.")


def out_of_turns(call: ToolCall) -> ToolResult:
    """Return the result of a call that the run had no turn left for."""
    return _error(call, "the run ended before this call: it had no turns left.")


def too_long(call: ToolCall, n_tokens: object, n_context: object) -> ToolResult:
    """Return the result of a call whose true result does not fit the context window."""
    reason = f"with its result the prompt would have {n_tokens} tokens, and the window has {n_context}"
    return _error(call, f"{reason}. Ask for less at a time.")


def _error(call: ToolCall, message: str) -> ToolResult:
    return ToolResult(call.id, call.name, text_bytes(f"error: {message}"), is_error=True)


def _run(tool: Tool, call: ToolCall, timeout_s: float) -> tuple[str, bool]:
    """Run the tool on a thread of its own, so that one that hangs does not hang the loop."""
    done: list[tuple[str, bool]] = []
    interrupt, has_ended = Interrupt(), threading.Event()

    def work() -> None:
        with interrupt.entered():
            done.append(_attempt(tool, call))
        has_ended.set()

    threading.Thread(target=work, name=f"tool {tool.name}", daemon=True).start()
    try:
        has_ended.wait(timeout_s)  # an event: a thread whose join is interrupted counts as ended, in CPython 3.11
    except BaseException:
        interrupt.set()
        has_ended.wait(_ENDING_S)  # what is recorded as interrupted has ended by then
        raise
    if not has_ended.is_set():
        interrupt.set()
    return done[0] if done else (f"error: {tool.name} gave no result within {timeout_s:g} s", True)


def _attempt(tool: Tool, call: ToolCall) -> tuple[str, bool]:
    """Run the tool and return its text, and whether that says what went wrong."""
    try:
        return tool.call(call.arguments), False
    except (BadArguments, ToolRefused) as error:
        return f"error: {error}", True
    except BaseException as error:  # noqa: BLE001 - a tool is foreign code; the model reads what it raised
        return f"error: {type(error).__name__}: {error}", True


def _bounded(data: bytes, max_bytes: int) -> bytes:
    if len(data) <= max_bytes:
        return data
    half = max(1, max_bytes // 2)
    head = data[:half].decode("utf-8", errors="ignore").encode()
    tail = data[-half:].decode("utf-8", errors="ignore").encode()
    return head + f"\n[… {len(data) - len(head) - len(tail):,} bytes left out …]\n".encode() + tail
