"""A panic of a library written in Rust, made an error that the borders know.

tokenizers, tiktoken and llguidance report a defect of theirs, or a file they did not expect, by pyo3's PanicException:
a BaseException that no `except Exception` catches and no module exports. It would end the process with exit code 1.
"""

from collections.abc import Callable
from typing import TypeVar

__all__ = ["is_panic", "without_panics"]

T = TypeVar("T")


def is_panic(error: BaseException) -> bool:
    """Say whether `error` is a panic of a Rust library."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def without_panics(call: Callable[[], T]) -> T:
    """Return what `call` returns; for the border around it, a panic is a RuntimeError.

    Raises:
        RuntimeError: The library that was called panicked.
    """
    try:
        return call()
    except BaseException as error:
        if not is_panic(error):
            raise
        raise RuntimeError(f"the library panicked: {error}") from error
