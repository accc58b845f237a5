"""A thread that notices when the event loop stands still, and says where.

Owns the heartbeat of one loop, and the calling of whoever answers in its place meanwhile. Never
ends anything: it only tells what blocks.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from kubesched.kit.clock import Clock

BEAT_S: Final = 0.5
BLOCKED_S: Final = 5.0
_LOOK_S: Final = 1.0


class Watchdog:
    """Watches over the thread that makes it; `beat` is to be called there, again and again."""

    def __init__(
        self,
        clock: Clock,
        say: Callable[[float, str], None],
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Begin to watch over this thread.

        Args:
            clock: The monotonic one counts.
            say: Is told, in the watchdog's thread, for how many seconds the loop has stood still
                and the stack where it does; once for each time.
            problem: Tells what else keeps the loop from turning; None while nothing does.
        """
        self._clock = clock
        self._say = say
        self._problem = problem
        self._watched = threading.get_ident()
        self._beat_s = clock.monotonic_s()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.is_blocked = False
        self.stand_in: Callable[[str], None] | None = None
        """Is called in the watchdog's thread with the problem, again and again while there is one;
        it answers in the loop's place for a moment, and returns."""
        self._thread.start()

    def beat(self) -> None:
        """Say that the loop turns."""
        self._beat_s = self._clock.monotonic_s()
        self.is_blocked = False

    async def keep_beating(self, each_time: Callable[[], None]) -> None:
        """Say again and again that the loop turns, and do something each time; ends cancelled."""
        try:
            while True:
                await self._clock.sleep(BEAT_S)
                self.beat()
                each_time()
        finally:
            self.stop()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def problem(self) -> str | None:
        """Return why the loop does not turn; None while it does."""
        return self._problem() or ("the loop stands still" if self.is_blocked else None)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self._look()
            while self.stand_in is not None and not self._ended.is_set():
                problem = self.problem()
                if problem is None:
                    break
                self.stand_in(problem)

    def _look(self) -> None:
        still_s = self._clock.monotonic_s() - self._beat_s
        if still_s > BLOCKED_S and not self.is_blocked:
            self.is_blocked = True
            frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # The way to see it.
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            self._say(still_s, stack)
