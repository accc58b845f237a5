"""Preemption, from the rejected pod to the nominated node and its victims."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.preemption.evaluator import Evaluator, why_not_eligible
from kubesched.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kubesched.framework.verdicts import NodeToStatus
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_budget, a_cluster, a_handle, a_node, a_pod, a_profile


class Slots:
    """Each node has two slots, and every pod takes one; a one-node plugin."""

    name = "Slots"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("no slot") if node.pod_count >= 2 else None


def a_victim(name: str, priority: int = 0, minute: int = 0, **parts: Any) -> PodInfo:
    status = {"startTime": f"2024-05-01T00:{minute:02d}:00Z"}
    return a_pod(name, priority=priority, status=status, **parts)


def preempt(
    view: ClusterView,
    pod: PodInfo,
    *plugins: Any,
    statuses: Mapping[str, Status] | None = None,
    enough: int = 100,
) -> tuple[PostFilterResult | None, Status]:
    """Return the result if every node was rejected as unschedulable, or with given statuses."""
    state, profile = CycleState(), a_profile(*(plugins or (Slots(),)))
    profile.run_pre_filter_plugins(state, pod, view.all_nodes())
    found = NodeToStatus(view)
    for name in view.all_nodes().names:
        found.set_one(view.row_of(name), (statuses or {}).get(name, unschedulable("no slot")))
    evaluator = Evaluator(a_handle(profile, view), lambda count: min(enough, count))
    result = evaluator.preempt(state, pod, found)
    assert isinstance(result, tuple), "without waiting, no extender is called"
    return result


def nominated_and_victims(result: tuple[PostFilterResult | None, Status]) -> tuple[str, list[str]]:
    found, status = result
    assert status == SUCCESS
    assert found is not None
    assert found.victims is not None
    assert found.victims.node_name == found.nominated_node_name
    return found.nominated_node_name, [pod.name for pod in found.victims.pods]


BOSS = a_pod("boss", priority=100)


def test_the_least_important_pod_is_evicted() -> None:
    view = a_cluster([a_node("n1")], {"n1": [a_victim("a", 5), a_victim("b", 1)]})
    assert nominated_and_victims(preempt(view, BOSS)) == ("n1", ["b"])


def test_of_equal_pods_the_last_started_is_evicted() -> None:
    view = a_cluster([a_node("n1")], {"n1": [a_victim("a", minute=9), a_victim("b", minute=3)]})
    assert nominated_and_victims(preempt(view, BOSS)) == ("n1", ["a"])


def test_a_pod_that_has_not_started_is_evicted_first() -> None:
    view = a_cluster([a_node("n1")], {"n1": [a_pod("a"), a_victim("b", minute=59)]})
    assert nominated_and_victims(preempt(view, BOSS)) == ("n1", ["a"])


def test_a_pod_whose_budget_would_be_violated_is_spared_before_a_more_important_one() -> None:
    view = a_cluster(
        [a_node("n1")],
        {"n1": [a_victim("a", 5), a_victim("b", 1, labels={"app": "db"})]},
        [a_budget("db", {"app": "db"})],
    )
    assert nominated_and_victims(preempt(view, BOSS)) == ("n1", ["a"])


def test_pods_of_equal_or_higher_priority_stay() -> None:
    pods = {"n1": [a_victim("a", 100), a_victim("b", 200)], "n2": [a_victim("c", 100), a_pod("d")]}
    view = a_cluster([a_node("n1"), a_node("n2")], pods)
    assert nominated_and_victims(preempt(view, BOSS)) == ("n2", ["d"])


def test_victims_are_listed_most_important_first() -> None:
    class Alone(Slots):
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            return unschedulable("not alone") if node.pod_count else None

    pods = {"n1": [a_victim("a", 1), a_victim("b", 3), a_victim("c", 2)]}
    assert nominated_and_victims(preempt(a_cluster([a_node("n1")], pods), BOSS, Alone())) == (
        "n1",
        ["b", "c", "a"],
    )


def test_only_nodes_with_a_resolvable_rejection_are_considered() -> None:
    pods = {"n1": [a_victim("a"), a_victim("b")], "n2": [a_victim("c", 9), a_victim("d", 9)]}
    view = a_cluster([a_node("n1"), a_node("n2")], pods)
    result = preempt(view, BOSS, statuses={"n1": unresolvable("tainted")})
    assert nominated_and_victims(result) == ("n2", ["d"])


def test_a_node_without_less_important_pods_has_no_victims() -> None:
    view = a_cluster([a_node("n1")], {"n1": [a_victim("a", 100), a_victim("b", 100)]})
    found, status = preempt(view, BOSS)
    assert found == PostFilterResult("")
    assert status == unschedulable(
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_node_without_enough_room_keeps_its_reason() -> None:
    pods = {"n1": [a_victim("a", 100), a_victim("b", 100), a_victim("c")]}
    view = a_cluster([a_node("n1"), a_node("n2")], pods)
    found, status = preempt(view, BOSS, statuses={"n2": unresolvable("tainted")})
    assert found == PostFilterResult("")
    assert status.message == (
        "0/2 nodes are available: 1 Preemption is not helpful for scheduling, 1 no slot."
    )


def test_no_candidate_at_all_clears_the_nomination() -> None:
    view = a_cluster([a_node("n1")])
    found, status = preempt(view, BOSS, statuses={"n1": unresolvable("tainted")})
    assert found == PostFilterResult("")
    assert status == unschedulable(
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_fits_without_victims_is_an_error() -> None:
    class Fits(Slots):
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            return None

    view = a_cluster([a_node("n1")], {"n1": [a_victim("a")]})
    found, status = preempt(view, BOSS, Fits())
    assert (found, status) == (None, error('expected at least one victim pod on node "n1"'))


def test_an_error_matters_only_if_there_is_no_candidate() -> None:
    class Faulty(Slots):
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            if node.name == "n1":
                raise ValueError("bad")
            return super().filter(state, pod, node)

    pods = {"n1": [a_victim("a"), a_victim("b")], "n2": [a_victim("c"), a_victim("d")]}
    view = a_cluster([a_node("n1"), a_node("n2")], pods)
    assert nominated_and_victims(preempt(view, BOSS, Faulty()))[0] == "n2"
    found, status = preempt(view, BOSS, Faulty(), statuses={"n2": unresolvable("tainted")})
    assert found is None
    assert status.code is Code.ERROR
    assert status.message == 'running "Slots" filter plugin: ValueError: bad'


def test_the_search_stops_at_enough_candidates() -> None:
    names = [f"n{number}" for number in range(20)]
    pods = {name: [a_victim(f"{name}-a"), a_victim(f"{name}-b")] for name in names}
    visited: set[str] = set()

    class RecordingSlots(Slots):
        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            visited.add(node.name)
            return super().filter(state, pod, node)

    view = a_cluster([a_node(name) for name in names], pods)
    node_name, _ = nominated_and_victims(preempt(view, BOSS, RecordingSlots(), enough=3))
    assert len(visited) == 3
    assert node_name in visited


def test_the_search_continues_until_a_candidate_violates_no_budget() -> None:
    names = [f"n{number}" for number in range(8)]
    pods = {
        name: [a_victim(f"{name}-a", labels={"app": "db"}), a_pod(f"{name}-b", priority=200)]
        for name in names
    }
    pods["n5"] = [a_victim("free"), a_pod("other", priority=200)]
    view = a_cluster([a_node(name) for name in names], pods, [a_budget("db", {"app": "db"})])
    assert nominated_and_victims(preempt(view, BOSS, enough=1)) == ("n5", ["free"])


def test_nominated_pods_count_in_the_dry_run() -> None:
    pods = {"n1": [a_victim("a"), a_victim("b")]}
    nominee = {"n1": [a_pod("vip", priority=500)]}
    view = a_cluster([a_node("n1")], pods, nominated=nominee)
    assert sorted(nominated_and_victims(preempt(view, BOSS))[1]) == ["a", "b"]


def test_nominated_pods_of_lower_priority_do_not_count() -> None:
    pods = {"n1": [a_victim("a"), a_victim("b", minute=1)]}
    view = a_cluster([a_node("n1")], pods, nominated={"n1": [a_pod("small", priority=50)]})
    assert nominated_and_victims(preempt(view, BOSS)) == ("n1", ["b"])


LEAVING: dict[str, Any] = {
    "metadata": {"deletionTimestamp": "2024-05-01T00:00:00Z"},
    "status": {
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ]
    },
}
NO_MARK = {**LEAVING, "status": {}}
NOT_LEAVING = {**LEAVING, "metadata": {}}


@pytest.mark.parametrize(
    ("pod", "on_node", "status", "expected"),
    [
        pytest.param(
            {"preemptionPolicy": "Never"},
            {},
            unschedulable(""),
            "not eligible due to preemptionPolicy=Never.",
            id="the pod's policy",
        ),
        pytest.param({}, LEAVING, unschedulable(""), "", id="no nominated node"),
        pytest.param(
            {"status": {"nominatedNodeName": "n1"}},
            LEAVING,
            unschedulable(""),
            "not eligible due to a terminating pod on the nominated node.",
            id="its victim is terminating",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "n1"}},
            LEAVING,
            unresolvable(""),
            "",
            id="the nominated node became unresolvable",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "n1"}},
            {**LEAVING, "priority": 100},
            unschedulable(""),
            "",
            id="the terminating pod has the same priority",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "n1"}},
            NO_MARK,
            unschedulable(""),
            "",
            id="the terminating pod was not preempted",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "n1"}},
            NOT_LEAVING,
            unschedulable(""),
            "",
            id="the victim is not terminating yet",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "gone"}},
            LEAVING,
            unschedulable(""),
            "",
            id="the nominated node was deleted",
        ),
    ],
)
def test_eligibility(pod: Any, on_node: Any, status: Status, expected: str) -> None:
    view = a_cluster([a_node("n1")], {"n1": [a_pod("other", **on_node)]})
    statuses = NodeToStatus(view, unschedulable(""))
    statuses.set_one(view.row_of("n1"), status)
    assert why_not_eligible(view, a_pod("boss", **{"priority": 100, **pod}), statuses) == expected


def test_a_pod_that_may_not_preempt_keeps_its_nomination() -> None:
    view = a_cluster([a_node("n1")], {"n1": [a_victim("a"), a_victim("b")]})
    polite = a_pod("polite", priority=100, preemptionPolicy="Never")
    assert preempt(view, polite) == (
        None,
        unschedulable("not eligible due to preemptionPolicy=Never."),
    )
