"""Calls that do not return are interrupted in any thread, or else reported."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from kubesched.kit import interrupts
from kubesched.kit.clock import SystemClock
from kubesched.kit.interrupts import Call, Interrupted, Interrupter
from tests.clock import StillClock

LIMIT_S = 0.05


@contextmanager
def started(reports: list[str] | None = None) -> Iterator[Interrupter]:
    received = [] if reports is None else reports
    interrupter = Interrupter(
        SystemClock(), lambda name, seconds, stack: received.append(f"{name}: {stack}")
    )
    interrupter.start(LIMIT_S)
    try:
        yield interrupter
    finally:
        interrupter.stop()


def call(interrupter: Interrupter, function: Callable[..., Any], limit_s: float = LIMIT_S) -> Any:
    return interrupter.run(Call("it", SystemClock().monotonic_s(), limit_s), function)


def for_ever() -> None:
    while True:
        pass


def a_stubborn_loop() -> None:
    for _ in range(3):
        with suppress(BaseException):  # As a careless plugin would.
            for_ever()
    for_ever()


def blocked() -> None:
    threading.Event().wait()


def in_another_thread(function: Callable[[], None]) -> None:
    """Run in another thread than the main one, and raise its exception here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as problem:  # noqa: BLE001 - handed over
            raised.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def in_this_thread(function: Callable[[], None]) -> None:
    function()


@pytest.mark.parametrize("run_in", [in_this_thread, in_another_thread])
@pytest.mark.parametrize("endless", [for_ever, a_stubborn_loop])
def test_an_endless_loop_is_interrupted(
    run_in: Callable[..., None], endless: Callable[[], None]
) -> None:
    def run() -> None:
        with started() as interrupter:
            with pytest.raises(Interrupted):
                call(interrupter, endless)
            assert call(interrupter, lambda: 7) == 7

    run_in(run)


def test_a_blocking_call_of_the_main_thread_is_interrupted() -> None:
    with started() as interrupter, pytest.raises(Interrupted):
        call(interrupter, blocked)


@pytest.mark.parametrize("run_in", [in_this_thread, in_another_thread])
def test_a_call_that_cannot_be_interrupted_is_reported(
    run_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lock of the C library: neither a signal nor the interpreter ends the wait for it.
    monkeypatch.setattr(interrupts, "_GRACE_S", 0.02)
    system = ctypes.CDLL(None)
    lock = ctypes.create_string_buffer(64)
    system.pthread_mutex_lock(lock)
    reports: list[str] = []
    problems: list[str | None] = []

    def run() -> None:
        with started(reports) as interrupter:

            def let_go() -> None:
                while interrupter.problem() is None:
                    pause.wait(0.01)
                problems.append(interrupter.problem())
                system.pthread_mutex_unlock(lock)

            pause = threading.Event()
            thread = threading.Thread(target=let_go)
            thread.start()
            with pytest.raises(Interrupted):
                call(interrupter, lambda: system.pthread_mutex_lock(lock))
            thread.join()
            problems.append(interrupter.problem())

    run_in(run)
    assert problems == ["it does not return", None]
    assert len(reports) == 1
    assert "pthread_mutex_lock" in reports[0]


@pytest.mark.parametrize("run_in", [in_this_thread, in_another_thread])
def test_an_interrupt_never_comes_after_the_call(run_in: Callable[..., None]) -> None:
    clock = SystemClock()

    def spin(until_s: float) -> None:
        while clock.monotonic_s() < until_s:
            pass

    def run() -> None:
        ended = {"answered": 0, "interrupted": 0}
        with started() as interrupter:
            for place in range(150):
                # Around the moment at which the other thread looks.
                until_s = clock.monotonic_s() + 0.001 + place * 0.0001
                try:
                    call(interrupter, lambda end_s=until_s: spin(end_s), limit_s=0.003)
                    ended["answered"] += 1
                except Interrupted:
                    ended["interrupted"] += 1
            spin(clock.monotonic_s() + 0.05)
        assert sum(ended.values()) == 150
        assert ended["answered"]

    run_in(run)


def test_a_nested_call_counts_against_its_own_limit() -> None:
    clock = StillClock()
    interrupter = Interrupter(clock, lambda name, seconds, stack: None)
    outer, inner = Call("outer", 0.0, 9.0), Call("inner", 2.0, 9.0)

    def inside() -> None:
        clock.at_s = 5.0

    def outside() -> None:
        clock.at_s = 2.0
        interrupter.run(inner, inside)
        clock.at_s = 6.0

    interrupter.run(outer, outside)
    assert clock.at_s - outer.start_s == 3.0


def test_stopping_restores_the_signal_handler() -> None:
    with started() as interrupter:
        assert interrupter.run(Call("it", 0.0, 1e9), lambda: 1) == 1
    interrupter.stop()
    assert not any(thread.name == "interrupter" for thread in threading.enumerate())
