"""The watchdog reports once where the event loop is blocked, and nothing while it runs."""

from __future__ import annotations

import threading

import pytest

from kubesched.kit import watchdog
from kubesched.kit.watchdog import BLOCKED_S, Watchdog
from tests.clock import StillClock


def test_a_blocked_loop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, reported, reports = StillClock(), threading.Event(), []

    def say(still_s: float, stack: str) -> None:
        reports.append((still_s, stack))
        reported.set()

    monkeypatch.setattr(watchdog, "_LOOK_S", 0.001)
    dog = Watchdog(clock, say)
    try:
        clock.at_s = BLOCKED_S + 2
        assert reported.wait(10)
        assert dog.is_blocked
        still_s, stack = reports[0]
        assert still_s == BLOCKED_S + 2
        assert "test_a_blocked_loop_is_reported" in stack
        dog.beat()
        assert not dog.is_blocked
    finally:
        dog.stop()
    assert len(reports) == 1


def test_the_fallback_serves_while_the_loop_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stood, problems = StillClock(), threading.Event(), ["a plugin does not return"]
    reports: list[str] = []

    def fallback(problem: str) -> None:
        reports.append(problem)
        problems.clear()
        stood.set()

    monkeypatch.setattr(watchdog, "_LOOK_S", 0.001)
    dog = Watchdog(clock, lambda *_: None, lambda: problems[0] if problems else None)
    try:
        assert dog.problem() == "a plugin does not return"
        dog.fallback = fallback
        assert stood.wait(10)
        assert dog.problem() is None
        stood.clear()
        clock.at_s = BLOCKED_S + 2
        assert stood.wait(10)
        assert dog.problem() == "the event loop is blocked"
        dog.beat()
        assert dog.problem() is None
    finally:
        dog.stop()
    assert reports[0] == "a plugin does not return"
    assert set(reports[1:]) == {"the event loop is blocked"}
