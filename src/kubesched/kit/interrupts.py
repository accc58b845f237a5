"""A thread that interrupts calls which do not return.

Owns the calls under way in one thread, innermost last, and the interrupting of one that is over its
limit: by a signal where that thread is the main one, which also ends most blocking calls, otherwise
by an exception that the interpreter raises there. What a limit is, and what an interrupted call
means, is the caller's. Never ends a thread: code that cannot be interrupted is only told of.
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
"""Ignored wherever nobody handles it, so that one that comes late does no harm."""
_GRACE_S: Final = 1.0
"""How long a call may take to end that was interrupted."""
_LOOK_S_MAX: Final = 0.5
_LOOK_S_MIN: Final = 0.005


class Interrupted(BaseException):  # As KeyboardInterrupt: nobody means it by `Exception`.
    """Raised inside a call that is over its limit."""


class Call:
    """A call under way."""

    __slots__ = ("began_s", "is_open", "is_stuck", "limit_s", "start_s", "wanted", "what")

    def __init__(self, what: str, start_s: float, limit_s: float) -> None:
        self.what = what
        """Names it in what is said of it."""
        self.began_s = start_s
        self.start_s = start_s
        """When it began, later by what calls inside it have taken: that is theirs."""
        self.limit_s = limit_s
        self.is_open = True
        """Whether it may still be interrupted."""
        self.wanted = False
        """Whether it is to be interrupted, and was not yet."""
        self.is_stuck = False


class Interrupter:
    """Watches over the calls of the thread that starts it."""

    def __init__(self, clock: Clock, say_stuck: Callable[[str, float, str], None]) -> None:
        """Watch over nothing yet.

        Args:
            clock: The monotonic one counts.
            say_stuck: Is told, in a thread of its own, of a call that cannot be interrupted: what
                it is, for how many seconds it has run, and the stack where it does; once for each.
        """
        self._now_s = clock.monotonic_s
        self._say_stuck = say_stuck
        self._calls: list[Call] = []
        self._look_s = _LOOK_S_MAX
        self._lock = threading.Lock()
        """Held while the interpreter is asked to raise, and while that is taken back."""
        self._watched = 0
        self._by_signal = False
        self._old_handler: Any = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    # -- the watched thread -----------------------------------------------------------------------

    def start(self, limit_s_min: float) -> None:
        """Watch over this thread from now on; no limit is smaller than `limit_s_min`."""
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
        """Watch no more."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._ended.set()
        thread.join()
        if self._by_signal:
            signal.signal(_SIGNAL, self._old_handler or signal.SIG_DFL)

    def run(self, call: Call, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function; `Interrupted` is raised if it is over its limit and could be ended."""
        calls = self._calls
        depth = len(calls)
        try:
            try:
                calls.append(call)
                return function(*arguments)
            finally:
                # From here on a signal raises no more; one at this very place is one in time.
                call.is_open = False
        finally:
            # All of this here, since the interpreter may also raise where a function begins.
            try:
                call.is_open = False
                if not self._by_signal:
                    with self._lock:
                        if call.wanted:
                            _raise_in(self._watched, None)
            except Interrupted:
                pass  # It came after all, when the call had its answer; it is not wanted any more.
            del calls[depth:]
            if calls:
                calls[-1].start_s += self._now_s() - call.began_s

    def problem(self) -> str | None:
        """Return which call can be neither waited for nor interrupted; None if all is well."""
        call = self._innermost()
        return f"{call.what} does not return" if call is not None and call.is_stuck else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        call = self._innermost()
        if call is not None and call.wanted and call.is_open:
            call.wanted = False  # Once for each time it is wanted.
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
                self._say_stuck(call.what, over_s + call.limit_s, self._stack())

    def _interrupt(self, call: Call) -> None:
        if self._by_signal:
            call.wanted = True
            signal.pthread_kill(self._watched, _SIGNAL)
            return
        with self._lock:
            if call.is_open and self._innermost() is call:
                call.wanted = True
                _raise_in(self._watched, Interrupted)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # The way to see it.
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Have the interpreter raise an exception in a thread; None takes back one not raised yet."""
    given = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
