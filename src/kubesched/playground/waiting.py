"""Waiting for what comes about elsewhere.

Owns how often it is looked. Never waits for a length of time: what is waited for has a name, and
the failure says it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from kubesched.kit.clock import SystemClock

_LOOK_S: Final = 0.02


def until(is_so: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something; AssertionError with what it was if it does not come."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + timeout_s
    looked = threading.Event()
    while not is_so():
        assert clock.monotonic_s() < deadline_s, f"it never came about: {what}"
        looked.wait(_LOOK_S)
