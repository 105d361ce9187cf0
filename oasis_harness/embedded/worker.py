"""The one thread of a process that touches mlx.

MLX streams and lazy graphs belong to the thread that made them, so loading, converting and evaluating all happen here,
for every engine. The thread is never ended: MLX keeps compiled Python functions in thread-local storage, and its
destructor aborts the process when it meets an interpreter that is shutting down (seen with mlx 0.32.4).
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

__all__ = ["run", "submit"]

T = TypeVar("T")


def submit(job: Callable[[], T]) -> "Future[T]":
    """Queue `job` for the thread and return its future."""
    future: Future[T] = Future()
    _jobs().put((future, job))
    return future


def run(job: Callable[[], T]) -> T:
    """Run `job` on the thread and return its result, or raise what it raised. Not to be called from the thread."""
    return submit(job).result()


@cache
def _jobs() -> "queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]":
    jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
    threading.Thread(target=_work, args=(jobs,), name="oasis-mlx", daemon=True).start()
    return jobs


def _work(jobs: "queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]") -> None:
    while True:
        future, job = jobs.get()
        try:
            future.set_result(job())
        except BaseException as error:  # noqa: BLE001 - it is raised again where result() is called
            future.set_exception(error)
        del future, job  # or an idle thread would keep the last engine alive
