"""The sandbox of an out-of-tree plugin: its time budget, and the count of its faults.

A call over its budget ends with an error status. A call over ten budgets is interrupted, if the
guard was started. In-tree plugins have no sandbox, and no overhead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kubesched.framework.status import Status, StatusError, error
from kubesched.kit.clock import Clock
from kubesched.kit.interrupts import Call, Interrupted, Interrupter

BUDGET_S: Final = 0.4
"""The default time budget of a call.

About twenty times what a node-by-node filter takes over 5,000 nodes. Ten budgets are less than the
time for which the watchdog and leader election tolerate a blocked loop.
"""
BUDGETS_MAX: Final = 10
"""Number of budgets after which a call is interrupted."""
_REPEATED: Final = frozenset(
    ("PreFilter", "Filter", "PreScore", "Score", "ScoreExtensionNormalize")
)
"""The extension points that may run twice in one attempt: see `Sandbox.call`."""

RAISED: Final = "raised"
INVALID_RESULT: Final = "invalid_result"
OVER_BUDGET: Final = "over_budget"
INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class Budgets:
    """Time budgets of plugin calls in seconds; 0 means no limit."""

    default_s: float = BUDGET_S
    by_plugin: Mapping[str, float] = field(default_factory=dict)
    """Configured budgets of single plugins; they override the plugin's own `budget_s`."""

    def of(self, plugin: Any) -> float:
        """Return a plugin's budget; ValueError if its own `budget_s` is invalid."""
        own: Any = getattr(plugin, "budget_s", None)
        if own is not None and not (isinstance(own, (int, float)) and 0 <= own < math.inf):
            raise ValueError(f"budget_s must be seconds, or 0 for any time, not {own!r}")
        return self.by_plugin.get(plugin.name, self.default_s if own is None else float(own))


class ErrorLog(Protocol):
    """A logger of errors."""

    def error(self, message: str, /, *, err: str, **fields: object) -> None: ...


class FaultCounts(Protocol):
    """Counts the faults of out-of-tree plugins."""

    def show(self) -> None:
        """Expose the metric before the first fault."""
        ...

    def count(self, plugin: str, point: str, profile: str, fault: str) -> None:
        """Count one fault."""
        ...


class Guard:
    """Creates the sandboxes of a scheduler, and interrupts calls that do not return."""

    def __init__(self, clock: Clock, log: ErrorLog, counts: FaultCounts) -> None:
        """Create a guard without sandboxes; it interrupts nothing before `start`.

        Args:
            clock: The clock; its monotonic time counts.
            log: Where faults are logged that do not end an attempt.
            counts: Where faults are counted.
        """
        self.now_s = clock.monotonic_s
        self.log = log
        self.counts = counts
        self.interrupter = Interrupter(clock, self._log_stuck)
        self._budget_s_min = BUDGET_S
        self._is_started = self._has_sandboxes = False

    def sandbox(self, profile: str, plugin: str, budget_s: float) -> Sandbox:
        """Return the sandbox of one plugin of a profile."""
        self.counts.show()
        if budget_s:
            self._budget_s_min = min(self._budget_s_min, budget_s)
        self._has_sandboxes = True
        if self._is_started:
            self.start()
        return Sandbox(self, profile, plugin, budget_s)

    def start(self) -> None:
        """Start to interrupt calls of this thread that do not return."""
        self._is_started = True
        if self._has_sandboxes:
            self.interrupter.start(self._budget_s_min * BUDGETS_MAX)

    def stop(self) -> None:
        """Stop interrupting calls."""
        self._is_started = False
        self.interrupter.stop()

    def problem(self) -> str | None:
        """Return which call does not return and cannot be interrupted; None for none."""
        return self.interrupter.problem()

    def _log_stuck(self, call: str, seconds: float, stack: str) -> None:
        text = "A plugin does not return and cannot be interrupted"
        err = f"{call} does not return"
        self.log.error(text, err=err, seconds=round(seconds, 1), stack=stack)


class Sandbox:
    """Times the calls of one plugin in one profile, and counts its faults."""

    def __init__(self, guard: Guard, profile: str, plugin: str, budget_s: float) -> None:
        self.plugin = plugin
        self.budget_s = budget_s
        self.attempt: Callable[[], int] | None = None
        """Returns the number of the current attempt; None if attempts are not counted."""
        self._guard = guard
        self._profile = profile
        self._limit_s = budget_s * BUDGETS_MAX or math.inf
        self._slow: tuple[int, str, Status] | None = None
        """Attempt, extension point and status of the last call over its budget."""
        self._failed: tuple[object, str, Exception | None] | None = None
        """CycleState, extension point and exception of the last failed call."""

    def call(
        self,
        point: str,
        method: str,
        run: Callable[..., Any],
        *arguments: Any,
        fails_if_slow: bool = True,
    ) -> Any:
        """Call a method of the plugin; raise `StatusError` if it exceeds its time budget.

        An attempt with cached verdicts that fails is repeated without them. A call that was too
        slow or failed is not repeated in the same attempt, but fails in the same way.

        Args:
            point: The extension point, as metrics name it.
            method: The name of the method.
            run: The method.
            arguments: Its arguments.
            fails_if_slow: Whether a call that returns after its budget fails.
        """
        self._raise_if_slow(point)
        self._raise_if_failed(point, arguments)
        guard = self._guard
        call = Call(f'plugin "{self.plugin}": {method}()', guard.now_s(), self._limit_s)
        try:
            result = guard.interrupter.run(call, run, *arguments)
        except Interrupted:
            text = (
                f"{method}() did not return within {_shown(self._limit_s)}, ten times its time "
                "budget, and was interrupted"
            )
            raise StatusError(self._too_slow(point, INTERRUPTED, text)) from None
        except StatusError:
            raise
        except Exception as problem:
            self.count(point, RAISED)
            self.keep_failure(point, arguments, problem)
            raise
        took_s = guard.now_s() - call.start_s
        if self.budget_s and took_s > self.budget_s:
            text = f"{method}() took {_shown(took_s)}, its time budget is {_shown(self.budget_s)}"
            status = self._too_slow(point, OVER_BUDGET, text)
            if fails_if_slow:
                raise StatusError(status)
            self.log_fault(point, text)
        return result

    def count(self, point: str, fault: str) -> None:
        """Count a fault."""
        self._guard.counts.count(self.plugin, point, self._profile, fault)

    def invalid_result(self, point: str, text: str, arguments: Sequence[Any] = ()) -> StatusError:
        """Count an invalid result of a call; return the exception to raise."""
        self.count(point, INVALID_RESULT)
        problem = StatusError(error(text))
        self.keep_failure(point, arguments, problem)
        return problem

    def count_out_of_range(self, point: str, state: object) -> None:
        """Count scores that the score phase will reject, once per attempt."""
        failed = self._failed
        if failed is None or failed[0] is not state or failed[1] != point:
            self.count(point, INVALID_RESULT)
            self._failed = (state, point, None)

    def keep_failure(self, point: str, arguments: Sequence[Any], problem: Exception) -> None:
        """Make the same call fail in the same way in the rest of the attempt."""
        # Preemption's trials have states of their own, and call the plugin each time.
        if point in _REPEATED and arguments:
            self._failed = (arguments[0], point, problem)

    def log_fault(self, point: str, text: str) -> None:
        """Log a fault that does not end an attempt."""
        log = self._guard.log
        log.error("Plugin failed", err=text, plugin=self.plugin, extensionPoint=point)

    def _too_slow(self, point: str, fault: str, text: str) -> Status:
        self.count(point, fault)
        status = error(text)
        if self.attempt is not None and point in _REPEATED:
            self._slow = (self.attempt(), point, status)
        return status

    def _raise_if_slow(self, point: str) -> None:
        slow = self._slow
        if slow is None or self.attempt is None:
            return
        if slow[0] != self.attempt():
            self._slow = None
        elif slow[1] == point:
            raise StatusError(slow[2])

    def _raise_if_failed(self, point: str, arguments: Sequence[Any]) -> None:
        failed = self._failed
        if failed is None or point not in _REPEATED:
            return
        state, failed_point, problem = failed
        if state is not arguments[0]:
            self._failed = None
        elif failed_point == point and problem is not None:
            raise problem


def _shown(seconds: float) -> str:
    return f"{seconds:.3g}s" if seconds >= 1 else f"{seconds * 1000:.3g}ms"
