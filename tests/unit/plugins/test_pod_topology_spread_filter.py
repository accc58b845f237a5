"""PodTopologySpread refuses nodes that would skew the spread."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config.types import PodTopologySpreadArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, Code, Status
from kubesched.objects.affinity import TopologySpreadConstraint
from kubesched.plugins.pod_topology_spread import PodTopologySpread
from tests.unit.plugins.builders import TestCluster, Wire, a_node, a_pod, statuses

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
FOO = {"matchLabels": {"app": "foo"}}


def spread(key: str = "zone", *, skew: int = 1, **more: Any) -> Wire:
    wire = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {**wire, "labelSelector": FOO, **more}


def incoming(*constraints: Wire, **more: Any) -> Wire:
    return a_pod("incoming", {"app": "foo"}, topologySpreadConstraints=list(constraints), **more)


def plugin_for(cluster: TestCluster) -> PodTopologySpread:
    return PodTopologySpread(PodTopologySpreadArgs(), cluster.handle)


def judged(cluster: TestCluster, pod: Wire) -> dict[str, str]:
    plugin, state, info = plugin_for(cluster), CycleState(), cluster.pod(pod)
    assert plugin.pre_filter(state, info, cluster.nodes) is None
    verdict = plugin.filter_nodes(state, info, cluster.nodes)
    return _words(statuses(verdict, cluster.nodes))


def _words(found: dict[str, Status]) -> dict[str, str]:
    codes = {Code.UNSCHEDULABLE: "U", Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UU"}
    return {name: f"{codes[s.code]} {s.message}" for name, s in found.items()}


def zones(**counts: int) -> TestCluster:
    """One node per zone, named as the zone, with that many pods of app foo."""
    cluster = TestCluster(*(a_node(zone, {"zone": zone}) for zone in counts))
    for zone, count in counts.items():
        cluster.add(*(a_pod(f"{zone}{i}", {"app": "foo"}, node=zone) for i in range(count)))
    return cluster


def test_a_domain_with_more_pods_than_the_least_and_the_skew_allow_is_refused() -> None:
    assert judged(zones(a=0, b=1, c=2), incoming(spread())) == {
        "b": f"U {SKEWED}",
        "c": f"U {SKEWED}",
    }
    assert judged(zones(a=0, b=1, c=2), incoming(spread(skew=2))) == {"c": f"U {SKEWED}"}


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing() -> None:
    pod = a_pod("incoming", {"app": "bar"}, topologySpreadConstraints=[spread()])
    assert judged(zones(a=0, b=1, c=2), pod) == {"c": f"U {SKEWED}"}


def test_a_node_without_the_key_is_unresolvable_and_no_domain() -> None:
    cluster = zones(a=1, b=1)
    cluster.add(a_node("bare"))
    assert judged(cluster, incoming(spread())) == {"bare": f"UU {UNLABELLED}"}


def test_an_empty_label_value_is_a_domain_like_any_other() -> None:
    cluster = TestCluster(a_node("x", {"zone": ""}), a_node("y", {"zone": "y"}))
    cluster.add(a_pod("p", {"app": "foo"}, node="x"))
    assert judged(cluster, incoming(spread())) == {"x": f"U {SKEWED}"}


def test_the_first_constraint_that_a_node_breaks_is_its_verdict() -> None:
    cluster = zones(a=0, b=3)
    both = incoming(spread("zone"), spread("host"))
    assert judged(cluster, both)["b"] == f"UU {UNLABELLED}"
    cluster.add(
        a_node("a1", {"zone": "a", "host": "a1"}),
        a_node("b1", {"zone": "b", "host": "b1"}),
        a_pod("p", {"app": "foo"}, node="b1"),
        a_pod("q", {"app": "foo"}, node="b1"),
    )
    assert judged(cluster, both) == {
        "a": f"UU {UNLABELLED}",
        "b": f"U {SKEWED}",
        "b1": f"U {SKEWED}",
    }


def test_pods_on_nodes_that_lack_one_of_the_keys_do_not_count() -> None:
    cluster = zones(a=5)
    cluster.add(
        a_node("a1", {"zone": "a", "host": "a1"}), a_node("b1", {"zone": "b", "host": "b1"})
    )
    assert judged(cluster, incoming(spread("zone"), spread("host"))) == {"a": f"UU {UNLABELLED}"}


@pytest.mark.parametrize(
    ("min_domains", "refused"),
    [
        pytest.param(None, [], id="without minDomains one domain suffices"),
        pytest.param(2, [], id="as many domains as asked for: the least count is the least"),
        pytest.param(3, ["a", "b"], id="too few domains: the least count is zero"),
    ],
)
def test_min_domains(min_domains: int | None, refused: list[str]) -> None:
    pod = incoming(spread(minDomains=min_domains))
    assert sorted(judged(zones(a=1, b=1), pod)) == refused


def test_terminating_pods_and_pods_of_other_namespaces_do_not_count() -> None:
    cluster = zones(a=0, b=0)
    cluster.add(
        a_pod("gone", {"app": "foo"}, node="a", terminating=True),
        a_pod("other", {"app": "foo"}, namespace="other", node="a"),
    )
    assert judged(cluster, incoming(spread())) == {}


def test_an_empty_selector_counts_no_pod_but_matches_the_incoming_one() -> None:
    cluster = zones(a=3, b=0)
    assert judged(cluster, incoming(spread(labelSelector={}))) == {}
    assert judged(cluster, incoming(spread(labelSelector={}, skew=0))) == {
        "a": f"U {SKEWED}",
        "b": f"U {SKEWED}",
    }


def test_no_selector_matches_nothing() -> None:
    assert judged(zones(a=3, b=0), incoming(spread(labelSelector=None, skew=0))) == {}


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values() -> None:
    cluster = zones(a=1, b=0)
    cluster.add(a_pod("new", {"app": "foo", "version": "2"}, node="b"))
    constraint = spread(matchLabelKeys=["version", "absent"])
    labels = {"app": "foo", "version": "2"}
    pod = a_pod("incoming", labels, topologySpreadConstraints=[constraint])
    assert judged(cluster, pod) == {"b": f"U {SKEWED}"}


@pytest.mark.parametrize(
    ("policies", "refused"),
    [
        pytest.param({}, ["b"], id="by default node affinity is honoured and taints are not"),
        pytest.param(
            {"nodeAffinityPolicy": "Ignore"}, ["a", "b"], id="a node that cannot be chosen counts"
        ),
        pytest.param({"nodeTaintsPolicy": "Honor"}, [], id="tainted nodes are no domains"),
        pytest.param(
            {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            ["a"],
            id="both the other way round",
        ),
    ],
)
def test_inclusion_policies(policies: Wire, refused: list[str]) -> None:
    cluster = TestCluster(
        a_node("a", {"zone": "a", "disk": "ssd"}),
        a_node("b", {"zone": "b", "disk": "ssd"}, spec=taints("NoExecute")),
        a_node("c", {"zone": "c", "disk": "ssd"}, spec=taints("NoSchedule")),
        a_node("d", {"zone": "d"}, spec=taints("PreferNoSchedule")),
        a_pod("a0", {"app": "foo"}, node="a"),
        a_pod("b0", {"app": "foo"}, node="b"),
        a_pod("b1", {"app": "foo"}, node="b"),
        a_pod("c0", {"app": "foo"}, node="c"),
    )
    pod = incoming(spread(**policies), nodeSelector={"disk": "ssd"})
    assert sorted(set(judged(cluster, pod)) - {"c", "d"}) == refused


def taints(effect: str) -> Wire:
    return {"taints": [{"key": "k", "effect": effect}]}


def test_a_node_outside_the_inclusion_is_measured_against_an_unknown_domain_of_zero() -> None:
    cluster = zones(a=2, b=2)
    cluster.add(a_node("t", {"zone": "t"}, spec=taints("NoSchedule")))
    pod = incoming(spread(nodeTaintsPolicy="Honor"))
    # 0 + 1 - 2 is below any skew.
    assert judged(cluster, pod) == {}


def test_a_pod_without_hard_constraints_skips_the_filter() -> None:
    cluster = zones(a=1)
    plugin = plugin_for(cluster)
    for pod in (incoming(), incoming(spread(whenUnsatisfiable="ScheduleAnyway"))):
        assert plugin.pre_filter(CycleState(), cluster.pod(pod), cluster.nodes) == SKIP


def test_a_selector_that_does_not_parse_is_an_error() -> None:
    cluster = zones(a=1)
    faulty = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    pod = cluster.pod(incoming(spread(labelSelector=faulty)))
    status = plugin_for(cluster).pre_filter(CycleState(), pod, cluster.nodes)
    assert isinstance(status, Status)
    assert (status.code, status.message) == (
        Code.ERROR,
        "get constraints from pod: obtaining pod's hard topology spread constraints: "
        '"Near" is not a valid label selector operator',
    )


def test_the_filter_without_its_pre_filter_is_an_error_on_every_node() -> None:
    cluster = zones(a=1, b=0)
    plugin, pod = plugin_for(cluster), cluster.pod(incoming(spread()))
    found = statuses(plugin.filter_nodes(CycleState(), pod, cluster.nodes), cluster.nodes)
    text = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
    assert {(s.code, s.message) for s in found.values()} == {(Code.ERROR, text)}
    assert sorted(found) == ["a", "b"]


def test_hard_default_constraints_count_what_the_pods_services_and_owner_select() -> None:
    cluster = zones(a=1, b=0)
    cluster.add(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "front", "namespace": "default"},
            "spec": {"selector": {"app": "foo"}},
        }
    )
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule"
    )
    args = PodTopologySpreadArgs(default_constraints=(constraint,), defaulting_type="List")
    plugin = PodTopologySpread(args, cluster.handle)
    state, pod = CycleState(), cluster.pod(incoming())
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    found = statuses(plugin.filter_nodes(state, pod, cluster.nodes), cluster.nodes)
    assert _words(found) == {"a": f"U {SKEWED}"}
    stranger = cluster.pod(a_pod("stranger", {"app": "bar"}))
    assert plugin.pre_filter(CycleState(), stranger, cluster.nodes) == SKIP


# -- trials ---------------------------------------------------------------------------------------


def test_each_row_of_a_trial_supposes_its_own_change_only() -> None:
    cluster = zones(a=2, b=2, c=2)
    plugin, state, pod = plugin_for(cluster), CycleState(), cluster.pod(incoming(spread()))
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    supposed, trial = state.clone(), cluster.trial("a", "b", "c")
    removed = trial.remove(cluster.indices("a0", "b0", None))
    assert plugin.remove_pods(supposed, pod, removed, trial.nodes) is None
    removed = trial.remove(cluster.indices("a1", None, None))
    assert plugin.remove_pods(supposed, pod, removed, trial.nodes) is None
    added = trial.add(cluster.indices(None, "b0", None))
    assert plugin.add_pods(supposed, pod, added, trial.nodes) is None
    after = plugin.filter_nodes(supposed, pod, trial.nodes)
    # a: 0 + 1 - 0; b and c: 2 + 1 - 2.
    assert statuses(after, trial.nodes) == {}
    added = trial.add(cluster.indices(None, None, "a0"))
    assert plugin.add_pods(supposed, pod, added, trial.nodes) is None
    after = plugin.filter_nodes(supposed, pod, trial.nodes)
    assert _words(statuses(after, trial.nodes)) == {"c": f"U {SKEWED}"}
    # The attempt itself never noticed.
    before = plugin.filter_nodes(state, pod, cluster.nodes)
    assert statuses(before, cluster.nodes) == {}


def test_taking_away_a_terminating_pod_brings_its_domain_below_zero() -> None:
    cluster = zones(a=0, b=0)
    cluster.add(a_pod("gone", {"app": "foo"}, node="a", terminating=True))
    plugin, state, pod = plugin_for(cluster), CycleState(), cluster.pod(incoming(spread(skew=0)))
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    assert sorted(statuses(plugin.filter_nodes(state, pod, cluster.nodes), cluster.nodes)) == [
        "a",
        "b",
    ]
    trial = cluster.trial("a")
    plugin.remove_pods(state, pod, trial.remove(cluster.indices("gone")), trial.nodes)
    # -1 + 1 - (-1) is still more than 0; with the least of the others it would not be.
    assert list(statuses(plugin.filter_nodes(state, pod, trial.nodes), trial.nodes)) == ["a"]


def test_pods_of_a_trial_without_the_pre_filters_state_are_an_error() -> None:
    cluster = zones(a=1)
    plugin, pod, trial = plugin_for(cluster), cluster.pod(incoming(spread())), cluster.trial("a")
    status = plugin.remove_pods(
        CycleState(), pod, trial.remove(cluster.indices("a0")), trial.nodes
    )
    assert status is not None
    assert status.message == 'reading "PreFilterPodTopologySpread" from cycleState: not found'


ZONES = ("a", "b", "c")
WHERE = st.lists(st.integers(0, 5), max_size=12)


@given(
    where=WHERE,
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=6),
    row=st.integers(0, 5),
    skew=st.integers(1, 2),
    min_domains=st.sampled_from([None, 3, 4]),
)
def test_a_trial_equals_the_cluster_in_which_it_happened(
    where: list[int],
    moves: list[tuple[bool, int]],
    row: int,
    skew: int,
    min_domains: int | None,
) -> None:
    """Six nodes in three zones; pods come to one node or leave it, supposed and in truth."""
    names = [f"n{i}" for i in range(6)]
    cluster = TestCluster(*(a_node(n, {"zone": ZONES[i % 3]}) for i, n in enumerate(names)))
    cluster.add(a_node("elsewhere"))
    for i, place in enumerate(where):
        cluster.add(a_pod(f"p{i}", {"app": "foo"}, node=names[place]))
    for i in range(12):
        cluster.add(a_pod(f"spare{i}", {"app": "foo"}, node="elsewhere"))
    plugin, state = plugin_for(cluster), CycleState()
    pod = cluster.pod(incoming(spread(skew=skew, minDomains=min_domains)))
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    name, trial = names[row], cluster.trial(names[row])
    here = [f"p{i}" for i, place in enumerate(where) if place == row]
    arrived = []
    for comes, number in moves:
        if comes:
            spare = cluster.indices(f"spare{number}")
            plugin.add_pods(state, pod, trial.add(spare), trial.nodes)
            arrived.append(f"new{len(arrived)}")
        elif here:
            gone = here.pop(number % len(here))
            removed = trial.remove(cluster.indices(gone))
            plugin.remove_pods(state, pod, removed, trial.nodes)
            cluster.remove_pod(gone)
    supposed = np.array([r.mask for r in plugin.filter_nodes(state, pod, trial.nodes)]).any()
    cluster.add(*(a_pod(new, {"app": "foo"}, node=name) for new in arrived))
    truth = CycleState()
    assert plugin.pre_filter(truth, pod, cluster.nodes) is None
    table = cluster.table(name)
    assert supposed == np.array([r.mask for r in plugin.filter_nodes(truth, pod, table)]).any()
