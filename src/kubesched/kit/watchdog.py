"""A thread that reports where the event loop is blocked.

Owns the heartbeat of one loop, and calls a fallback that serves while it is blocked. It only
reports, and ends nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from kubesched.kit.clock import Clock
from kubesched.kit.interrupts import stack_of

BEAT_S: Final = 0.5
BLOCKED_S: Final = 5.0
_LOOK_S: Final = 1.0


class Watchdog:
    """Watches the thread that creates it, which must call `beat` periodically."""

    def __init__(
        self,
        clock: Clock,
        on_blocked: Callable[[float, str], None],
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Start to watch this thread.

        Args:
            clock: Its monotonic time is used.
            on_blocked: Called in the watchdog's thread with the seconds for which the loop has been
                blocked and its stack; once for each time.
            problem: Returns what else blocks the loop; None while nothing does.
        """
        self._clock = clock
        self._on_blocked = on_blocked
        self._problem = problem
        self._watched = threading.get_ident()
        self._beat_s = clock.monotonic_s()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.is_blocked = False
        self.fallback: Callable[[str], None] | None = None
        """Called in the watchdog's thread with the problem, repeatedly while there is one; serves
        requests in the loop's place for a moment, and returns."""
        self._thread.start()

    def beat(self) -> None:
        """Report that the loop runs."""
        self._beat_s = self._clock.monotonic_s()
        self.is_blocked = False

    async def keep_beating(self, each_time: Callable[[], None]) -> None:
        """Beat periodically, and call a function each time, until canceled."""
        try:
            while True:
                await self._clock.sleep(BEAT_S)
                self.beat()
                each_time()
        finally:
            self.stop()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def problem(self) -> str | None:
        """Return why the loop is blocked; None while it is not."""
        return self._problem() or ("the event loop is blocked" if self.is_blocked else None)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self._look()
            while self.fallback is not None and not self._ended.is_set():
                problem = self.problem()
                if problem is None:
                    break
                self.fallback(problem)

    def _look(self) -> None:
        blocked_s = self._clock.monotonic_s() - self._beat_s
        if blocked_s > BLOCKED_S and not self.is_blocked:
            self.is_blocked = True
            self._on_blocked(blocked_s, stack_of(self._watched))
