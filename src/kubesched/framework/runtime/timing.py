"""Metrics of a profile's extension points and plugins.

Owns the three metrics of upstream's runtime, for one profile: durations by extension point, sampled
durations by plugin, evaluations by plugin. Never touches the results of plugins.
Upstream: pkg/scheduler/framework/runtime/framework.go, instrumented_plugins.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.adapters import guarded
from kubesched.framework.runtime.bind_phase import Call, Parallelizer
from kubesched.framework.status import Code, Status
from kubesched.metrics.instruments import Counter, Gauge, Histogram, HistogramVec
from kubesched.metrics.scheduler import SchedulerMetrics

AnswerT = TypeVar("AnswerT")

SAMPLED_ONE_IN: Final = 10
"""One attempt in this number has each of its plugin calls measured."""
_POINTS: Final = (
    *("PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Unreserve", "Permit"),
    *("PreBindPreFlight", "PreBind", "Bind", "PostBind"),
)
_EVALUATED: Final = {
    "PreFilter": "preFilter",
    "Filter": "filter",
    "PreScore": "preScore",
    "Score": "score",
}
"""The points whose evaluations are counted, with their names in a configuration."""
_CODES: Final = {code: code.wire_name for code in Code}


@dataclass(slots=True)
class PluginTimes:
    """Measures the plugin calls of a sampled attempt."""

    _durations: HistogramVec
    _now_s: Callable[[], float]

    def call(self, point: str, plugin: str, run: Callable[..., Any], *arguments: Any) -> Any:
        """Call a plugin, guarded."""
        start_s = self._now_s()
        answer = guarded(run, *arguments)
        self.observe(point, plugin, answer, self._now_s() - start_s)
        return answer

    async def wait(self, point: str, plugin: str, answer: Awaitable[Any]) -> Any:
        """Wait for a plugin's result, which never raises."""
        start_s = self._now_s()
        result = await answer
        self.observe(point, plugin, result, self._now_s() - start_s)
        return result

    def observe(self, point: str, plugin: str, answer: Any, elapsed_s: float) -> None:
        """Record the duration of a call."""
        self._durations.labels(plugin, point, code_of(answer)).observe(elapsed_s)


class Point(dict[str, Histogram]):
    """The durations of one extension point by result; a series exists from its first use on."""

    def __init__(self, metric: HistogramVec, name: str, profile: str) -> None:
        super().__init__()
        self._metric = metric
        self._name = name
        self._profile = profile

    def __missing__(self, code: str) -> Histogram:
        histogram = self[code] = self._metric.labels(self._name, code, self._profile)
        return histogram


@dataclass(slots=True)
class Tally:
    """Attempts with kept verdicts that skipped the same plugins, not added to the metrics yet."""

    attempts: int = 0
    visited: int = 0
    """The number of filtered nodes."""
    scored_attempts: int = 0
    scored: int = 0
    """The number of scored nodes."""
    no_pre_filters: int = 0
    """Attempts in which no PreFilter plugin ran."""
    no_pre_scores: int = 0


@dataclass(slots=True)
class CountingParallelizer:
    """Runs calls in parallel, and counts those that run; a single call does not count."""

    _parallelizer: Parallelizer
    _running: Gauge

    async def run(self, calls: Sequence[Call]) -> tuple[int, Status] | None:
        """Run the calls."""
        count = len(calls) if len(calls) > 1 else 0  # As upstream.
        self._running.inc(count)
        try:
            return await self._parallelizer.run(calls)
        finally:
            self._running.dec(count)


class Measuring:
    """Measures the attempts of one profile.

    An attempt with kept verdicts marks the end of each phase, and is recorded as a whole.
    """

    def __init__(
        self,
        metrics: SchedulerMetrics,
        profile: str,
        plugins: Mapping[str, Sequence[str]],
        now_s: Callable[[], float],
    ) -> None:
        """Start at zero; `plugins` has names by extension point, as in a configuration."""
        self.now_s = now_s
        durations = metrics.framework_extension_point_duration_seconds
        self._points = {name: Point(durations, name, profile) for name in _POINTS}
        self._plugin_times = PluginTimes(metrics.plugin_execution_duration_seconds, now_s)
        self.attempts = 0
        """The number of attempts that have begun."""
        self._tallies: dict[tuple[frozenset[str], frozenset[str]], Tally] = {}
        """By the skipped filters and scores."""
        self._counters: dict[str, dict[str, Counter]] = {
            point: {
                name: metrics.plugin_evaluation_total.labels(name, point, profile)
                for name in plugins.get(spelled, ())
            }
            for point, spelled in _EVALUATED.items()
        }
        self._goroutines = metrics.goroutines
        for operation in ("Filter", "Score"):
            # They run in the thread that serves metrics: a reader never finds one running.
            metrics.goroutines.labels(operation).set(0)
        self._began_s = self._pre_filtered_s = self._filtered_s = self._pre_scored_s = 0.0
        metrics.measures.before_look(self.fold)

    # -- points -----------------------------------------------------------------------------------

    def sample(self, state: CycleState) -> None:
        """Measure each plugin call of this attempt, if it is one in ten."""
        self.attempts += 1
        if self.attempts % SAMPLED_ONE_IN == 0:  # Upstream samples by chance.
            state.plugin_times = self._plugin_times

    def run(self, point: str, call: Callable[..., AnswerT], *arguments: Any) -> AnswerT:
        """Run a point, and record its duration and result."""
        start_s = self.now_s()
        answer = call(*arguments)
        code = "Success" if answer is None else code_of(answer)
        self._points[point][code].observe(self.now_s() - start_s)
        return answer

    async def wait(self, point: str, answer: Awaitable[AnswerT]) -> AnswerT:
        """Wait for a point, and record its duration and result."""
        start_s = self.now_s()
        result = await answer
        self.observe(point, code_of(result), self.now_s() - start_s)
        return result

    def observe(self, point: str, code: str, elapsed_s: float) -> None:
        """Record the duration of a point."""
        self._points[point][code].observe(elapsed_s)

    def passed(self, point: str) -> None:
        """Record a point without plugins."""
        self._points[point]["Success"].observe(0.0)

    def counting(self, parallelizer: Parallelizer) -> CountingParallelizer:
        """Return a parallelizer that counts the PreBind plugins that run."""
        return CountingParallelizer(parallelizer, self._goroutines.labels("PreBind"))

    # -- evaluations ------------------------------------------------------------------------------

    def evaluated(
        self, point: str, skipped: frozenset[str], times: int = 1, last: str = ""
    ) -> None:
        """Count evaluations of a point's plugins, except skipped ones and those after `last`."""
        for name, counter in self._counters[point].items():
            if name not in skipped:
                counter.inc(times)
            if name == last:
                return

    # -- attempts with kept verdicts --------------------------------------------------------------

    def begin(self) -> None:
        """Mark the beginning of an attempt with kept verdicts."""
        self._began_s = self.now_s()

    def pre_filtered(self) -> None:
        """Mark the end of pre-filter; without a mark it took no time."""
        self._pre_filtered_s = self.now_s()

    def filtered(self) -> None:
        """Mark the end of filtering."""
        self._filtered_s = self.now_s()

    def pre_scored(self) -> None:
        """Mark the end of pre-score; without a mark it took no time."""
        self._pre_scored_s = self.now_s()

    def finish(self, state: CycleState, visited_count: int, fit_count: int) -> None:
        """Record an attempt with kept verdicts."""
        end_s, filtered_s = self.now_s(), self._filtered_s
        tally = self._tally_of(state)
        tally.visited += visited_count
        self._points["Filter"]["Success"].observe(filtered_s - self._end_pre_filters(tally))
        if fit_count > 1:
            tally.scored_attempts += 1
            tally.scored += fit_count
            if self._pre_scored_s > filtered_s:
                self._points["PreScore"]["Success"].observe(self._pre_scored_s - filtered_s)
                filtered_s = self._pre_scored_s
            else:
                tally.no_pre_scores += 1
            self._points["Score"]["Success"].observe(end_s - filtered_s)

    def fail(self, state: CycleState) -> None:
        """Record an attempt with kept verdicts that failed in filtering."""
        # Parity: schedule_one.go findNodesThatPassFilters, v1.36: no node counts as evaluated.
        from_s = self._end_pre_filters(self._tally_of(state))
        self._points["Filter"]["Error"].observe(self.now_s() - from_s)

    def _tally_of(self, state: CycleState) -> Tally:
        key = (state.skip_filter_plugins, state.skip_score_plugins)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        tally.attempts += 1
        return tally

    def _end_pre_filters(self, tally: Tally) -> float:
        """Record the duration of pre-filter; return its end."""
        # An older mark is another attempt's.
        if self._pre_filtered_s > self._began_s:
            self._points["PreFilter"]["Success"].observe(self._pre_filtered_s - self._began_s)
            return self._pre_filtered_s
        tally.no_pre_filters += 1
        return self._began_s

    def fold(self) -> None:
        """Add the tallies to the metrics, before these are read."""
        for (filters, scores), tally in self._tallies.items():
            self.evaluated("PreFilter", filters, tally.attempts)
            self.evaluated("Filter", filters, tally.visited)
            self.evaluated("PreScore", scores, tally.scored_attempts)
            self.evaluated("Score", scores, tally.scored)
            idle = {"PreFilter": tally.no_pre_filters, "PreScore": tally.no_pre_scores}
            for point, times in idle.items():
                if times:
                    self._points[point]["Success"].observe_many(0.0, times)
        self._tallies.clear()


@dataclass(slots=True)
class Filtering:
    """Measures the filtering of all nodes as one, if the profile is measured."""

    _measuring: Measuring | None
    _state: CycleState
    _start_s: float = 0.0
    visited_count: int = 0
    """The number of evaluated nodes."""
    failed: bool = False

    def __enter__(self) -> Self:
        if self._measuring is not None:
            self._start_s = self._measuring.now_s()
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        """Record the duration; an exception counts as an error."""
        measuring = self._measuring
        if measuring is not None:
            failed = self.failed or problem is not None
            elapsed_s = measuring.now_s() - self._start_s
            measuring.observe("Filter", "Error" if failed else "Success", elapsed_s)
            measuring.evaluated("Filter", self._state.skip_filter_plugins, self.visited_count)


def code_of(answer: Any) -> str:
    """Return the result of a plugin or a point, as metrics spell it."""
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    status = answer if isinstance(answer, Status) else getattr(answer, "status", None)
    return _CODES[status.code] if isinstance(status, Status) else "Success"
