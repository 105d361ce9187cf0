"""The one thread that touches mlx.

MLX streams and lazy graphs belong to the thread that made them, so loading, converting and evaluating all happen here.
Callers hand over functions and get results or exceptions back.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from oasis_harness.errors import EngineClosed

__all__ = ["Worker"]

T = TypeVar("T")


class Worker:
    """A daemon thread that runs one function after another."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> "Future[T]":
        """Queue `job` and return its future.

        Raises:
            EngineClosed: The worker was closed.
        """
        if self._closed:
            raise EngineClosed("the engine is closed.", remedy="Open another one.")
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return future

    def run(self, job: Callable[[], T]) -> T:
        """Run `job` on the thread and return its result, or raise what it raised."""
        return self.submit(job).result()

    def close(self) -> None:
        """Finish the queued jobs and end the thread. Idempotent."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - it is raised again where result() is called
                future.set_exception(error)
