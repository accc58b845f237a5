"""A thread that notices when the event loop stands still, and says where.

Owns the heartbeat of one loop. Never ends anything: it only tells what blocks.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from kubesched.kit.clock import Clock

BLOCKED_S: Final = 5.0
_LOOK_S: Final = 1.0


class Watchdog:
    """Watches over the thread that makes it; `beat` is to be called there, again and again."""

    def __init__(self, clock: Clock, say: Callable[[float, str], None]) -> None:
        """Begin to watch over this thread.

        Args:
            clock: The monotonic one counts.
            say: Is told, in the watchdog's thread, for how many seconds the loop has stood still
                and the stack where it does; once for each time.
        """
        self._clock = clock
        self._say = say
        self._watched = threading.get_ident()
        self._beat_s = clock.monotonic_s()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.is_blocked = False
        self._thread.start()

    def beat(self) -> None:
        """Say that the loop turns."""
        self._beat_s = self._clock.monotonic_s()
        self.is_blocked = False

    def stop(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            still_s = self._clock.monotonic_s() - self._beat_s
            if still_s > BLOCKED_S and not self.is_blocked:
                self.is_blocked = True
                frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # The way to see it.
                stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                self._say(still_s, stack)
