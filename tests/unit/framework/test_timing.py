"""Durations of points and plugins, and evaluations, as upstream's runtime records them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.kept.verdict_cache import cache_of
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult, Reads, Rejected
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.timing import SAMPLED_ONE_IN
from kubesched.framework.status import SKIP, error, unresolvable, unschedulable, wait
from kubesched.framework.verdicts import NodeToStatus
from kubesched.metrics.instruments import Histogram
from kubesched.metrics.scheduler import SchedulerMetrics
from tests.unit.builders import a_pod, a_profile, a_wire_node, a_wire_pod

NAMES = ("n1", "n2", "n3")


class Time:
    """A clock that only moves when a plugin takes time."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Slow:
    """Takes a number of seconds at some points, and skips the others."""

    def __init__(self, name: str, time: Time, takes_s: float = 0.0, **answers: Any) -> None:
        self.name = name
        self._time = time
        self._takes_s = takes_s
        for point, answer in answers.items():
            setattr(self, point, self._answering(answer))

    def _answering(self, answer: Any) -> Callable[..., Any]:
        def answering(*arguments: Any) -> Any:
            self._time.now += self._takes_s
            if callable(answer):
                return answer(*arguments)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return answering


class World:
    """A measured profile over three nodes."""

    def __init__(self, time: Time, *plugins: Any, names: Sequence[str] = NAMES) -> None:
        self.metrics = SchedulerMetrics()
        self.profile: Profile = a_profile(*plugins).measured_by(self.metrics, time)
        self.cache = Cache()
        for name in names:
            self.cache.add_node(a_wire_node(name))

    def attempt(self, *, sampled: bool = False, **pod: Any) -> None:
        state = CycleState()
        measuring = self.profile.measuring
        assert measuring is not None
        for _ in range(SAMPLED_ONE_IN if sampled else 0):
            measuring.sample(state)
        run = schedule_pod(
            self.profile,
            self.cache.snapshot(),
            state,
            self.cache.pod_info(a_wire_pod(**pod)),
            Search(all_nodes=True),
        )
        try:
            run_without_extenders(run)
        except (FitError, SchedulingError) as failure:
            self.failure = failure

    def points(self) -> dict[tuple[str, str], tuple[int, float]]:
        """Return count and sum by point and status."""
        return shown(self.metrics, "framework_extension_point_duration_seconds", 2)

    def plugins(self) -> dict[tuple[str, ...], tuple[int, float]]:
        """Return count and sum by plugin, point and status."""
        return shown(self.metrics, "plugin_execution_duration_seconds", 3)

    def evaluated(self) -> dict[tuple[str, str], float]:
        """Return the number of evaluations by plugin and point."""
        self.metrics.measures.families()
        counted = self.metrics.plugin_evaluation_total.children()
        return {labels[:2]: child.value for labels, child in counted if child.value}  # type: ignore[misc]


def shown(metrics: SchedulerMetrics, family: str, labels: int) -> dict[Any, tuple[int, float]]:
    metrics.measures.families()
    found = {}
    for values, child in getattr(metrics, family).children():
        assert isinstance(child, Histogram)
        found[values[:labels]] = (child.count, round(child.sum, 6))
    return found


def result_of(awaitable: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await awaitable

    return asyncio.run(main())


def no_rejection(state: Any, pod: Any, nodes: Any) -> list[Rejected]:
    return []


def ones(state: Any, pod: Any, nodes: Any) -> Any:
    return np.ones(len(nodes), dtype=np.int64)


def test_every_point_of_an_attempt_is_observed_with_its_duration() -> None:
    time = Time()
    plugin = Slow("P", time, 0.5, pre_filter=None, filter_nodes=no_rejection, score_nodes=ones)
    world = World(time, plugin, Slow("Q", time, 2.0, pre_score=None))
    world.profile.without_caching()
    world.attempt()
    assert world.points() == {
        ("PreFilter", "Success"): (1, 0.5),
        ("Filter", "Success"): (1, 0.5),
        ("PreScore", "Success"): (1, 2.0),
        ("Score", "Success"): (1, 0.5),
    }


def test_evaluations_of_filter_and_score_count_nodes() -> None:
    time = Time()
    plugin = Slow("P", time, pre_filter=None, filter_nodes=no_rejection, score_nodes=ones)
    world = World(time, plugin, Slow("Q", time, pre_score=None))
    world.profile.without_caching()
    world.attempt()
    world.attempt()
    assert world.evaluated() == {
        ("P", "PreFilter"): 2,
        ("P", "Filter"): 6,
        ("P", "Score"): 6,
        ("Q", "PreScore"): 2,
    }


def test_a_skipped_plugin_is_not_counted_at_either_of_its_points() -> None:
    time = Time()
    skips = Slow(
        "S", time, pre_filter=SKIP, filter_nodes=no_rejection, pre_score=SKIP, score_nodes=ones
    )
    world = World(time, skips, Slow("P", time, filter_nodes=no_rejection, score_nodes=ones))
    world.profile.without_caching()
    world.attempt()
    assert world.evaluated() == {("P", "Filter"): 3, ("P", "Score"): 3}


@pytest.mark.parametrize(
    ("answer", "code", "evaluated"),
    [
        (unschedulable("no"), "Unschedulable", {"A", "B", "C"}),
        (unresolvable("no"), "UnschedulableAndUnresolvable", {"A", "B"}),
        (error("bad"), "Error", {"A", "B"}),
        (PreFilterResult(frozenset()), "UnschedulableAndUnresolvable", {"A", "B"}),
        (ValueError("bad"), "Error", {"A", "B"}),
    ],
)
def test_a_pre_filter_that_ends_its_point(answer: Any, code: str, evaluated: set[str]) -> None:
    time = Time()
    world = World(
        time,
        Slow("A", time, pre_filter=None),
        Slow("B", time, pre_filter=answer),
        Slow("C", time, pre_filter=None),
    )
    world.attempt()
    assert world.points() == {("PreFilter", code): (1, 0.0)}
    assert world.evaluated() == dict.fromkeys(((name, "PreFilter") for name in evaluated), 1)


def test_one_fitting_node_is_not_scored() -> None:
    time = Time()
    world = World(time, Slow("P", time, filter_nodes=no_rejection, score_nodes=ones), names=("n1",))
    world.profile.without_caching()
    world.attempt()
    assert set(world.points()) == {("PreFilter", "Success"), ("Filter", "Success")}


def test_a_filter_that_fails_is_an_error_of_its_point() -> None:
    time = Time()

    def fails(state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(np.ones(len(nodes), dtype=np.bool_), error("bad"))]

    world = World(time, Slow("P", time, 1.0, filter_nodes=fails))
    world.attempt()
    assert world.points()["Filter", "Error"] == (1, 1.0)
    assert ("Filter", "Success") not in world.points()


# -- kept verdicts --------------------------------------------------------------------------------


def a_local(time: Time, name: str = "L", **answers: Any) -> Slow:
    local = Slow(name, time, **answers)
    local.reads = lambda pod: Reads(usage=True)  # type: ignore[attr-defined]
    return local


@pytest.mark.parametrize("caching", [True, False], ids=["kept verdicts", "no kept verdicts"])
def test_a_failing_one_node_filter_is_an_error_of_its_point(caching: bool) -> None:
    time = Time()
    plugin = Slow("P", time, 0.5, pre_filter=None, filter=error("bad"), score_nodes=ones)
    world = World(time, plugin)
    assert cache_of(world.profile) is not None
    if not caching:
        world.profile.without_caching()
    world.attempt()
    assert str(world.failure) == 'running "P" filter plugin: bad'
    assert world.points() == {("PreFilter", "Success"): (1, 0.5), ("Filter", "Error"): (1, 1.5)}
    assert world.evaluated() == {("P", "PreFilter"): 1}


def test_an_attempt_with_kept_verdicts_is_observed_once_per_point() -> None:
    time = Time()
    world = World(time, a_local(time, pre_filter=None, filter_nodes=no_rejection, score_nodes=ones))
    for _ in range(4):
        world.attempt()
    assert {point: count for point, (count, _) in world.points().items()} == {
        ("PreFilter", "Success"): 4,
        ("Filter", "Success"): 4,
        ("PreScore", "Success"): 4,
        ("Score", "Success"): 4,
    }
    assert world.evaluated() == {("L", "PreFilter"): 4, ("L", "Filter"): 12, ("L", "Score"): 12}


def test_kept_verdicts_that_find_no_node_are_observed_as_filtering() -> None:
    time = Time()

    def rejects(state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(np.ones(len(nodes), dtype=np.bool_), unschedulable("no"))]

    world = World(time, a_local(time, filter_nodes=rejects), a_local(time, "S", score_nodes=ones))
    world.attempt()
    assert isinstance(world.failure, FitError)
    assert set(world.points()) == {("PreFilter", "Success"), ("Filter", "Success")}
    assert world.evaluated() == {("L", "Filter"): 3}


def test_with_kept_verdicts_the_duration_is_that_of_live_plugins() -> None:
    time = Time()
    methods = {
        "pre_filter": None,
        "filter_nodes": no_rejection,
        "pre_score": None,
        "score_nodes": ones,
    }
    world = World(time, a_local(time, score_nodes=ones), Slow("New", time, 0.25, **methods))
    world.attempt()
    assert world.points() == {
        ("PreFilter", "Success"): (1, 0.25),
        ("Filter", "Success"): (1, 0.25),
        ("PreScore", "Success"): (1, 0.25),
        ("Score", "Success"): (1, 0.25),
    }


def test_an_attempt_that_falls_back_from_kept_verdicts_is_observed_once() -> None:
    time = Time()
    world = World(
        time,
        a_local(time, filter_nodes=no_rejection, score_nodes=ones),
        Slow("New", time, 1.0, pre_filter=unresolvable("no")),
    )
    world.attempt()
    assert world.points() == {("PreFilter", "UnschedulableAndUnresolvable"): (1, 1.0)}


# -- plugins --------------------------------------------------------------------------------------


def test_a_sampled_attempt_measures_each_plugin() -> None:
    time = Time()
    plugin = Slow("P", time, 0.5, pre_filter=None, filter_nodes=no_rejection, score_nodes=ones)
    normalizing = Slow(
        "N", time, 0.125, score_nodes=ones, normalize_scores=lambda state, pod, scores: scores
    )
    world = World(time, plugin, normalizing, Slow("S", time, 2.0, pre_score=SKIP))
    world.profile.without_caching()
    world.attempt()
    assert world.plugins() == {}
    world.attempt(sampled=True)
    assert world.plugins() == {
        ("P", "PreFilter", "Success"): (1, 0.5),
        ("P", "Filter", "Success"): (1, 0.5),
        ("S", "PreScore", "Skip"): (1, 2.0),
        ("P", "Score", "Success"): (1, 0.5),
        ("N", "Score", "Success"): (1, 0.125),
        ("N", "ScoreExtensionNormalize", "Success"): (1, 0.125),
    }


def test_a_one_node_plugin_is_measured_node_by_node() -> None:
    time = Time()

    def judge(state: Any, pod: Any, node: Any) -> Any:
        return unschedulable("no") if node.name == "n2" else None

    scores = {"n1": 1, "n3": 3}
    world = World(
        time,
        Slow("F", time, 1.0, filter=judge),
        Slow("S", time, 1.0, score=lambda state, pod, node: scores[node.name]),
    )
    world.attempt(sampled=True)
    assert world.plugins() == {
        ("F", "Filter", "Success"): (2, 2.0),
        ("F", "Filter", "Unschedulable"): (1, 1.0),
        ("S", "Score", "Success"): (2, 2.0),
    }


def test_with_kept_verdicts_live_plugins_are_measured() -> None:
    time = Time()
    world = World(
        time,
        a_local(time, filter_nodes=no_rejection, score_nodes=ones),
        Slow("New", time, 1.0, pre_filter=None, filter_nodes=no_rejection),
    )
    world.attempt()
    world.attempt(sampled=True)
    assert world.plugins() == {
        ("New", "PreFilter", "Success"): (1, 1.0),
        ("New", "Filter", "Success"): (1, 1.0),
    }


# -- around the binding ---------------------------------------------------------------------------


async def later(answer: Any) -> Any:
    return answer


def test_points_around_the_binding() -> None:
    time = Time()
    world = World(
        time,
        Slow(
            "P",
            time,
            1.0,
            reserve=None,
            unreserve=None,
            permit=lambda *a: later((wait("not yet"), 1.0)),
            pre_bind=unschedulable("gone"),
            pre_bind_pre_flight=SKIP,
            bind=lambda *a: later(error("rejected")),
            post_bind=None,
        ),
    )
    profile, state, pod = world.profile, CycleState(), a_pod()
    profile.run_reserve_plugins_reserve(state, pod, "n1")
    result_of(profile.run_permit_plugins(state, pod, "n1"))
    profile.run_pre_bind_pre_flights(state, pod, "n1")
    state.skip_pre_bind_plugins = frozenset()
    result_of(profile.run_pre_bind_plugins(state, pod, "n1"))
    result_of(profile.run_bind_plugins(state, pod, "n1"))
    result_of(profile.run_post_bind_plugins(state, pod, "n1"))
    profile.run_reserve_plugins_unreserve(state, pod, "n1")
    assert world.points() == {
        ("Reserve", "Success"): (1, 1.0),
        ("Permit", "Wait"): (1, 1.0),
        ("PreBindPreFlight", "Skip"): (1, 1.0),
        ("PreBind", "Unschedulable"): (1, 1.0),
        ("Bind", "Error"): (1, 1.0),
        ("PostBind", "Success"): (1, 1.0),
        ("Unreserve", "Success"): (1, 1.0),
    }
    assert world.plugins() == {}


def test_a_sampled_attempt_is_measured_until_the_pod_is_bound() -> None:
    time = Time()
    world = World(time, Slow("P", time, 1.0, reserve=None, bind=lambda *a: later(None)))
    state, measuring = CycleState(), world.profile.measuring
    assert measuring is not None
    for _ in range(SAMPLED_ONE_IN):
        measuring.sample(state)
    world.profile.run_reserve_plugins_reserve(state.clone(), a_pod(), "n1")
    result_of(world.profile.run_bind_plugins(state, a_pod(), "n1"))
    assert world.plugins() == {
        ("P", "Reserve", "Success"): (1, 1.0),
        ("P", "Bind", "Success"): (1, 1.0),
    }


def test_post_filter_is_observed_by_result() -> None:
    time = Time()
    world = World(time, Slow("P", time, 1.0, post_filter=lambda *a: (None, unschedulable("no"))))
    statuses = NodeToStatus(world.cache.snapshot())
    world.profile.run_post_filter_plugins(CycleState(), a_pod(), statuses)
    assert world.points() == {("PostFilter", "Unschedulable"): (1, 1.0)}


class Watching:
    """Runs calls in order, and records the gauge of running calls."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._running = metrics.goroutines.labels("PreBind")
        self.seen: list[float] = []

    async def run(self, calls: Sequence[Any]) -> None:
        for call in calls:
            await call
            self.seen.append(self._running.value)


def test_parallel_pre_bind_plugins_count_as_running() -> None:
    time = Time()
    world = World(time, Slow("A", time, pre_bind=None), Slow("B", time, pre_bind=None))
    state, runner = CycleState(), Watching(world.metrics)
    state.parallel_pre_bind_plugins = frozenset(("A", "B"))
    result_of(world.profile.run_pre_bind_plugins(state, a_pod(), "n1", runner))
    assert runner.seen == [2, 2]
    assert world.metrics.goroutines.labels("PreBind").value == 0
    state.parallel_pre_bind_plugins = frozenset()
    result_of(world.profile.run_pre_bind_plugins(state, a_pod(), "n1", runner))
    assert runner.seen == [2, 2, 0, 0]


def test_counts_before_a_reset_do_not_reappear() -> None:
    time = Time()
    world = World(time, a_local(time, filter_nodes=no_rejection, score_nodes=ones))
    world.attempt()
    world.metrics.reset()
    assert world.evaluated() == {}
    assert world.points() == {}
