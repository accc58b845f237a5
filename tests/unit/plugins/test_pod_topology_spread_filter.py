"""PodTopologySpread rejects nodes on which the pod would exceed the maximum skew."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.affinity import TopologySpreadConstraint
from kubesched.config.types import PodTopologySpreadArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, Status, error
from kubesched.plugins.pod_topology_spread.plugin import PodTopologySpread
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import NodeTable
from tests.unit.plugins.builders import statuses_of
from tests.unit.plugins.growing_cluster import (
    GrowingCluster,
    Wire,
    a_service,
    in_words,
    node,
    pod,
)

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
FOO = {"matchLabels": {"app": "foo"}}


def spread(key: str = "zone", *, skew: int = 1, **more: Any) -> Wire:
    wire = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {**wire, "labelSelector": FOO, **more}


def incoming(*constraints: Wire, **more: Any) -> PodInfo:
    return pod("incoming", {"app": "foo"}, topologySpreadConstraints=list(constraints), **more)


def plugin_for(cluster: GrowingCluster) -> PodTopologySpread:
    return PodTopologySpread(PodTopologySpreadArgs(), cluster.handle)


def judged(cluster: GrowingCluster, incoming_pod: PodInfo) -> dict[str, str]:
    plugin, state = plugin_for(cluster), CycleState()
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    return in_words(rejected(plugin, state, incoming_pod, cluster.nodes))


def rejected(
    plugin: PodTopologySpread, state: CycleState, incoming_pod: PodInfo, nodes: NodeTable
) -> dict[str, Status]:
    return statuses_of(plugin.filter_nodes(state, incoming_pod, nodes), nodes.names)


def zones(**counts: int) -> GrowingCluster:
    """One node per zone, with the name of the zone and a number of pods of app foo."""
    cluster = GrowingCluster(*(node(zone, {"zone": zone}) for zone in counts))
    for zone, count in counts.items():
        cluster.add(*(pod(f"{zone}{i}", {"app": "foo"}, at=zone) for i in range(count)))
    return cluster


def test_a_domain_above_the_minimum_plus_the_skew_is_rejected() -> None:
    assert judged(zones(a=0, b=1, c=2), incoming(spread())) == {
        "b": f"U {SKEWED}",
        "c": f"U {SKEWED}",
    }
    assert judged(zones(a=0, b=1, c=2), incoming(spread(skew=2))) == {"c": f"U {SKEWED}"}


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing() -> None:
    incoming_pod = pod("incoming", {"app": "bar"}, topologySpreadConstraints=[spread()])
    assert judged(zones(a=0, b=1, c=2), incoming_pod) == {"c": f"U {SKEWED}"}


def test_a_node_without_the_key_is_unresolvable_and_no_domain() -> None:
    cluster = zones(a=1, b=1)
    cluster.add(node("bare"))
    assert judged(cluster, incoming(spread())) == {"bare": f"UU {UNLABELLED}"}


def test_an_empty_label_value_is_a_domain_like_any_other() -> None:
    cluster = GrowingCluster(node("x", {"zone": ""}), node("y", {"zone": "y"}))
    cluster.add(pod("p", {"app": "foo"}, at="x"))
    assert judged(cluster, incoming(spread())) == {"x": f"U {SKEWED}"}


def test_the_first_constraint_that_a_node_breaks_is_its_verdict() -> None:
    cluster = zones(a=0, b=3)
    both = incoming(spread("zone"), spread("host"))
    assert judged(cluster, both)["b"] == f"UU {UNLABELLED}"
    cluster.add(
        node("a1", {"zone": "a", "host": "a1"}),
        node("b1", {"zone": "b", "host": "b1"}),
        pod("p", {"app": "foo"}, at="b1"),
        pod("q", {"app": "foo"}, at="b1"),
    )
    assert judged(cluster, both) == {
        "a": f"UU {UNLABELLED}",
        "b": f"U {SKEWED}",
        "b1": f"U {SKEWED}",
    }


def test_pods_on_nodes_that_lack_one_of_the_keys_do_not_count() -> None:
    cluster = zones(a=5)
    cluster.add(node("a1", {"zone": "a", "host": "a1"}), node("b1", {"zone": "b", "host": "b1"}))
    assert judged(cluster, incoming(spread("zone"), spread("host"))) == {"a": f"UU {UNLABELLED}"}


@pytest.mark.parametrize(
    ("min_domains", "rejected"),
    [
        pytest.param(None, [], id="without minDomains one domain suffices"),
        pytest.param(2, [], id="as many domains as requested: the lowest count is the minimum"),
        pytest.param(3, ["a", "b"], id="too few domains: the minimum is zero"),
    ],
)
def test_min_domains(min_domains: int | None, rejected: list[str]) -> None:
    incoming_pod = incoming(spread(minDomains=min_domains))
    assert sorted(judged(zones(a=1, b=1), incoming_pod)) == rejected


def test_terminating_pods_and_pods_of_other_namespaces_do_not_count() -> None:
    cluster = zones(a=0, b=0)
    cluster.add(
        pod("gone", {"app": "foo"}, at="a", terminating=True),
        pod("other", {"app": "foo"}, namespace="other", at="a"),
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
    cluster.add(pod("new", {"app": "foo", "version": "2"}, at="b"))
    constraint = spread(matchLabelKeys=["version", "absent"])
    labels = {"app": "foo", "version": "2"}
    incoming_pod = pod("incoming", labels, topologySpreadConstraints=[constraint])
    assert judged(cluster, incoming_pod) == {"b": f"U {SKEWED}"}


@pytest.mark.parametrize(
    ("policies", "rejected"),
    [
        pytest.param({}, ["b"], id="by default node affinity is honoured and taints are not"),
        pytest.param(
            {"nodeAffinityPolicy": "Ignore"}, ["a", "b"], id="a node that cannot be chosen counts"
        ),
        pytest.param({"nodeTaintsPolicy": "Honor"}, [], id="tainted nodes are no domains"),
        pytest.param(
            {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            ["a"],
            id="both policies inverted",
        ),
    ],
)
def test_inclusion_policies(policies: Wire, rejected: list[str]) -> None:
    cluster = GrowingCluster(
        node("a", {"zone": "a", "disk": "ssd"}),
        node("b", {"zone": "b", "disk": "ssd"}, **taints("NoExecute")),
        node("c", {"zone": "c", "disk": "ssd"}, **taints("NoSchedule")),
        node("d", {"zone": "d"}, **taints("PreferNoSchedule")),
        pod("a0", {"app": "foo"}, at="a"),
        pod("b0", {"app": "foo"}, at="b"),
        pod("b1", {"app": "foo"}, at="b"),
        pod("c0", {"app": "foo"}, at="c"),
    )
    incoming_pod = incoming(spread(**policies), nodeSelector={"disk": "ssd"})
    assert sorted(set(judged(cluster, incoming_pod)) - {"c", "d"}) == rejected


def taints(effect: str) -> Wire:
    return {"taints": [{"key": "k", "effect": effect}]}


def test_a_node_excluded_by_policy_counts_as_an_unknown_domain_of_zero() -> None:
    cluster = zones(a=2, b=2)
    cluster.add(node("t", {"zone": "t"}, **taints("NoSchedule")))
    incoming_pod = incoming(spread(nodeTaintsPolicy="Honor"))
    # 0 + 1 - 2 is below any skew.
    assert judged(cluster, incoming_pod) == {}


def test_a_pod_without_hard_constraints_skips_the_filter() -> None:
    cluster = zones(a=1)
    plugin = plugin_for(cluster)
    for incoming_pod in (incoming(), incoming(spread(whenUnsatisfiable="ScheduleAnyway"))):
        assert plugin.pre_filter(CycleState(), incoming_pod, cluster.nodes) == SKIP


def test_a_selector_that_does_not_parse_is_an_error() -> None:
    cluster = zones(a=1)
    faulty = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    incoming_pod = incoming(spread(labelSelector=faulty))
    status = plugin_for(cluster).pre_filter(CycleState(), incoming_pod, cluster.nodes)
    assert status == error(
        "get constraints from pod: obtaining pod's hard topology spread constraints: "
        '"Near" is not a valid label selector operator'
    )


def test_the_filter_without_its_pre_filter_is_an_error_on_every_node() -> None:
    cluster = zones(a=1, b=0)
    found = rejected(plugin_for(cluster), CycleState(), incoming(spread()), cluster.nodes)
    text = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
    assert found == {"a": error(text), "b": error(text)}


def test_hard_default_constraints_count_the_pods_of_the_pods_services() -> None:
    cluster = zones(a=1, b=0)
    cluster.add(a_service("front", {"app": "foo"}))
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule"
    )
    args = PodTopologySpreadArgs(default_constraints=(constraint,), defaulting_type="List")
    plugin, state = PodTopologySpread(args, cluster.handle), CycleState()
    assert plugin.pre_filter(state, incoming(), cluster.nodes) is None
    assert in_words(rejected(plugin, state, incoming(), cluster.nodes)) == {"a": f"U {SKEWED}"}
    stranger = pod("stranger", {"app": "bar"})
    assert plugin.pre_filter(CycleState(), stranger, cluster.nodes) == SKIP


# -- trials ---------------------------------------------------------------------------------------


def test_each_row_of_a_trial_has_only_its_own_change() -> None:
    cluster = zones(a=2, b=2, c=2)
    plugin, state, incoming_pod = plugin_for(cluster), CycleState(), incoming(spread())
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    trial_state, trial = state.clone(), cluster.trial("a", "b", "c")
    removed = trial.remove(cluster.indices("a0", "b0", None))
    assert plugin.remove_pods(trial_state, incoming_pod, removed, trial.nodes) is None
    removed = trial.remove(cluster.indices("a1", None, None))
    assert plugin.remove_pods(trial_state, incoming_pod, removed, trial.nodes) is None
    added = trial.add(cluster.indices(None, "b0", None))
    assert plugin.add_pods(trial_state, incoming_pod, added, trial.nodes) is None
    # a: 0 + 1 - 0; b and c: 2 + 1 - 2.
    assert rejected(plugin, trial_state, incoming_pod, trial.nodes) == {}
    added = trial.add(cluster.indices(None, None, "a0"))
    assert plugin.add_pods(trial_state, incoming_pod, added, trial.nodes) is None
    assert in_words(rejected(plugin, trial_state, incoming_pod, trial.nodes)) == {
        "c": f"U {SKEWED}"
    }
    # The state of the attempt is unchanged.
    assert rejected(plugin, state, incoming_pod, cluster.nodes) == {}


def test_removing_a_terminating_pod_brings_its_domain_below_zero() -> None:
    cluster = zones(a=1, b=2)
    cluster.add(
        pod("gone", {"app": "foo"}, at="a", terminating=True),
        pod("left", {"app": "foo"}, at="a", terminating=True),
    )
    plugin, state, incoming_pod = plugin_for(cluster), CycleState(), incoming(spread())
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    for name in ("a0", "gone", "left"):
        trial = cluster.trial("b")
        plugin.add_pods(state, incoming_pod, trial.add(cluster.indices(name)), trial.nodes)
    # b: 5 + 1 - 1. Then the same number is removed, and three more: -1 + 1 - (-1).
    assert list(rejected(plugin, state, incoming_pod, cluster.table("b"))) == ["b"]
    for name in ("a0", "gone", "left", "b0", "b1", "a0"):
        removed = PodRows(cluster.view, cluster.indices(name))
        plugin.remove_pods(state, incoming_pod, removed, cluster.table("b"))
    assert rejected(plugin, state, incoming_pod, cluster.table("b")) == {}
    strict = incoming(spread(skew=0))
    assert plugin.pre_filter(state, strict, cluster.nodes) is None
    for name in ("a0", "gone"):
        removed = PodRows(cluster.view, cluster.indices(name))
        plugin.remove_pods(state, strict, removed, cluster.table("a"))
    # -1 + 1 - (-1): the minimum is the domain's own count, although it is below zero.
    assert list(rejected(plugin, state, strict, cluster.table("a"))) == ["a"]


def test_an_empty_selector_counts_pods_that_come_and_go_in_a_trial() -> None:
    cluster = zones(a=1, b=1)
    incoming_pod = incoming(spread(labelSelector={}))
    plugin, state, trial = plugin_for(cluster), CycleState(), cluster.trial("a", "b")
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    added = trial.add(cluster.indices("b0", None))
    assert plugin.add_pods(state, incoming_pod, added, trial.nodes) is None
    assert in_words(rejected(plugin, state, incoming_pod, trial.nodes)) == {"a": f"U {SKEWED}"}


def test_pods_of_a_trial_without_the_pre_filters_state_are_an_error() -> None:
    cluster = zones(a=1)
    trial = cluster.trial("a")
    removed = trial.remove(cluster.indices("a0"))
    status = plugin_for(cluster).remove_pods(CycleState(), incoming(spread()), removed, trial.nodes)
    assert status == error('reading "PreFilterPodTopologySpread" from cycleState: not found')


@given(
    node_indexes=st.lists(st.integers(0, 5), max_size=12),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=6),
    row=st.integers(0, 5),
    skew=st.integers(1, 2),
    min_domains=st.sampled_from([None, 3, 4]),
)
def test_a_trial_equals_the_cluster_after_the_same_changes(
    node_indexes: list[int],
    moves: list[tuple[bool, int]],
    row: int,
    skew: int,
    min_domains: int | None,
) -> None:
    """Six nodes in three zones; pods of one node are added or removed, in a trial and in fact."""
    names = [f"n{i}" for i in range(6)]
    cluster = GrowingCluster(*(node(n, {"zone": "abc"[i % 3]}) for i, n in enumerate(names)))
    cluster.add(node("elsewhere"))
    cluster.add(*(pod(f"p{i}", {"app": "foo"}, at=names[n]) for i, n in enumerate(node_indexes)))
    cluster.add(*(pod(f"spare{i}", {"app": "foo"}, at="elsewhere") for i in range(12)))
    plugin, state = plugin_for(cluster), CycleState()
    incoming_pod = incoming(spread(skew=skew, minDomains=min_domains))
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    name, trial = names[row], cluster.trial(names[row])
    here = [f"p{i}" for i, index in enumerate(node_indexes) if index == row]
    added_count, removed_names = 0, []
    for is_added, number in moves:
        if is_added:
            added = trial.add(cluster.indices(f"spare{number}"))
            plugin.add_pods(state, incoming_pod, added, trial.nodes)
            added_count += 1
        elif here:
            removed_names.append(here.pop(number % len(here)))
            removed = trial.remove(cluster.indices(removed_names[-1]))
            plugin.remove_pods(state, incoming_pod, removed, trial.nodes)
    in_trial = rejected(plugin, state, incoming_pod, trial.nodes)
    for pod_name in removed_names:
        cluster.remove_pod(pod_name)
    cluster.add(*(pod(f"new{i}", {"app": "foo"}, at=name) for i in range(added_count)))
    cluster_state = CycleState()
    assert plugin.pre_filter(cluster_state, incoming_pod, cluster.nodes) is None
    assert in_trial == rejected(plugin, cluster_state, incoming_pod, cluster.table(name))
