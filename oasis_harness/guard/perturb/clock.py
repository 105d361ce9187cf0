"""Another time for one process: replaces the functions of `time` and the classes of `datetime` that read the clock.

The clock starts where it is told and runs on. Out of reach are C and Rust code that asks the system itself, child
processes, the times of files, and what imported the real `datetime` before this was installed. The idea, and the
instance check that lets foreign dates pass, are freezegun's.
"""

import datetime
import time
from collections.abc import Callable
from typing import Any

__all__ = ["START_S", "install_clock"]

START_S = 1_741_046_340
"""Monday, 3 March 2025, 23:59:00 UTC, in Unix time."""


def install_clock(start_s: float) -> None:
    """Let the clock of this process start at `start_s`, in Unix time."""
    begun_s = time.monotonic()

    def now() -> float:
        return start_s + time.monotonic() - begun_s

    _install_time(now)
    _install_datetime(now)


def _install_time(now: Callable[[], float]) -> None:
    for name in ("localtime", "gmtime", "ctime"):
        _put(name, _from_now(getattr(time, name), now))
    real_strftime, real_asctime, real_gettime = time.strftime, time.asctime, time.clock_gettime
    _put("time", now)
    _put("time_ns", lambda: int(now() * 1e9))
    _put("strftime", lambda form, moment=None: real_strftime(form, moment or time.localtime()))
    _put("asctime", lambda moment=None: real_asctime(moment or time.localtime()))
    _put("clock_gettime", lambda clock: now() if clock == time.CLOCK_REALTIME else real_gettime(clock))


def _put(name: str, function: Callable[..., object]) -> None:
    """Replace a function of `time` by one that, like it, does not bind where a class holds it (logging does)."""
    setattr(time, name, staticmethod(function))


def _from_now(real: Callable[..., object], now: Callable[[], float]) -> Callable[..., object]:
    return lambda moment_s=None: real(now() if moment_s is None else moment_s)


class _Passing(type):
    """Metaclass of a stand-in (not of its subclasses): instances and subclasses of the real class count as its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, vars(cls)["_real"]) if "_real" in vars(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, vars(cls)["_real"]) if "_real" in vars(cls) else super().__subclasscheck__(subclass)


def _install_datetime(now: Callable[[], float]) -> None:
    class Date(datetime.date, metaclass=_Passing):
        _real = datetime.date

        @classmethod
        def today(cls) -> Any:  # an instance of the real class or of a subclass, as the real one gives
            return cls.fromtimestamp(now())

    class Datetime(datetime.datetime, metaclass=_Passing):
        _real = datetime.datetime

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(now(), tz)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

    for name, kind in (("date", Date), ("datetime", Datetime)):
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = "datetime"
        setattr(datetime, name, kind)
