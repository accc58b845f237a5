"""The fence around a plugin of outside: its time budget, and the count of its faults.

Owns what a call may take, what a fault is called and what is said of it. A call over its budget
ends with a status that says so; one over ten budgets is interrupted, where the guard was started.
In-tree plugins have no fence and pay nothing.
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
"""What a call may take if nobody says otherwise.

Some twenty times what a filter for one node takes over 5,000 nodes; ten of them are less than what
the watchdog and leader election allow the loop to stand still.
"""
BUDGETS_MAX: Final = 10
"""After so many budgets a call is interrupted."""
_REPEATED: Final = frozenset(
    ("PreFilter", "Filter", "PreScore", "Score", "ScoreExtensionNormalize")
)
"""The points that may be asked a second time in one attempt: see `Fence.ask`."""

RAISED: Final = "raised"
NONSENSE: Final = "nonsense"
OVER_BUDGET: Final = "over_budget"
INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long calls of plugins may take, in seconds; 0 means any time."""

    default_s: float = BUDGET_S
    by_plugin: Mapping[str, float] = field(default_factory=dict)
    """What was said of single plugins; it goes before what a plugin says of itself."""

    def of(self, plugin: Any) -> float:
        """Return a plugin's budget; ValueError if what it says of itself makes no sense."""
        own: Any = getattr(plugin, "budget_s", None)
        if own is not None and not (isinstance(own, (int, float)) and 0 <= own < math.inf):
            raise ValueError(f"budget_s must be seconds, or 0 for any time, not {own!r}")
        return self.by_plugin.get(plugin.name, self.default_s if own is None else float(own))


class ErrorLog(Protocol):
    """Takes lines about what went wrong."""

    def error(self, message: str, /, *, err: str, **fields: object) -> None: ...


class FaultCounts(Protocol):
    """Counts what plugins of outside do wrong."""

    def show(self) -> None:
        """Show that there are none yet."""
        ...

    def count(self, plugin: str, point: str, profile: str, fault: str) -> None:
        """Count one fault."""
        ...


class Guard:
    """Makes the fences of a scheduler's plugins, and interrupts those that do not return."""

    def __init__(self, clock: Clock, log: ErrorLog, counts: FaultCounts) -> None:
        """Begin without fences, interrupting nobody.

        Args:
            clock: the monotonic one counts.
            log: where faults are told that no attempt ends by.
            counts: where faults are counted.
        """
        self.now_s = clock.monotonic_s
        self.log = log
        self.counts = counts
        self.interrupter = Interrupter(clock, self._say_stuck)
        self._budget_s_min = BUDGET_S
        self._is_started = self._has_fences = False

    def fence(self, profile: str, plugin: str, budget_s: float) -> Fence:
        """Return a fence for one plugin of a profile."""
        self.counts.show()
        if budget_s:
            self._budget_s_min = min(self._budget_s_min, budget_s)
        self._has_fences = True
        if self._is_started:
            self.start()
        return Fence(self, profile, plugin, budget_s)

    def start(self) -> None:
        """Interrupt, from now on, what this thread calls and does not return."""
        self._is_started = True
        if self._has_fences:
            self.interrupter.start(self._budget_s_min * BUDGETS_MAX)

    def stop(self) -> None:
        """Interrupt nobody any more."""
        self._is_started = False
        self.interrupter.stop()

    def problem(self) -> str | None:
        """Return which call can be neither waited for nor interrupted; None if all is well."""
        return self.interrupter.problem()

    def _say_stuck(self, what: str, seconds: float, stack: str) -> None:
        self.log.error(
            "A plugin does not return and cannot be interrupted",
            err=f"{what} does not return",
            seconds=round(seconds, 1),
            stack=stack,
        )


class Fence:
    """One plugin's time and faults in one profile."""

    def __init__(self, guard: Guard, profile: str, plugin: str, budget_s: float) -> None:
        self.plugin = plugin
        self.budget_s = budget_s
        self.attempt: Callable[[], int] | None = None
        """Tells attempts apart; None where nobody counts them."""
        self._guard = guard
        self._profile = profile
        self._limit_s = budget_s * BUDGETS_MAX or float("inf")
        self._slow: tuple[int, str, Status] | None = None
        """The attempt, the point and how it ended when a call was last over its budget."""
        self._failed: tuple[object, str, Exception | None] | None = None
        """The attempt's state, the point and what was raised when an answer was last no good."""

    def ask(
        self, point: str, method: str, call: Callable[..., Any], *arguments: Any, ends: bool = True
    ) -> Any:
        """Call a plugin; `StatusError` tells that its time was over.

        An attempt by kept verdicts that fails is made again in the ordinary way: what took too long
        or failed once is not called again in the same attempt, but fails as it did.

        Args:
            point: as metrics spell it.
            method: as the plugin spells it.
            call: what to call.
            arguments: to call it with.
            ends: whether a call over its budget fails, although it returned.
        """
        self._raise_if_slow(point)
        self._raise_if_failed(point, arguments)
        guard, what = self._guard, f'plugin "{self.plugin}": {method}()'
        under_way = Call(what, guard.now_s(), self._limit_s)
        try:
            answer = guard.interrupter.run(under_way, call, *arguments)
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
        took_s = guard.now_s() - under_way.start_s
        if self.budget_s and took_s > self.budget_s:
            text = f"{method}() took {_shown(took_s)}, its time budget is {_shown(self.budget_s)}"
            status = self._too_slow(point, OVER_BUDGET, text)
            if ends:
                raise StatusError(status)
            self.say(point, text)
        return answer

    def count(self, point: str, fault: str) -> None:
        """Count a fault."""
        self._guard.counts.count(self.plugin, point, self._profile, fault)

    def nonsense(self, point: str, text: str, arguments: Sequence[Any] = ()) -> StatusError:
        """Count an answer that makes no sense, to these arguments; return what to raise."""
        self.count(point, NONSENSE)
        problem = StatusError(error(text))
        self.keep_failure(point, arguments, problem)
        return problem

    def count_out_of_range(self, point: str, state: object) -> None:
        """Count scores that the score phase will refuse, once for an attempt."""
        failed = self._failed
        if failed is None or failed[0] is not state or failed[1] != point:
            self.count(point, NONSENSE)
            self._failed = (state, point, None)

    def keep_failure(self, point: str, arguments: Sequence[Any], problem: Exception) -> None:
        """Have the plugin fail in the same way, unasked, if asked again in the same attempt."""
        # Trials, as preemption makes them, have states of their own, and are asked each.
        if point in _REPEATED and arguments:
            self._failed = (arguments[0], point, problem)

    def say(self, point: str, text: str) -> None:
        """Log a fault that no attempt ends by."""
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
