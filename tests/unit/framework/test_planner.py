"""Plans are kept for templates that are met again, and no longer than they are true."""

import gc
from typing import Any
from weakref import finalize

import pytest

from kubesched.cache.cache import Cache
from kubesched.columns.node_columns import IntColumn
from kubesched.engine.schedule_pod import run_without_extenders, schedule_pod
from kubesched.engine.search import Search
from kubesched.framework import planner as planner_module
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads
from kubesched.framework.plan import Plan
from kubesched.framework.plan_frame import NotLocalError
from kubesched.framework.planner import Planner
from kubesched.framework.status import error
from kubesched.framework.totals import ORDER_BITS
from kubesched.model.pod_info import PodInfo
from tests.unit.builders import a_cache, a_pod, a_profile, a_wire_node, a_wire_pod


class Emptiest:
    """Likes nodes with few pods; fails on one with three."""

    name = "Emptiest"

    def reads(self, pod: Any) -> Reads | None:
        return Reads(usage=True)

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> IntColumn | Any:
        if len(nodes) == 1 and nodes.pod_count == 3:
            return error("three")
        return 10 - nodes.pod_count


@pytest.fixture
def cluster() -> Cache:
    return a_cache("n1", "n2")


@pytest.fixture
def planner() -> Planner:
    found = a_profile(Emptiest()).planner
    assert found is not None
    return found


def of_template(cluster: Cache, app: str) -> PodInfo:
    return cluster.pod_info(a_wire_pod(app, labels={"app": app}))


def plan_of(planner: Planner, cluster: Cache, app: str) -> Plan:
    return planner.plan_for(cluster.snapshot(), of_template(cluster, app))[0]


def test_while_there_is_room_a_plan_is_kept_from_the_first_meeting_on(
    planner: Planner, cluster: Cache
) -> None:
    kept = [plan_of(planner, cluster, app) for app in "abc"]
    assert kept == [plan_of(planner, cluster, app) for app in "abc"]


def test_without_room_the_plan_of_a_template_met_once_makes_way_for_the_next(
    planner: Planner, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "BYTES_MAX", 0)  # Then four plans are the most.
    kept = [plan_of(planner, cluster, app) for app in "abcd"]
    for app in "efghij":
        plan_of(planner, cluster, app)
    assert len(planner) == 5
    assert kept == [plan_of(planner, cluster, app) for app in "abcd"]


def test_from_the_second_meeting_on_plans_are_kept(planner: Planner, cluster: Cache) -> None:
    for _ in range(2):
        for app in "abc":
            plan_of(planner, cluster, app)
    assert len(planner) == 3
    kept = [plan_of(planner, cluster, app) for app in "abc"]
    assert kept == [plan_of(planner, cluster, app) for app in "abc"]


def test_a_template_met_twice_in_a_row_is_kept_at_once(planner: Planner, cluster: Cache) -> None:
    first = plan_of(planner, cluster, "a")
    assert plan_of(planner, cluster, "a") is first
    plan_of(planner, cluster, "b")
    assert plan_of(planner, cluster, "a") is first


def test_a_kept_plan_that_a_new_node_ends_is_made_anew_and_kept(
    planner: Planner, cluster: Cache
) -> None:
    for app in "aabb":
        plan_of(planner, cluster, app)
    cluster.add_node(a_wire_node("n3"))
    anew = [plan_of(planner, cluster, app) for app in "ab"]
    assert [len(plan.rows) for plan in anew] == [3, 3]
    assert [plan_of(planner, cluster, app) for app in "ab"] == anew


def test_the_least_recently_used_plan_is_dropped_first(
    planner: Planner, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "BYTES_MAX", 0)  # Then four plans are the most.
    for _ in range(2):
        for app in "abcd":
            plan_of(planner, cluster, app)
    used, oldest = (
        plan_of(planner, cluster, "a"),
        planner._plans[of_template(cluster, "b").template],
    )
    for app in "ee":
        plan_of(planner, cluster, app)
    assert len(planner) == 4
    assert plan_of(planner, cluster, "a") is used
    assert plan_of(planner, cluster, "b") is not oldest


def test_how_many_templates_are_remembered_is_bounded(
    planner: Planner, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "MET_ONCE_MAX", 2)
    monkeypatch.setattr(planner_module, "BYTES_MAX", 0)
    for app in "abcdefgh":
        plan_of(planner, cluster, app)
    assert len(planner._met_once) == 2


def test_a_plan_that_could_not_follow_is_dropped(planner: Planner, cluster: Cache) -> None:
    first = plan_of(planner, cluster, "a")
    for name in ("p1", "p2", "p3"):
        cluster.add_pod(a_pod(name, nodeName="n1"))
    with pytest.raises(NotLocalError):
        plan_of(planner, cluster, "a")
    cluster.remove_pod(a_pod("p3", nodeName="n1"))
    second = plan_of(planner, cluster, "a")
    assert second is not first
    assert (second.raised_sum >> ORDER_BITS).tolist() == [8, 10]


def test_a_dropped_plan_is_freed_without_a_collection(
    cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "BYTES_MAX", 0)  # Then there is room for four plans.
    profile = a_profile(Emptiest())
    assert profile.planner is not None
    freed: list[str] = []
    gc.disable()
    try:
        for app in "wxyzab":
            attempt = schedule_pod(
                profile,
                cluster.snapshot(),
                CycleState(),
                of_template(cluster, app),
                Search(all_nodes=True),
            )
            run_without_extenders(attempt)
            plan = list(profile.planner._plans.values())[-1]
            finalize(plan, freed.append, app)
            del plan
        assert freed == ["a"]
    finally:
        gc.enable()


def test_another_cluster_has_plans_of_its_own(planner: Planner, cluster: Cache) -> None:
    first = plan_of(planner, cluster, "a")
    other = Cache()
    other.add_node(a_wire_node("n1"))
    assert len(plan_of(planner, other, "a").rows) == 1
    assert plan_of(planner, cluster, "a") is not first
