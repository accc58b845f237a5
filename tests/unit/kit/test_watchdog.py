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
