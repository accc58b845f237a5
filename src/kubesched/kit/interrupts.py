"""A thread that interrupts calls that exceed their time limit.

Owns the running calls of one thread, innermost last. A call in the main thread is interrupted by a
signal, which also ends most blocking calls; elsewhere by an exception that the interpreter raises.
The caller sets the limit and decides what an interruption means. Never ends a thread: a call that
cannot be interrupted is only reported.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from kubesched.kit.clock import Clock

_SIGNAL: Final = signal.SIGURG
"""Ignored by default, so that a late signal does no harm."""
_GRACE_S: Final = 1.0
"""How long a call may take to end after it was interrupted."""
_LOOK_S_MAX: Final = 0.5
_LOOK_S_MIN: Final = 0.005


class Interrupted(BaseException):  # As KeyboardInterrupt: `except Exception` must not catch it.
    """Raised inside a call that exceeds its limit."""


class Call:
    """A running call."""

    __slots__ = ("began_s", "is_due", "is_open", "is_stuck", "limit_s", "name", "start_s")

    def __init__(self, name: str, start_s: float, limit_s: float) -> None:
        self.name = name
        """The name in messages."""
        self.began_s = start_s
        self.start_s = start_s
        """When it began, plus the time of calls inside it, which count against their own limits."""
        self.limit_s = limit_s
        self.is_open = True
        """Whether it may still be interrupted."""
        self.is_due = False
        """Whether it is to be interrupted, but has not been yet."""
        self.is_stuck = False


class Interrupter:
    """Watches the calls of the thread that starts it."""

    def __init__(self, clock: Clock, on_stuck: Callable[[str, float, str], None]) -> None:
        """Create it; nothing is watched yet.

        Args:
            clock: Its monotonic time is used.
            on_stuck: Called in another thread with the name of a call that cannot be interrupted,
                the seconds that it has run for, and its stack; once for each call.
        """
        self._now_s = clock.monotonic_s
        self._on_stuck = on_stuck
        self._calls: list[Call] = []
        self._look_s = _LOOK_S_MAX
        self._lock = threading.Lock()
        """Held while the interpreter raises in the watched thread, and while that is withdrawn."""
        self._watched = 0
        self._by_signal = False
        self._old_handler: Any = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    # -- the watched thread -----------------------------------------------------------------------

    def start(self, limit_s_min: float) -> None:
        """Start watching this thread; no limit is smaller than `limit_s_min`."""
        self._look_s = min(max(limit_s_min / 20, _LOOK_S_MIN), _LOOK_S_MAX)
        if self._thread is not None:
            return
        self._watched = threading.get_ident()
        self._by_signal = threading.current_thread() is threading.main_thread()
        if self._by_signal:
            self._old_handler = signal.signal(_SIGNAL, self._on_signal)
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="interrupter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._ended.set()
        thread.join()
        if self._by_signal:
            signal.signal(_SIGNAL, self._old_handler or signal.SIG_DFL)

    def run(self, call: Call, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function; raise `Interrupted` if it exceeds its limit and can be ended."""
        calls = self._calls
        depth = len(calls)
        try:
            try:
                calls.append(call)
                return function(*arguments)
            finally:
                # From here on a signal no longer raises; one that arrives on this line still does.
                call.is_open = False
        finally:
            # Inline, without calls: the interpreter may also raise at the start of a function.
            try:
                call.is_open = False
                if not self._by_signal:
                    with self._lock:
                        if call.is_due:
                            _raise_in(self._watched, None)
            except Interrupted:
                pass  # It was raised after the call had returned.
            del calls[depth:]
            if calls:
                calls[-1].start_s += self._now_s() - call.began_s

    def problem(self) -> str | None:
        """Return which call does not return and cannot be interrupted; None if there is none."""
        call = self._innermost()
        return f"{call.name} does not return" if call is not None and call.is_stuck else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        call = self._innermost()
        if call is not None and call.is_due and call.is_open:
            call.is_due = False  # Once for each time it is due.
            raise Interrupted

    # -- the watching thread ----------------------------------------------------------------------

    def _innermost(self) -> Call | None:
        try:
            return self._calls[-1]
        except IndexError:
            return None

    def _run(self) -> None:
        while not self._ended.wait(self._look_s):
            call = self._innermost()
            if call is None:
                continue
            over_s = self._now_s() - call.start_s - call.limit_s
            if over_s > 0:
                self._interrupt(call)
            if over_s > _GRACE_S and not call.is_stuck:
                call.is_stuck = True
                self._on_stuck(call.name, over_s + call.limit_s, stack_of(self._watched))

    def _interrupt(self, call: Call) -> None:
        if self._by_signal:
            call.is_due = True
            signal.pthread_kill(self._watched, _SIGNAL)
            return
        with self._lock:
            if call.is_open and self._innermost() is call:
                call.is_due = True
                _raise_in(self._watched, Interrupted)


def stack_of(thread: int) -> str:
    """Return the stack of a thread as text; empty if it has ended."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # There is no public function.
    return "".join(traceback.format_stack(frame)) if frame is not None else ""


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raise an exception in a thread; None withdraws one that was not raised yet."""
    argument = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), argument)
