"""Out-of-tree plugins that are slow, raise or return invalid results, at every extension point."""

from __future__ import annotations

import asyncio
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kubesched.attempt.diagnosis import SchedulingError
from kubesched.attempt.kept.verdict_cache import cache_of
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import schedule_pod
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    EventRegistration,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    Rejected,
)
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.sandbox.budget import BUDGET_S, BUDGETS_MAX, Budgets, Guard
from kubesched.framework.sandbox.sandboxed_plugin import sandboxed
from kubesched.framework.status import Code, Status, error, unschedulable
from kubesched.framework.verdicts import NodeToStatus
from kubesched.kit.clock import Clock, SystemClock
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.profile.build import build, config_enabling
from tests.clock import StillClock
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile

SLOW = "took 3s, its time budget is 1s"


@types.coroutine
def a_turn() -> Iterator[None]:
    """Yield to the event loop once."""
    yield


class Log:
    """Keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def error(self, message: str, /, *, err: str, **fields: object) -> None:
        self.lines.append(f"{message}: {fields.get('plugin')}: {err}")


class Counts:
    """Counts faults."""

    def __init__(self) -> None:
        self.faults: Counter[tuple[str, str, str]] = Counter()

    def show(self) -> None:
        return

    def count(self, plugin: str, point: str, profile: str, fault: str) -> None:
        self.faults[plugin, point, fault] += 1


class World:
    """A guard, and a profile with one out-of-tree plugin."""

    def __init__(self, plugin: Any, clock: Clock | None = None, budget_s: float = 1.0) -> None:
        self.log, self.counts = Log(), Counts()
        self.guard = Guard(clock or StillClock(), self.log, self.counts)
        budgets = Budgets(default_s=budget_s)
        self.plugin = sandboxed(self.guard, budgets, "a-profile", plugin)
        self.profile: Profile = a_profile(self.plugin)
        self.view = a_cluster([a_node("n1"), a_node("n2")])
        self.state, self.pod = CycleState(), a_pod()

    def run(self, point: str) -> str:
        """Run one extension point; return the text of its failure."""
        profile, state, pod = self.profile, self.state, self.pod
        nodes = self.view.all_nodes()
        statuses = NodeToStatus(self.view)
        calls: dict[str, Callable[[], Any]] = {
            "PreEnqueue": lambda: profile.run_pre_enqueue_plugins(pod),
            "PreFilter": lambda: profile.run_pre_filter_plugins(state, pod, nodes).status,
            "Filter": lambda: profile.filters.judge(state, pod, nodes)[0],
            "PostFilter": lambda: profile.run_post_filter_plugins(state, pod, statuses)[1],
            "PreScore": lambda: profile.run_pre_score_plugins(state, pod, nodes),
            "Score": lambda: profile.run_score_plugins(state, pod, nodes),
            "Reserve": lambda: profile.run_reserve_plugins_reserve(state, pod, "n1"),
            "Permit": lambda: asyncio.run(profile.run_permit_plugins(state, pod, "n1")).status,
            "PreBindPreFlight": lambda: profile.run_pre_bind_pre_flights(state, pod, "n1"),
            "PreBind": lambda: asyncio.run(profile.run_pre_bind_plugins(state, pod, "n1")),
            "Bind": lambda: asyncio.run(profile.run_bind_plugins(state, pod, "n1")),
            "PostBind": lambda: asyncio.run(profile.run_post_bind_plugins(state, pod, "n1")),
        }
        answer = calls[point]()
        return answer.message if isinstance(answer, Status) else ""


def plugin_with(**methods: Callable[..., Any]) -> Any:
    """Return a plugin with some methods, which are functions without `self`."""
    made = {name: staticmethod(method) for name, method in methods.items()}
    return type("Mine", (), {"name": "Mine", **made})()


POINTS = {
    "pre_enqueue": ("PreEnqueue", SLOW),
    "pre_filter": ("PreFilter", f'running PreFilter plugin "Mine": pre_filter() {SLOW}'),
    "filter": ("Filter", f'running "Mine" filter plugin: filter() {SLOW}'),
    "filter_nodes": ("Filter", f'running "Mine" filter plugin: filter_nodes() {SLOW}'),
    "post_filter": ("PostFilter", SLOW),
    "pre_score": ("PreScore", f'running PreScore plugin "Mine": pre_score() {SLOW}'),
    "score": ("Score", f'running Score plugins: plugin "Mine" failed with: score() {SLOW}'),
    "score_nodes": (
        "Score",
        f'running Score plugins: plugin "Mine" failed with: score_nodes() {SLOW}',
    ),
    "reserve": ("Reserve", f'running Reserve plugin "Mine": reserve() {SLOW}'),
    "permit": ("Permit", f'running Permit plugin "Mine": permit() {SLOW}'),
    "pre_bind": ("PreBind", f'running PreBind plugin "Mine": pre_bind() {SLOW}'),
}


@pytest.mark.parametrize("method", POINTS)
def test_a_call_over_its_budget_fails_and_names_the_plugin(method: str) -> None:
    clock = StillClock()
    nodes = 2 if method in ("filter", "score") else 1

    def slow(*_: Any) -> Any:
        clock.at_s += 3.0 / nodes
        return None

    world = World(plugin_with(**{method: slow}), clock)
    point, text = POINTS[method]
    assert world.run(point).endswith(text)
    assert world.counts.faults == {("Mine", point, "over_budget"): 1}


@pytest.mark.parametrize("method", POINTS)
def test_a_call_within_its_budget_succeeds(method: str) -> None:
    clock = StillClock()

    def quick(*arguments: Any) -> Any:
        clock.at_s += 0.25
        if method == "post_filter":
            return None, unschedulable("no")
        if method == "score":
            return 1
        return {"filter_nodes": [], "score_nodes": np.ones(2, dtype=np.int64)}.get(method)

    world = World(plugin_with(**{method: quick}), clock)
    assert world.run(POINTS[method][0]) in ("", "no")
    assert not world.counts.faults


def test_a_slow_call_with_an_effect_is_logged_and_does_not_fail() -> None:
    clock = StillClock()

    def slow(*_: Any) -> None:
        clock.at_s += 3.0

    world = World(plugin_with(bind=slow, post_bind=slow), clock)
    assert world.run("Bind") == ""
    assert world.run("PostBind") == ""
    assert world.counts.faults == {
        ("Mine", "Bind", "over_budget"): 1,
        ("Mine", "PostBind", "over_budget"): 1,
    }
    assert world.log.lines == [
        f"Plugin failed: Mine: bind() {SLOW}",
        f"Plugin failed: Mine: post_bind() {SLOW}",
    ]


def test_only_the_time_between_awaits_counts() -> None:
    clock = StillClock()

    async def waits(*_: Any) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def later() -> None:
            clock.at_s += 50.0
            future.set_result(None)

        loop.call_soon(later)
        await future

    async def works(*_: Any) -> None:
        await a_turn()
        clock.at_s += 3.0
        await a_turn()
        raise AssertionError("it goes no further")

    assert World(plugin_with(pre_bind=waits), clock).run("PreBind") == ""
    world = World(plugin_with(pre_bind=works), clock)
    assert world.run("PreBind").endswith(SLOW)


def test_a_waiting_plugin_may_catch_its_cancellation() -> None:
    caught: list[str] = []

    async def waits(*_: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            caught.append("cancelled")
            raise

    world = World(plugin_with(bind=waits))

    async def run() -> None:
        bind = world.profile.run_bind_plugins(world.state, world.pod, "n1")
        task = asyncio.ensure_future(bind)
        await a_turn()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert caught == ["cancelled"]


def for_ever(*_: Any) -> None:
    while True:
        pass


async def for_ever_later(*_: Any) -> None:
    await a_turn()
    for_ever()


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("filter", for_ever),
        ("filter_nodes", for_ever),
        ("score", for_ever),
        ("pre_filter", for_ever),
        ("permit", for_ever),
        ("pre_bind", for_ever_later),
    ],
)
def test_a_call_that_does_not_return_is_interrupted(method: str, call: Callable[..., Any]) -> None:
    world = World(plugin_with(**{method: call}), SystemClock(), budget_s=0.004)
    world.guard.start()
    try:
        text = world.run(POINTS[method][0])
    finally:
        world.guard.stop()
    expected = (
        f"{method}() did not return within 40ms, ten times its time budget, and was interrupted"
    )
    assert text.endswith(expected)
    assert list(world.counts.faults) == [("Mine", POINTS[method][0], "interrupted")]


def test_a_slow_plugin_is_not_called_twice_in_one_attempt() -> None:
    clock, calls_made = StillClock(), []

    def slow(state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        calls_made.append(len(nodes))
        clock.at_s += 3.0
        return []

    world = World(plugin_with(filter_nodes=slow), clock)
    world.profile.measured_by(SchedulerMetrics(lambda _gate: True), clock.monotonic_s)
    measuring = world.profile.measuring
    assert measuring is not None
    measuring.sample(world.state)
    first, second = world.run("Filter"), world.run("Filter")
    assert first == second != ""
    assert len(calls_made) == 1
    measuring.sample(CycleState())
    assert world.run("Filter") == first
    assert len(calls_made) == 2


@pytest.mark.parametrize(
    "method", ["filter", "filter_nodes", "score", "score_nodes", "pre_filter", "pre_score"]
)
def test_an_attempt_with_kept_verdicts_fails_with_the_same_text(method: str) -> None:
    clock, calls_made = StillClock(), []
    calls = 2 if method in ("filter", "score") else 1

    def slow(*_: Any) -> None:
        calls_made.append(method)
        clock.at_s += 3.0 / calls

    failure = failed_by_kept_verdicts(plugin_with(**{method: slow}), clock, Counts())
    assert failure == POINTS[method][1]
    assert calls_made == [method] * calls


def failed_by_kept_verdicts(plugin: Any, clock: Clock, counts: Counts) -> str:
    """Return the failure of an attempt in a profile that keeps verdicts."""
    guard, registry = Guard(clock, Log(), counts), Registry({"Mine": lambda: plugin})
    built = build(
        config_enabling(registry),
        out_of_tree=registry,
        sandboxed=lambda profile, inner: sandboxed(guard, Budgets(1.0), profile, inner),
    )
    profile = built.profiles["default-scheduler"]
    profile.measured_by(SchedulerMetrics(lambda _gate: True), clock.monotonic_s)
    assert cache_of(profile) is not None
    assert profile.measuring is not None
    view, state = a_cluster([a_node("n1"), a_node("n2")]), CycleState()
    built.handles["default-scheduler"].view = view
    profile.measuring.sample(state)
    attempt = schedule_pod(profile, view, state, a_pod(), Search(default_percentage=100))
    with pytest.raises(SchedulingError) as failure:
        next(attempt)
    return str(failure.value)


@pytest.mark.parametrize("method", ["filter_nodes", "score_nodes", "pre_filter", "pre_score"])
@pytest.mark.parametrize("fault", ["raised", "invalid_result"])
def test_a_failure_ends_the_attempt_and_is_counted_once(method: str, fault: str) -> None:
    calls_made: list[str] = []

    def fails_at_first(*arguments: Any) -> Any:
        calls_made.append(method)
        if len(calls_made) > 1:
            return {"filter_nodes": [], "score_nodes": np.zeros(len(arguments[2]), int)}.get(method)
        if fault == "raised":
            raise KeyError("boom")
        return "invalid_result"

    counts = Counts()
    plugin = plugin_with(**{method: fails_at_first})
    failure = failed_by_kept_verdicts(plugin, StillClock(), counts)
    assert '"Mine"' in failure
    assert ("KeyError: 'boom'" if fault == "raised" else "returned") in failure
    assert calls_made == [method]
    assert counts.faults == {("Mine", POINTS[method][0], fault): 1}


@pytest.mark.parametrize(
    ("method", "expected_calls"), [("filter", ["n1", "n2"]), ("score", ["n1"])]
)
@pytest.mark.parametrize("fault", ["raised", "invalid_result"])
def test_a_one_node_plugin_that_fails_is_not_called_again(
    method: str, expected_calls: list[str], fault: str
) -> None:
    calls_made: list[str] = []

    def fails(state: Any, pod: Any, node: Any) -> Any:
        calls_made.append(node.name)
        if fault == "raised":
            raise KeyError("boom")
        return "invalid_result"

    counts = Counts()
    failure = failed_by_kept_verdicts(plugin_with(**{method: fails}), StillClock(), counts)
    assert '"Mine"' in failure
    assert ("KeyError: 'boom'" if fault == "raised" else "returned") in failure
    # Invalid scores are found only when all scores are there.
    assert calls_made == (expected_calls if fault == "raised" else ["n1", "n2"])
    assert counts.faults == {("Mine", POINTS[method][0], fault): 1}


@pytest.mark.parametrize(
    "scores",
    [
        {"score_nodes": lambda *arguments: np.full(len(arguments[2]), 101)},
        {"score": lambda *_: 101},
    ],
    ids=["of all nodes", "of one node"],
)
def test_scores_out_of_range_are_counted_once_in_an_attempt(scores: Any) -> None:
    counts = Counts()
    plugin = plugin_with(**scores)
    failure = failed_by_kept_verdicts(plugin, StillClock(), counts)
    assert 'plugin "Mine" returns an invalid score 101' in failure
    assert counts.faults == {("Mine", "Score", "invalid_result"): 1}


INVALID_RESULT: list[tuple[str, Any, str]] = [
    ("pre_enqueue", 3, "pre_enqueue() returned int, expected a Status or None"),
    ("pre_filter", "no", "pre_filter() returned str, expected a Status or None"),
    (
        "pre_filter",
        PreFilterResult(["n1"]),  # type: ignore[arg-type]
        "pre_filter() returned node names as list, expected a set of texts",
    ),
    ("filter", 3, "filter() returned int, expected a Status or None"),
    ("filter", Status(2), "filter() returned a status of code 2, expected a Code"),  # type: ignore[arg-type]
    ("filter_nodes", 3, "filter_nodes() returned int, expected a list of Rejected"),
    (
        "filter_nodes",
        [Rejected(np.ones(3, dtype=np.bool_), error("x"))],
        "a mask must be bool of shape (2,), not bool of shape (3,)",
    ),
    (
        "filter_nodes",
        [Rejected(np.ones(2, dtype=np.int64), error("x"))],
        "a mask must be bool of shape (2,), not int64 of shape (2,)",
    ),
    (
        "filter_nodes",
        [Rejected(np.ones(2, dtype=np.bool_), "no")],  # type: ignore[arg-type]
        "filter_nodes() returned str, expected a Status or None",
    ),
    (
        "filter_nodes",
        [Rejected(np.ones(2, dtype=np.bool_), Status(Code.UNSCHEDULABLE, "no"))],  # type: ignore[arg-type]
        "filter_nodes() returned a status of reasons 'no', expected a tuple of texts",
    ),
    ("post_filter", 3, "expected a pair of a result and a status"),
    (
        "post_filter",
        (PostFilterResult("elsewhere"), Status(Code.SUCCESS)),
        "post_filter() nominated the pod to 'elsewhere', and there is no such node",
    ),
    ("pre_score", 3, "pre_score() returned int, expected a Status or None"),
    ("score", float("nan"), "returned scores of type float64, expected integers"),
    ("score", None, "returned scores of type object, expected integers"),
    ("score", [1, 2], "returned scores of shape (2, 2), expected (2,)"),
    (
        "score",
        101,
        'plugin "Mine" returns an invalid score 101, it should in the range of [0, 100]',
    ),
    ("score_nodes", np.ones(3, dtype=np.int64), "returned scores of shape (3,), expected (2,)"),
    ("score_nodes", np.array([1, np.nan]), "returned scores of type float64, expected integers"),
    ("score_nodes", [[1], 2], "returned scores that are not a column"),
    ("score_nodes", np.array([-1, 0]), "returns an invalid score -1"),
    ("reserve", "yes", "reserve() returned str, expected a Status or None"),
    ("permit", (None, "soon"), "permit() waits for a str, expected seconds"),
    ("permit", (Status(Code.WAIT), float("nan")), "permit() waits for NaN, expected seconds"),
    ("pre_bind", 3, "pre_bind() returned int, expected a Status or None"),
    ("bind", 3, "bind() returned int, expected a Status or None"),
]


@pytest.mark.parametrize(("method", "answer", "text"), INVALID_RESULT)
def test_an_invalid_result_fails_the_attempt_and_is_counted(
    method: str, answer: Any, text: str
) -> None:
    world = World(plugin_with(**{method: lambda *_: answer}))
    point = {"bind": "Bind"}.get(method) or POINTS[method][0]
    assert text in world.run(point)
    assert world.counts.faults == {("Mine", point, "invalid_result"): 1}


def test_a_score_out_of_range_after_normalizing() -> None:
    def normalize(state: Any, pod: Any, scores: Any) -> Any:
        return scores * 1000

    world = World(plugin_with(score=lambda *_: 5, normalize_scores=normalize))
    assert 'plugin "Mine" returns an invalid score 5000' in world.run("Score")
    assert world.counts.faults == {("Mine", "ScoreExtensionNormalize", "invalid_result"): 1}


@pytest.mark.parametrize("method", POINTS)
def test_an_exception_is_counted(method: str) -> None:
    def raises(*_: Any) -> None:
        raise KeyError("boom")

    world = World(plugin_with(**{method: raises}))
    point = POINTS[method][0]
    assert "KeyError: 'boom'" in world.run(point)
    assert world.counts.faults == {("Mine", point, "raised"): 1}


def test_valid_results_of_every_kind_pass() -> None:
    world = World(
        plugin_with(
            pre_filter=lambda *_: PreFilterResult(frozenset(("n1", "yet to come"))),
            pre_bind_pre_flight=lambda *_: PreBindPreFlightResult(allow_parallel=True),
            pre_bind=lambda *_: None,
            permit=lambda *_: (None, 0.0),
        )
    )
    assert [world.run(p) for p in ("PreFilter", "PreBindPreFlight", "PreBind", "Permit")] == [
        ""
    ] * 4
    assert not world.counts.faults


def test_hints_run_in_the_sandbox_and_do_not_fail_if_slow() -> None:
    clock = StillClock()

    def hint(*_: Any) -> QueueingHint:
        clock.at_s += 3.0
        return QueueingHint.QUEUE_SKIP

    event = ClusterEvent(EventResource.NODE, ActionType.ADD)
    registered = [EventRegistration(event, hint), EventRegistration(event)]
    world = World(plugin_with(filter=lambda *_: None, events_to_register=lambda: registered), clock)
    with_hint, without = world.plugin.events_to_register()
    assert without.hint is None
    assert with_hint.hint is not None
    assert with_hint.hint(world.pod, None, None) is QueueingHint.QUEUE_SKIP
    assert world.counts.faults == {("Mine", "QueueingHint", "over_budget"): 1}


def test_a_configured_budget_precedes_the_plugins_own_and_the_default() -> None:
    own = type("Own", (), {"name": "Own", "budget_s": 2})()
    plain = type("Plain", (), {"name": "Plain"})()
    assert Budgets().of(plain) == BUDGET_S
    assert Budgets().of(own) == 2.0
    assert Budgets(1.0, {"Own": 5.0}).of(own) == 5.0
    assert Budgets(1.0, {"Own": 5.0}).of(plain) == 1.0
    for odd in (-1, "1s", float("nan")):
        own.budget_s = odd
        with pytest.raises(ValueError, match="budget_s must be seconds"):
            Budgets().of(own)


def test_no_budget_is_no_limit() -> None:
    clock = StillClock()

    def slow(*_: Any) -> None:
        clock.at_s += 1e6

    assert World(plugin_with(pre_filter=slow), clock, budget_s=0.0).run("PreFilter") == ""


def test_ten_budgets_are_shorter_than_leader_election_and_the_watchdog_tolerate() -> None:
    assert BUDGET_S * BUDGETS_MAX < 5.0


def test_attributes_of_the_plugin_are_readable_through_the_sandbox() -> None:
    plugin = plugin_with(filter=lambda *_: None)
    plugin.reads_bound_pods = True
    world = World(plugin)
    assert world.plugin.reads_bound_pods is True
    assert world.plugin.inner is plugin
    assert not hasattr(world.plugin, "score")
