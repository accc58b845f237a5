"""The watchdog says where a loop stands still, once, and keeps quiet while it turns."""

from __future__ import annotations

import threading

import pytest

from kubesched.kit import watchdog
from kubesched.kit.watchdog import BLOCKED_S, Watchdog
from tests.clock import StillClock


def test_a_loop_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said, told = StillClock(), threading.Event(), []

    def say(still_s: float, stack: str) -> None:
        told.append((still_s, stack))
        said.set()

    monkeypatch.setattr(watchdog, "_LOOK_S", 0.001)
    dog = Watchdog(clock, say)
    try:
        clock.at_s = BLOCKED_S + 2
        assert said.wait(10)
        assert dog.is_blocked
        still_s, stack = told[0]
        assert still_s == BLOCKED_S + 2
        assert "test_a_loop_that_stands_still" in stack
        dog.beat()
        assert not dog.is_blocked
    finally:
        dog.stop()
    assert len(told) == 1


def test_somebody_stands_in_for_a_loop_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stood, problems = StillClock(), threading.Event(), ["a plugin does not return"]
    told: list[str] = []

    def stand_in(problem: str) -> None:
        told.append(problem)
        problems.clear()
        stood.set()

    monkeypatch.setattr(watchdog, "_LOOK_S", 0.001)
    dog = Watchdog(clock, lambda *_: None, lambda: problems[0] if problems else None)
    try:
        assert dog.problem() == "a plugin does not return"
        dog.stand_in = stand_in
        assert stood.wait(10)
        assert dog.problem() is None
        stood.clear()
        clock.at_s = BLOCKED_S + 2
        assert stood.wait(10)
        assert dog.problem() == "the loop stands still"
        dog.beat()
        assert dog.problem() is None
    finally:
        dog.stop()
    assert told[0] == "a plugin does not return"
    assert set(told[1:]) == {"the loop stands still"}
