"""Calls that do not return are interrupted, wherever they run; what cannot be is told of."""

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
def started(told: list[str] | None = None) -> Iterator[Interrupter]:
    said = [] if told is None else told
    made = Interrupter(SystemClock(), lambda what, seconds, stack: said.append(f"{what}: {stack}"))
    made.start(LIMIT_S)
    try:
        yield made
    finally:
        made.stop()


def call(made: Interrupter, function: Callable[..., Any], limit_s: float = LIMIT_S) -> Any:
    return made.run(Call("it", SystemClock().monotonic_s(), limit_s), function)


def for_ever() -> None:
    while True:
        pass


def a_stubborn_loop() -> None:
    for _ in range(3):
        with suppress(BaseException):  # What a careless plugin does.
            for_ever()
    for_ever()


def blocked() -> None:
    threading.Event().wait()


def elsewhere(function: Callable[[], None]) -> None:
    """Run in a thread that is not the main one; what it raises is raised here."""
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


def here(function: Callable[[], None]) -> None:
    function()


@pytest.mark.parametrize("where", [here, elsewhere])
@pytest.mark.parametrize("endless", [for_ever, a_stubborn_loop])
def test_a_loop_without_end(where: Callable[..., None], endless: Callable[[], None]) -> None:
    def run() -> None:
        with started() as made:
            with pytest.raises(Interrupted):
                call(made, endless)
            assert call(made, lambda: 7) == 7

    where(run)


def test_a_blocking_call_of_the_main_thread() -> None:
    with started() as made, pytest.raises(Interrupted):
        call(made, blocked)


@pytest.mark.parametrize("where", [here, elsewhere])
def test_what_cannot_be_interrupted_is_told_of(
    where: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lock of the system's own: neither a signal nor the interpreter ends the waiting for it.
    monkeypatch.setattr(interrupts, "_GRACE_S", 0.02)
    system = ctypes.CDLL(None)
    lock = ctypes.create_string_buffer(64)
    system.pthread_mutex_lock(lock)
    told: list[str] = []
    problems: list[str | None] = []

    def run() -> None:
        with started(told) as made:

            def let_go() -> None:
                while made.problem() is None:
                    told_or_not.wait(0.01)
                problems.append(made.problem())
                system.pthread_mutex_unlock(lock)

            told_or_not = threading.Event()
            thread = threading.Thread(target=let_go)
            thread.start()
            with pytest.raises(Interrupted):
                call(made, lambda: system.pthread_mutex_lock(lock))
            thread.join()
            problems.append(made.problem())

    where(run)
    assert problems == ["it does not return", None]
    assert len(told) == 1
    assert "pthread_mutex_lock" in told[0]


@pytest.mark.parametrize("where", [here, elsewhere])
def test_an_interrupt_never_comes_after_the_call(where: Callable[..., None]) -> None:
    clock = SystemClock()

    def spin(until_s: float) -> None:
        while clock.monotonic_s() < until_s:
            pass

    def run() -> None:
        ended = {"answered": 0, "interrupted": 0}
        with started() as made:
            for place in range(150):
                # Around the moment at which the other thread looks.
                until_s = clock.monotonic_s() + 0.001 + place * 0.0001
                try:
                    call(made, lambda end_s=until_s: spin(end_s), limit_s=0.003)
                    ended["answered"] += 1
                except Interrupted:
                    ended["interrupted"] += 1
            spin(clock.monotonic_s() + 0.05)
        assert sum(ended.values()) == 150
        assert ended["answered"]

    where(run)


def test_what_a_call_inside_takes_is_its_own() -> None:
    clock = StillClock()
    made = Interrupter(clock, lambda what, seconds, stack: None)
    outer, inner = Call("outer", 0.0, 9.0), Call("inner", 2.0, 9.0)

    def inside() -> None:
        clock.at_s = 5.0

    def outside() -> None:
        clock.at_s = 2.0
        made.run(inner, inside)
        clock.at_s = 6.0

    made.run(outer, outside)
    assert clock.at_s - outer.start_s == 3.0


def test_nothing_is_left_behind_by_stopping() -> None:
    with started() as made:
        assert made.run(Call("it", 0.0, 1e9), lambda: 1) == 1
    made.stop()
    assert not any(thread.name == "interrupter" for thread in threading.enumerate())
