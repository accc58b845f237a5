"""How many fitting nodes are enough, and where the search starts."""

from typing import Any

import pytest

from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.request import ScheduleResult, Search, nodes_to_evaluate, nodes_to_find
from kubesched.attempt.schedule_pod import (
    run_without_extenders,
    schedule_pod,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import error, unschedulable
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.small_plugins import ColumnRejection, OneNodeRejection, PreFilter


@pytest.mark.parametrize(
    ("node_count", "own", "default", "expected"),
    [
        pytest.param(1, None, 0, 1, id="one node"),
        pytest.param(99, 10, 0, 99, id="under a hundred: all, whatever is configured"),
        pytest.param(100, None, 0, 100, id="a hundred"),
        pytest.param(250, None, 0, 120, id="unset: 50 percent less one for each 125 nodes"),
        pytest.param(372, None, 0, 178, id="unset, just under three times 125 nodes"),
        pytest.param(1000, None, 0, 420, id="unset, a thousand nodes"),
        pytest.param(5000, None, 0, 500, id="unset, five thousand nodes"),
        pytest.param(6000, None, 0, 300, id="unset: never under five percent"),
        pytest.param(1000, 40, 0, 400, id="the profile's own"),
        pytest.param(1000, None, 40, 400, id="the configuration's"),
        pytest.param(1000, 30, 40, 300, id="the profile's own before the configuration's"),
        pytest.param(1000, 0, 40, 420, id="a profile's zero is adaptive too"),
        pytest.param(1000, 5, 0, 100, id="never under a hundred"),
        pytest.param(1000, 100, 0, 1000, id="all of them"),
        pytest.param(333, 50, 0, 166, id="fractions are cut off"),
    ],
)
def test_nodes_to_find(node_count: int, own: int | None, default: int, expected: int) -> None:
    assert nodes_to_find(node_count, own, default_percentage=default) == expected


@pytest.mark.parametrize(
    ("target", "evaluated", "found", "expected"),
    [
        pytest.param(500, 0, 0, 500, id="at first as many as the target"),
        pytest.param(500, 500, 400, 133, id="then by the share that fits, and a few to spare"),
        pytest.param(500, 1000, 0, 500, id="none fits: as many again"),
        pytest.param(500, 500, 1, 500, id="few fit: never more than the target"),
    ],
)
def test_nodes_to_evaluate(target: int, evaluated: int, found: int, expected: int) -> None:
    assert nodes_to_evaluate(target, evaluated, found) == expected


class EvenScore:
    """All nodes are equally good."""

    name = "EvenScore"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 1


@pytest.mark.parametrize(
    ("plugins", "search", "expected"),
    [
        pytest.param([EvenScore()], Search(), 120, id="with scores: the share"),
        pytest.param([], Search(), 1, id="nothing scores: the first is as good as any"),
        pytest.param(
            [], Search(has_extender_filters=True), 120, id="an extender may reject the first"
        ),
        pytest.param([], Search(has_extender_prioritizers=True), 120, id="an extender scores"),
        pytest.param([], Search(all_nodes=True), 250, id="all nodes are requested"),
    ],
)
def test_the_number_of_nodes_to_find(plugins: list[Any], search: Search, expected: int) -> None:
    assert search.want(a_profile(*plugins), 250) == expected


CPU = unschedulable("Insufficient cpu")
NAMES = [f"n{number:03d}" for number in range(250)]
TARGET = 120


@pytest.fixture(scope="module")
def view() -> ClusterView:
    return a_cluster([a_node(name) for name in NAMES])


def attempt(profile: Profile, view: ClusterView, search: Search) -> ScheduleResult:
    return run_without_extenders(schedule_pod(profile, view, CycleState(), a_pod(), search))


def feasible(result: ScheduleResult) -> list[str]:
    assert result.detail is not None
    assert len(result.detail.feasible) == result.feasible_node_count
    return result.detail.feasible.names


def test_the_first_that_fit_are_kept_in_visiting_order(view: ClusterView) -> None:
    search = Search(detail=True)
    result = attempt(a_profile(EvenScore()), view, search)
    assert feasible(result) == NAMES[:TARGET]
    assert result.evaluated_node_count == TARGET
    assert search.next_start_index == TARGET
    assert result.suggested_host == "n000"


@pytest.mark.parametrize("plugin", [ColumnRejection, OneNodeRejection])
def test_rejected_nodes_are_passed_over_and_counted(view: ClusterView, plugin: Any) -> None:
    rejected = {name: unschedulable("odd") for name in NAMES[1:41]}
    search = Search(detail=True)
    result = attempt(a_profile(plugin("P", rejected), EvenScore()), view, search)
    assert feasible(result) == [NAMES[0], *NAMES[41 : 41 + TARGET - 1]]
    assert result.evaluated_node_count == TARGET + 40
    assert search.next_start_index == TARGET + 40


def test_the_next_attempt_continues_where_the_last_one_stopped(view: ClusterView) -> None:
    search = Search(detail=True)
    profile = a_profile(EvenScore())
    for start in (0, 120, 240, 110):
        assert search.next_start_index == start
        result = attempt(profile, view, search)
        order = NAMES[start:] + NAMES[:start]
        assert feasible(result) == order[:TARGET]
        assert result.suggested_host == order[0]


def test_all_nodes_are_visited_if_too_few_fit(view: ClusterView) -> None:
    rejected = {name: unschedulable("no") for name in NAMES[:200]}
    search = Search(detail=True, next_start_index=100)
    result = attempt(a_profile(ColumnRejection("P", rejected), EvenScore()), view, search)
    assert sorted(feasible(result)) == NAMES[200:]
    assert result.evaluated_node_count == 250
    assert search.next_start_index == 100


def test_a_failed_attempt_visits_all_nodes(view: ClusterView) -> None:
    rejected = {name: unschedulable("no") for name in NAMES}
    search = Search(detail=True, next_start_index=7)
    with pytest.raises(FitError) as failure:
        attempt(a_profile(ColumnRejection("P", rejected), EvenScore()), view, search)
    assert str(failure.value) == "0/250 nodes are available: 250 no."
    assert search.next_start_index == 7


def test_without_filters_the_first_from_the_start_are_taken(view: ClusterView) -> None:
    search = Search(detail=True, next_start_index=240)
    result = attempt(a_profile(EvenScore()), view, search)
    assert feasible(result) == (NAMES[240:] + NAMES[:240])[:TARGET]


def test_a_one_node_filter_is_not_called_far_beyond_the_last_node_needed(
    view: ClusterView,
) -> None:
    plugin = OneNodeRejection("P", {})
    attempt(a_profile(plugin, EvenScore()), view, Search())
    assert plugin.called_for == NAMES[:TARGET]


def test_a_last_one_node_filter_is_called_for_nodes_that_pass_the_others(
    view: ClusterView,
) -> None:
    rejected = {name: unschedulable("odd") for name in NAMES[:40]}
    late, search = OneNodeRejection("Late", dict.fromkeys(NAMES[40:60], CPU)), Search()
    profile = a_profile(ColumnRejection("P", rejected), late, EvenScore())
    result = attempt(profile, view, search)
    # 100 of the first 120 fit: 24 more are likely to do for the 20 that are missing.
    assert late.called_for == NAMES[40 : 40 + TARGET + 24 + 8]
    assert (result.feasible_node_count, result.evaluated_node_count) == (TARGET, TARGET + 60)
    assert result.suggested_host == NAMES[60]
    assert search.next_start_index == TARGET + 60


@pytest.mark.parametrize("plugin", [ColumnRejection, OneNodeRejection])
def test_an_error_on_a_node_that_is_visited_ends_the_attempt(
    view: ClusterView, plugin: Any
) -> None:
    profile = a_profile(plugin("P", {NAMES[TARGET - 1]: error("bad")}), EvenScore())
    with pytest.raises(SchedulingError, match=r'^running "P" filter plugin: bad$'):
        attempt(profile, view, Search())


@pytest.mark.parametrize("plugin", [ColumnRejection, OneNodeRejection])
def test_an_error_on_a_node_that_is_never_visited_does_not_exist(
    view: ClusterView, plugin: Any
) -> None:
    profile = a_profile(plugin("P", {NAMES[TARGET]: error("bad")}), EvenScore())
    assert feasible(attempt(profile, view, Search(detail=True))) == NAMES[:TARGET]


def test_the_share_is_of_the_nodes_that_pre_filter_names(view: ClusterView) -> None:
    search = Search(detail=True, next_start_index=200)
    named = PreFilterResult(frozenset(NAMES[:150]))
    result = attempt(a_profile(PreFilter("P", named), EvenScore()), view, search)
    assert result.feasible_node_count == 100
    assert set(feasible(result)) <= set(NAMES[:150])
    assert search.next_start_index == (200 + 100) % 250


def test_zones_are_visited_in_turn_from_the_start() -> None:
    zone = "topology.kubernetes.io/zone"
    view = a_cluster([a_node(n, labels={zone: z}) for n, z in zip("abcd", "xxyy", strict=True)])
    search = Search(detail=True, next_start_index=1)
    result = attempt(a_profile(EvenScore()), view, search)
    assert feasible(result) == ["c", "b", "d", "a"]
