"""A plugin that does not return, controlled by an annotation of the pod.

`does: loop` loops for ever, `block` blocks for ever in Python, `swallow` loops and suppresses
exceptions, `lock` blocks uninterruptibly in C until the file `STUBBORN_KEY` exists, `nan` returns
NaN scores, and `slow` takes somewhat longer than its budget.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


class Stubborn:
    """Does not return, as the pod's annotation says."""

    name = "Stubborn"

    def __init__(self, handle: Any) -> None:
        self._clock = handle.clock
        self._key = Path(os.environ["STUBBORN_KEY"])
        self._system = ctypes.CDLL(None)
        self._lock = ctypes.create_string_buffer(64)
        self._system.pthread_mutex_lock(self._lock)
        threading.Thread(target=self._unlock_at_last, daemon=True).start()

    def _unlock_at_last(self) -> None:
        while not self._key.exists():
            threading.Event().wait(0.05)
        self._system.pthread_mutex_unlock(self._lock)

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        does = pod.annotations.get("does", "")
        if does == "loop":
            self._turn(float("inf"))
        elif does == "slow":
            self._turn(self._clock.monotonic_s() + 0.15)
        elif does == "block":
            threading.Event().wait()
        elif does == "swallow":
            self._turn_whatever_comes()
        elif does == "lock" and not self._key.exists():
            self._system.pthread_mutex_lock(self._lock)

    def _turn(self, until_s: float) -> None:
        while self._clock.monotonic_s() < until_s:
            pass

    def _turn_whatever_comes(self) -> None:
        for _ in range(3):
            with suppress(BaseException):  # A common mistake in plugins.
                self._turn(float("inf"))
        self._turn(float("inf"))

    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return float("nan") if pod.annotations.get("does") == "nan" else 1
