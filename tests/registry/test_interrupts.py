"""Ending a call from outside: what it has started is ended, and what it starts later at once."""

import threading

from oasis_harness.registry import Interrupt, on_interrupt


def test_an_interrupt_runs_what_the_call_has_said_last() -> None:
    interrupt = Interrupt()
    ended: list[str] = []
    with interrupt.entered():
        with on_interrupt(lambda: ended.append("first")):
            pass
        with on_interrupt(lambda: ended.append("second")):
            interrupt.set()
    interrupt.set()
    assert ended == ["second"]


def test_what_starts_after_the_interrupt_is_ended_at_once() -> None:
    interrupt = Interrupt()
    ended: list[str] = []
    interrupt.set()
    with interrupt.entered(), on_interrupt(lambda: ended.append("late")):
        assert ended == ["late"]


def test_without_a_loop_nothing_interrupts() -> None:
    ended: list[str] = []
    with on_interrupt(lambda: ended.append("ended")):
        pass
    assert ended == []


def test_each_call_has_its_own() -> None:
    interrupt, ended = Interrupt(), threading.Event()

    def other() -> None:
        with on_interrupt(ended.set):
            interrupt.set()

    with interrupt.entered():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not ended.is_set()
