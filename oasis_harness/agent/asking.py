"""One call of the engine: what it is asked, its reply recorded, its reuse checked.

What is expected, all that was sent and sampled before less what is pending, is known before the call; what was reused
is the engine's count. A deficit is warned of or raised after the reply was recorded, so that nothing sampled is lost.
"""

import uuid
from collections.abc import Generator, Iterator
from threading import RLock

from oasis_harness.engine import (
    Completion,
    Engine,
    Policy,
    Prompt,
    Reuse,
    Sampling,
    Step,
    ToolChoice,
    check_reuse,
    measure_reuse,
)

from .recorder import Recorder
from .turn import Turn

__all__ = ["Asking", "last_value"]


class Asking:
    """Asks `engine` for the conversation of `recorder`; `writing` is held while a reply is appended."""

    def __init__(self, engine: Engine, recorder: Recorder, writing: "RLock") -> None:
        self.turns: list[Turn] = []
        self.is_closed = False
        self._engine = engine
        self._recorder = recorder
        self._writing = writing
        self.key = uuid.uuid4().hex
        """What the engine calls this conversation; never sent."""
        self._was_asked = False
        self._has_failed = False

    def answer(self, sampling: Sampling, policy: Policy) -> Generator[Step, None, Turn | None]:
        """Ask, step by step, record the reply, and return the turn; None where the session was closed meanwhile."""
        conversation = self._recorder.conversation
        expected = conversation.n_expected
        # Until its reply is recorded, nothing is expected of this call; the one after it counts as a first one.
        is_first_call, self._was_asked = not self._was_asked, False
        is_retry, self._has_failed = self._has_failed, True
        steps = self._engine.generate(Prompt(self.key, conversation.ids), sampling)
        completion: Completion | None = None
        turn: Turn | None = None
        try:
            for step in steps:
                if isinstance(step, Completion):
                    completion = step
                else:
                    yield step
        except Exception:
            raise  # the engine's own; it knows what it holds
        except BaseException:
            completion = completion or self._cancelled(steps)
            raise
        finally:
            with self._writing:
                if completion is not None and not self.is_closed:
                    reuse = measure_reuse(expected, completion, is_first_call=is_first_call, is_retry=is_retry)
                    turn = self._record(completion, reuse, sampling.tool_choice, policy)
        return turn

    def share(self, branch: "Asking") -> None:
        """Let `branch` reuse what the engine holds of this conversation, where it is of the same epoch."""
        mine, theirs = self._recorder.conversation, branch._recorder.conversation
        if self._was_asked and theirs.tip.epoch == mine.tip.epoch:  # the engine holds no other
            branch._was_asked = self._engine.fork(self.key, branch.key, theirs.n_expected)

    def close(self) -> None:
        """Cancel what runs, and let the engine forget the conversation."""
        with self._writing:  # a reply that is being recorded is recorded whole
            self.is_closed = True
        self._engine.cancel(self.key)
        self._engine.forget(self.key)

    def _cancelled(self, steps: Iterator[Step]) -> Completion | None:
        """Cancel the running call and take its completion; without one, the engine forgets what nobody recorded."""
        try:
            self._engine.cancel(self.key)
            return next((step for step in steps if isinstance(step, Completion)), None)
        except BaseException:
            self._engine.forget(self.key)
            raise

    def _record(self, completion: Completion, reuse: Reuse, tool_choice: ToolChoice, policy: Policy) -> Turn:
        """Append the reply, then check the reuse: a deficit under `raise` must not lose what was sampled."""
        try:
            parsed = self._recorder.reply(completion, tool_choice)
        except BaseException:
            self._engine.forget(self.key)
            raise
        self._was_asked, self._has_failed = True, False
        turn = Turn.of(len(self.turns) + 1, parsed, completion, reuse)
        self.turns.append(turn)
        check_reuse(reuse, policy)
        return turn


def last_value(steps: Generator[Step, None, Turn | None]) -> Turn | None:
    """Run `steps` to their end and return what they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            turn: Turn | None = end.value
            return turn
