"""How long the points of a profile take, and which plugins were asked.

Owns the three metrics of upstream's runtime, for one profile: durations by extension point, sampled
durations by plugin, evaluations by plugin. A profile that nobody measures has none of this. Never
touches what plugins answer.
Upstream: pkg/scheduler/framework/runtime/framework.go, instrumented_plugins.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from kubesched.framework.adapt import guarded
from kubesched.framework.bind_phase import Call, SideBySide
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.kit.measures import Counter, Gauge, Histogram, HistogramVec
from kubesched.model.metrics import SchedulerMetrics

AnswerT = TypeVar("AnswerT")

SAMPLED_ONE_IN: Final = 10
"""In one of so many attempts each plugin's calls are measured."""
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


class PluginTimes:
    """Measures the calls of plugins in an attempt that was sampled."""

    def __init__(self, durations: HistogramVec, now_s: Callable[[], float]) -> None:
        self._durations = durations
        self._now_s = now_s

    def ask(self, point: str, plugin: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a plugin, guarded."""
        start_s = self._now_s()
        answer = guarded(call, *arguments)
        self.observe(point, plugin, answer, self._now_s() - start_s)
        return answer

    async def wait(self, point: str, plugin: str, answer: Awaitable[Any]) -> Any:
        """Wait for a plugin's answer, which never raises."""
        start_s = self._now_s()
        said = await answer
        self.observe(point, plugin, said, self._now_s() - start_s)
        return said

    def observe(self, point: str, plugin: str, answer: Any, elapsed_s: float) -> None:
        """Note how long a call took."""
        self._durations.labels(plugin, point, code_of(answer)).observe(elapsed_s)


class Point:
    """The durations of one extension point by how it ended."""

    __slots__ = ("_by_code", "_family", "_name", "_profile", "success")

    def __init__(self, family: HistogramVec, name: str, profile: str) -> None:
        self.success: Histogram | None = None
        """There once it has succeeded: a series that never was is not shown."""
        self._family = family
        self._name = name
        self._profile = profile
        self._by_code: dict[str, Histogram] = {}

    def observe(self, code: str, elapsed_s: float) -> None:
        """Note how long the point took."""
        found = self._by_code.get(code)
        if found is None:
            found = self._family.labels(self._name, code, self._profile)
            self._by_code[code] = found
            if code == "Success":
                self.success = found
        found.observe(elapsed_s)

    def succeed(self, elapsed_s: float) -> None:
        """Note how long the point took that succeeded."""
        if self.success is not None:
            self.success.observe(elapsed_s)
        else:
            self.observe("Success", elapsed_s)

    def observe_none(self, times: int) -> None:
        """Note that the point took no time, so many times."""
        if times:
            self._family.labels(self._name, "Success", self._profile).observe_many(0.0, times)


class Tally:
    """Attempts by kept verdicts that left out the same plugins, not added up yet."""

    __slots__ = (
        "attempts",
        "no_pre_filters",
        "no_pre_scores",
        "scored",
        "scored_attempts",
        "visited",
    )

    def __init__(self) -> None:
        self.attempts = 0
        self.visited = 0
        """Nodes that were filtered."""
        self.scored_attempts = 0
        self.scored = 0
        """Nodes that were scored."""
        self.no_pre_filters = 0
        """Attempts in which no pre-filter plugin was asked anew."""
        self.no_pre_scores = 0


class Counting:
    """Runs calls together, and counts how many do; one alone does not count, as upstream."""

    def __init__(self, runner: SideBySide, running: Gauge) -> None:
        self._runner = runner
        self._running = running

    async def run(self, calls: Sequence[Call]) -> tuple[int, Status] | None:
        """Run them as the runner does."""
        if len(calls) == 1:
            return await self._runner.run(calls)
        self._running.inc(len(calls))
        try:
            return await self._runner.run(calls)
        finally:
            self._running.dec(len(calls))


class Measuring:
    """What one profile's attempts are measured by.

    An attempt by kept verdicts asks no plugin on its own: it says when it begins, marks when each
    part is done, and is noted as a whole.
    """

    def __init__(
        self,
        metrics: SchedulerMetrics,
        profile: str,
        plugins: Mapping[str, Sequence[str]],
        now_s: Callable[[], float],
    ) -> None:
        """Begin with zeros.

        Args:
            metrics: where it is noted.
            profile: the profile's name.
            plugins: their names by extension point, as a configuration spells that.
            now_s: the clock.
        """
        self.now_s = now_s
        durations = metrics.framework_extension_point_duration_seconds
        self._points = {name: Point(durations, name, profile) for name in _POINTS}
        self._plugin_times = PluginTimes(metrics.plugin_execution_duration_seconds, now_s)
        self.attempts = 0
        """How many have begun."""
        self._filter, self._score = self._points["Filter"], self._points["Score"]
        self._tallies: dict[tuple[frozenset[str], frozenset[str]], Tally] = {}
        """By the filters and the scores that were left out."""
        self._counters: dict[str, dict[str, Counter]] = {
            point: {
                name: metrics.plugin_evaluation_total.labels(name, point, profile)
                for name in plugins.get(spelled, ())
            }
            for point, spelled in _EVALUATED.items()
        }
        self._running = metrics.goroutines
        for operation in ("Filter", "Score"):
            # All of it runs in one thread: whoever looks finds none of them under way.
            metrics.goroutines.labels(operation).set(0)
        self._began_s = self._pre_filtered_s = self._filtered_s = self._pre_scored_s = 0.0
        metrics.measures.before_look(self.fold)

    # -- points -----------------------------------------------------------------------------------

    def sample(self, state: CycleState) -> None:
        """Have the plugins of one attempt in some measured, each on its own."""
        self.attempts += 1
        if self.attempts % SAMPLED_ONE_IN == 0:  # Upstream samples by chance.
            state.plugin_times = self._plugin_times

    def run(self, point: str, call: Callable[..., AnswerT], *arguments: Any) -> AnswerT:
        """Run a point, and note how long it took and how it ended."""
        start_s = self.now_s()
        answer = call(*arguments)
        if answer is None:
            self._points[point].succeed(self.now_s() - start_s)
        else:
            self._points[point].observe(code_of(answer), self.now_s() - start_s)
        return answer

    async def wait(self, point: str, answer: Awaitable[AnswerT]) -> AnswerT:
        """Wait for a point to end, and note how long it took and how it ended."""
        start_s = self.now_s()
        said = await answer
        self.observe(point, code_of(said), self.now_s() - start_s)
        return said

    def observe(self, point: str, code: str, elapsed_s: float) -> None:
        """Note how long a point took."""
        self._points[point].observe(code, elapsed_s)

    def passed(self, point: str) -> None:
        """Note that a point without plugins was passed."""
        self._points[point].succeed(0.0)

    def counting(self, operation: str, runner: SideBySide) -> Counting:
        """Return a runner that counts the calls that run together, under such a name."""
        return Counting(runner, self._running.labels(operation))

    # -- evaluations ------------------------------------------------------------------------------

    def evaluated(self, point: str, skipped: frozenset[str], times: int = 1) -> None:
        """Count that a point's plugins were asked so many times, but for those skipped."""
        for name, counter in self._counters[point].items():
            if name not in skipped:
                counter.inc(times)

    def evaluated_until(self, point: str, last: str, skipped: frozenset[str]) -> None:
        """Count that a point's plugins were asked once, up to the one that ended it."""
        for name, counter in self._counters[point].items():
            if name not in skipped:
                counter.inc()
            if name == last:
                return

    # -- attempts by kept verdicts ----------------------------------------------------------------

    def begin(self) -> None:
        """Mark the beginning of an attempt by kept verdicts."""
        self._began_s = self.now_s()

    def pre_filtered(self) -> None:
        """Mark that pre-filter plugins are done; without a mark they took no time."""
        self._pre_filtered_s = self.now_s()

    def filtered(self) -> None:
        """Mark that the fitting rows are known."""
        self._filtered_s = self.now_s()

    def pre_scored(self) -> None:
        """Mark that pre-score plugins are done; without a mark they took no time."""
        self._pre_scored_s = self.now_s()

    def planned(self, state: CycleState, visited_count: int, fit_count: int) -> None:
        """Note an attempt by kept verdicts that has come to its end."""
        end_s, filtered_s = self.now_s(), self._filtered_s
        tally = self._tally_of(state)
        tally.visited += visited_count
        self._filter.succeed(filtered_s - self._end_pre_filters(tally))
        if fit_count > 1:
            tally.scored_attempts += 1
            tally.scored += fit_count
            if self._pre_scored_s > filtered_s:
                self._points["PreScore"].succeed(self._pre_scored_s - filtered_s)
                filtered_s = self._pre_scored_s
            else:
                tally.no_pre_scores += 1
            self._score.succeed(end_s - filtered_s)

    def failed(self, state: CycleState) -> None:
        """Note an attempt by kept verdicts that ended with an error while it filtered."""
        # Parity: schedule_one.go findNodesThatPassFilters, v1.36: no node counts as looked at.
        from_s = self._end_pre_filters(self._tally_of(state))
        self._filter.observe("Error", self.now_s() - from_s)

    def _tally_of(self, state: CycleState) -> Tally:
        key = (state.skip_filter_plugins, state.skip_score_plugins)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        tally.attempts += 1
        return tally

    def _end_pre_filters(self, tally: Tally) -> float:
        """Note how long pre-filter plugins took; return when they were done."""
        # A mark from before the beginning is of another attempt.
        if self._pre_filtered_s > self._began_s:
            self._points["PreFilter"].succeed(self._pre_filtered_s - self._began_s)
            return self._pre_filtered_s
        tally.no_pre_filters += 1
        return self._began_s

    def fold(self) -> None:
        """Add up what was counted, for whoever looks."""
        for (filters, scores), tally in self._tallies.items():
            self.evaluated("PreFilter", filters, tally.attempts)
            self.evaluated("Filter", filters, tally.visited)
            self.evaluated("PreScore", scores, tally.scored_attempts)
            self.evaluated("Score", scores, tally.scored)
            self._points["PreFilter"].observe_none(tally.no_pre_filters)
            self._points["PreScore"].observe_none(tally.no_pre_scores)
        self._tallies.clear()


class Filtering:
    """Measures the filtering of many nodes as one, if somebody wants to know."""

    __slots__ = ("_measuring", "_start_s", "_state", "failed", "visited_count")

    def __init__(self, measuring: Measuring | None, state: CycleState) -> None:
        self._measuring = measuring
        self._state = state
        self._start_s = 0.0
        self.visited_count = 0
        """How many nodes were looked at."""
        self.failed = False

    def __enter__(self) -> Self:
        """Begin."""
        if self._measuring is not None:
            self._start_s = self._measuring.now_s()
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        """Note how long it took; an exception that passes is an error."""
        measuring = self._measuring
        if measuring is not None:
            failed = self.failed or problem is not None
            elapsed_s = measuring.now_s() - self._start_s
            measuring.observe("Filter", "Error" if failed else "Success", elapsed_s)
            measuring.evaluated("Filter", self._state.skip_filter_plugins, self.visited_count)


def code_of(answer: Any) -> str:
    """Return how a plugin or a point ended, as metrics spell it."""
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    status = answer if isinstance(answer, Status) else getattr(answer, "status", None)
    return _CODES[status.code] if isinstance(status, Status) else "Success"
