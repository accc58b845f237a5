"""What plans of one family of pods have in common is asked once for all of them."""

from collections import Counter
from typing import Any

import pytest

from kubesched.cache.cache import Cache
from kubesched.columns.node_columns import IntColumn
from kubesched.framework.interface import Reads
from kubesched.framework.plan import Plan
from kubesched.framework.planner import Planner
from kubesched.framework.status import SKIP, Status
from tests.unit.builders import a_cache, a_profile, a_wire_node, a_wire_pod


class Counting:
    """Counts how often it is asked what."""

    same_for_family = True
    declared = Reads(nodes=True)

    def __init__(self, name: str = "Counting") -> None:
        self.name = name
        self.calls: Counter[str] = Counter()

    def reads(self, pod: Any) -> Reads | None:
        self.calls["reads"] += 1
        return self.declared

    def fragment(self, pod: Any) -> str:
        return ""

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self.calls["pre_filter"] += 1
        state.write(self.name, self.calls["pre_filter"])
        return None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        return []

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self.calls["pre_score"] += 1
        return SKIP

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> IntColumn | Any:
        raise AssertionError("it is skipped")


class EachPod(Counting):
    """Says something else of every pod."""

    same_for_family = False


class ByServices(Counting):
    """Depends on other objects."""

    same_for_family = True
    declared = Reads(nodes=True, objects=("services",))


class Derived(Counting):
    """Made from one that says the same, and does not say so itself."""


class Idle(EachPod):
    """Has nothing to do with any pod."""

    declared = Reads(idle=True)


@pytest.fixture
def cluster() -> Cache:
    return a_cache("n1", "n2")


def planner_of(plugin: Counting) -> Planner:
    planner = a_profile(plugin).planner
    assert planner is not None
    return planner


def plan_of(planner: Planner, cluster: Cache, cpu: str, **spec: Any) -> Plan:
    pod = cluster.pod_info(a_wire_pod(cpu, requests={"cpu": cpu}, **spec))
    return planner.plan_for(cluster.snapshot(), pod)[0]


def test_a_family_is_asked_about_once(cluster: Cache) -> None:
    plugin = Counting()
    planner = planner_of(plugin)
    plans = [plan_of(planner, cluster, cpu) for cpu in ("1", "2", "3")]
    assert plugin.calls == {"reads": 1, "pre_filter": 1, "pre_score": 1}
    assert [plan.state.read("Counting") for plan in plans] == [1, 1, 1]
    assert all(plan.state.skip_score_plugins == {"Counting"} for plan in plans)
    assert plans[0].frame is plans[2].frame


def test_another_family_is_asked_about_by_itself(cluster: Cache) -> None:
    plugin = Counting()
    planner = planner_of(plugin)
    plan_of(planner, cluster, "1")
    plan_of(planner, cluster, "1", tolerations=[{"operator": "Exists"}])
    plan_of(planner, cluster, "1", nodeName="n1")
    assert plugin.calls["pre_filter"] == 3


def test_when_a_node_changes_it_is_asked_again(cluster: Cache) -> None:
    plugin = Counting()
    planner = planner_of(plugin)
    plan_of(planner, cluster, "1")
    cluster.add_node(a_wire_node("n3"))
    plan_of(planner, cluster, "2")
    assert plugin.calls == {"reads": 2, "pre_filter": 2, "pre_score": 2}


@pytest.mark.parametrize("kind", [EachPod, ByServices, Derived])
def test_others_are_asked_about_every_template(cluster: Cache, kind: type[Counting]) -> None:
    plugin = kind()
    planner = planner_of(plugin)
    plans = [plan_of(planner, cluster, cpu) for cpu in ("1", "2")]
    assert plugin.calls["pre_filter"] == plugin.calls["pre_score"] == 2
    assert [plan.state.read("Counting") for plan in plans] == [1, 2]


def test_an_idle_plugin_is_skipped_unasked(cluster: Cache) -> None:
    plugin = Idle()
    plan = plan_of(planner_of(plugin), cluster, "1")
    assert plugin.calls == {"reads": 1}
    assert plan.state.skip_filter_plugins == plan.state.skip_score_plugins == {"Counting"}
