"""How a call that is under way is ended from outside.

A loop runs a tool on a thread of its own, and no exception reaches a thread. So a tool that starts a process says how
it is ended, for as long as that makes sense:

    with on_interrupt(process.kill):
        process.wait()

and the loop, when the user interrupts it or its patience is over, says that it is. Where nobody interrupts, as in a
call from a plain program, nothing happens.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Interrupt", "on_interrupt"]


class Interrupt:
    """One call's: the thread that runs the call enters it, the thread that waits for the call may set it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._is_set = False

    def set(self) -> None:
        """End what the call has started; what it starts from now on is ended at once."""
        with self._lock:
            self._is_set = True
            callbacks = self._callbacks.copy()
        for callback in callbacks:
            callback()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the interrupt of the call that runs in this thread."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @contextmanager
    def _calling(self, callback: Callable[[], None]) -> Iterator[None]:
        with self._lock:
            self._callbacks.append(callback)
            is_set = self._is_set
        try:
            if is_set:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)


_current: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)


@contextmanager
def on_interrupt(callback: Callable[[], None]) -> Iterator[None]:
    """Have `callback` run, on another thread, if the call is interrupted during the block."""
    interrupt = _current.get()
    if interrupt is None:
        yield
        return
    with interrupt._calling(callback):
        yield
