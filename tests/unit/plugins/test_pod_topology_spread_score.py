"""PodTopologySpread prefers nodes in domains with few matching pods."""

import re
from typing import Any

import numpy as np
import pytest

from kubesched.api.affinity import TopologySpreadConstraint
from kubesched.api.decode import decode_object
from kubesched.config.types import PodTopologySpreadArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, StatusError, error
from kubesched.golang.math import go_log
from kubesched.plugins.pod_topology_spread.plugin import PodTopologySpread
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.plugins.growing_cluster import (
    GrowingCluster,
    Wire,
    a_service,
    by_name,
    node,
    pod,
)

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def soft(key: str = "zone", *, skew: int = 1, **more: Any) -> Wire:
    wire = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"}
    return {**wire, "labelSelector": {"matchLabels": {"app": "foo"}}, **more}


def incoming(*constraints: Wire, **more: Any) -> PodInfo:
    return pod("incoming", {"app": "foo"}, topologySpreadConstraints=list(constraints), **more)


def plugin_for(cluster: GrowingCluster, **args: Any) -> PodTopologySpread:
    return PodTopologySpread(PodTopologySpreadArgs(**args), cluster.handle)


def foo(name: str, at: str, **more: Any) -> PodInfo:
    return pod(name, {"app": "foo"}, at=at, **more)


def scored(
    cluster: GrowingCluster, incoming_pod: PodInfo, *fitting: str, **args: Any
) -> tuple[dict[str, int], dict[str, int]]:
    plugin, state = plugin_for(cluster, **args), CycleState()
    nodes = cluster.table(*fitting) if fitting else cluster.nodes
    assert plugin.pre_score(state, incoming_pod, nodes) is None
    raw = plugin.score_nodes(state, incoming_pod, nodes)
    return by_name(raw, nodes), by_name(plugin.normalize_scores(state, incoming_pod, raw), nodes)


def three_zones() -> GrowingCluster:
    return GrowingCluster(
        node("a", {"zone": "a"}),
        node("b", {"zone": "b"}),
        node("c", {"zone": "c"}),
        foo("a0", "a"),
        foo("a1", "a"),
        foo("a2", "a"),
        foo("b0", "b"),
    )


def test_fewer_pods_score_more() -> None:
    raw, normal = scored(three_zones(), incoming(soft()))
    # ln(3 + 2) = 1.609...: 3 × 1.609 = 4.83, 1.609, 0.
    assert raw == {"a": 5, "b": 2, "c": 0}
    assert normal == {"a": 0, "b": 60, "c": 100}


def test_a_larger_skew_reduces_differences() -> None:
    raw, normal = scored(three_zones(), incoming(soft(skew=4)))
    assert raw == {"a": 8, "b": 5, "c": 3}
    assert normal == {"a": 37, "b": 75, "c": 100}


def test_domains_are_of_fitting_nodes_and_counts_of_all_nodes() -> None:
    cluster = three_zones()
    cluster.add(node("b2", {"zone": "b"}), foo("b1", "b2"))
    raw, normal = scored(cluster, incoming(soft()), "a", "b")
    # ln(2 + 2) = 1.386: 3 × 1.386 = 4.16, 2 × 1.386 = 2.77.
    assert raw == {"a": 4, "b": 3}
    assert normal == {"a": 75, "b": 100}


def test_nodes_excluded_by_policies_do_not_count() -> None:
    cluster = three_zones()
    cluster.add(
        node("a2", {"zone": "a", "disk": "ssd"}),
        foo("a3", "a2"),
        node("b2", {"zone": "b", "disk": "ssd"}),
    )
    raw, _ = scored(cluster, incoming(soft(), nodeSelector={"disk": "ssd"}), "a2", "b2")
    assert raw == {"a2": 1, "b2": 0}


def test_the_hostname_key_counts_the_nodes_own_pods_whatever_its_label() -> None:
    cluster = GrowingCluster(
        node("x", {HOST: "same"}),
        node("y", {HOST: "same"}),
        foo("p", "x"),
        foo("q", "x", terminating=True),
        foo("r", "x", namespace="other"),
    )
    raw, normal = scored(cluster, incoming(soft(HOST)))
    # ln(2 + 2) = 1.386: two nodes, though they share the value.
    assert raw == {"x": 1, "y": 0}
    assert normal == {"x": 0, "y": 100}


def test_nodes_without_a_key_of_the_pods_own_constraints_score_zero() -> None:
    cluster = three_zones()
    cluster.add(node("bare"), foo("z", "bare"))
    raw, normal = scored(cluster, incoming(soft()))
    assert raw == {"a": 5, "b": 2, "c": 0, "bare": 0}
    assert normal == {"a": 0, "b": 60, "c": 100, "bare": 0}


def test_every_node_scores_zero_if_no_node_has_the_keys() -> None:
    cluster = GrowingCluster(node("x"), node("y"))
    assert scored(cluster, incoming(soft()))[1] == {"x": 0, "y": 0}


def test_every_node_scores_the_maximum_if_no_pod_matches() -> None:
    cluster = GrowingCluster(node("x", {"zone": "x"}), node("y", {"zone": "y"}))
    assert scored(cluster, incoming(soft()))[1] == {"x": 100, "y": 100}


def test_several_constraints_add_up_before_they_are_rounded() -> None:
    cluster = GrowingCluster(
        node("x", {"zone": "a", HOST: "x"}),
        node("y", {"zone": "a", HOST: "y"}),
        node("z", {"zone": "b", HOST: "z"}),
        foo("p", "x"),
    )
    raw, _ = scored(cluster, incoming(soft("zone"), soft(HOST)))
    # Zones: ln 4 = 1.386. Hosts: ln 5 = 1.609. x: 2.996, y: 1.386, z: 0.
    assert raw == {"x": 3, "y": 1, "z": 0}


# -- defaults -------------------------------------------------------------------------------------


def owned_by(api_version: str, kind: str, **labels: str) -> PodInfo:
    return PodInfo(_owned(api_version, kind, labels), pod("incoming", labels).shape)


def _owned(api_version: str, kind: str, labels: dict[str, str]) -> Any:
    owner = {"apiVersion": api_version, "kind": kind, "name": "web", "controller": True}
    metadata = {
        "name": "incoming",
        "namespace": "default",
        "uid": "u",
        "labels": labels,
        "ownerReferences": [{**owner, "controller": False, "name": "not-this"}, owner],
    }
    return decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})


def a_controller(api_version: str, kind: str, selector: Wire | None) -> Any:
    metadata = {"name": "web", "namespace": "default"}
    wire = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return decode_object({**wire, "spec": {"selector": selector}})


def labelled() -> GrowingCluster:
    return GrowingCluster(
        node("x", {HOST: "x", ZONE: "a"}),
        node("y", {HOST: "y", ZONE: "b"}),
        foo("p", "x"),
        pod("q", {"app": "foo", "tier": "web"}, at="x"),
    )


@pytest.mark.parametrize(
    ("controller", "owner", "count"),
    [
        pytest.param(
            ("apps/v1", "ReplicaSet", {"matchLabels": {"tier": "web"}}),
            ("apps/v1", "ReplicaSet"),
            1,
            id="a replica set",
        ),
        pytest.param(
            ("apps/v1", "StatefulSet", {"matchLabels": {"app": "foo"}}),
            ("apps/v1", "StatefulSet"),
            2,
            id="a stateful set",
        ),
        pytest.param(
            ("v1", "ReplicationController", {"app": "foo"}),
            ("v1", "ReplicationController"),
            2,
            id="a replication controller",
        ),
        pytest.param(
            ("v1", "ReplicationController", {"app": "foo"}),
            ("/v1", "ReplicationController"),
            2,
            id="an empty group written out",
        ),
        pytest.param(
            ("apps/v1", "ReplicaSet", {"matchLabels": {"tier": "web"}}),
            ("extensions/v1beta1", "ReplicaSet"),
            None,
            id="a replica set of another group is no owner",
        ),
        pytest.param(
            ("apps/v1", "ReplicaSet", None),
            ("apps/v1", "ReplicaSet"),
            None,
            id="a replica set without a selector adds nothing",
        ),
    ],
)
def test_default_constraints_select_the_pods_of_the_controller(
    controller: tuple[str, str, Wire | None], owner: tuple[str, str], count: int | None
) -> None:
    cluster = labelled()
    cluster.add(a_controller(*controller))
    incoming_pod = owned_by(*owner, app="foo")
    plugin, state = plugin_for(cluster), CycleState()
    status = plugin.pre_score(state, incoming_pod, cluster.nodes)
    if count is None:
        assert status == SKIP
        return
    raw = by_name(plugin.score_nodes(state, incoming_pod, cluster.nodes), cluster.nodes)
    # Skews 3 and 5 add 2 and 4; two hosts and two zones weigh ln 4 = 1.386 each.
    assert raw == {"x": {1: 9, 2: 12}[count], "y": 6}


def test_services_and_controller_select_together() -> None:
    cluster = labelled()
    cluster.add(
        a_service("front", {"app": "foo"}),
        a_service("none", {}),
        a_service("foreign", {"app": "bar"}),
        a_controller("apps/v1", "ReplicaSet", {"matchLabels": {"tier": "web"}}),
    )
    raw, _ = scored(cluster, owned_by("apps/v1", "ReplicaSet", app="foo"))
    assert raw == {"x": 9, "y": 6}
    raw, _ = scored(cluster, pod("incoming", {"app": "foo"}))
    assert raw == {"x": 12, "y": 6}


def test_a_new_service_counts() -> None:
    cluster = labelled()
    plugin, incoming_pod = plugin_for(cluster), pod("incoming", {"app": "foo"})
    assert plugin.pre_score(CycleState(), incoming_pod, cluster.nodes) == SKIP
    cluster.add(a_service("front", {"app": "foo"}))
    assert plugin.pre_score(CycleState(), incoming_pod, cluster.nodes) is None


def test_under_system_defaults_a_node_without_a_zone_is_scored_by_its_host() -> None:
    cluster = labelled()
    cluster.add(node("bare", {HOST: "bare"}), foo("r", "bare"), a_service("front", {"app": "foo"}))
    raw, normal = scored(cluster, pod("incoming", {"app": "foo"}))
    # Three hosts and three zones (one of them that of no label): ln 5 = 1.609.
    # x: 2 + 2·1.609 + 4 + 2·1.609 = 12.4; bare: 2 + 1.609, and zero for the zone.
    assert raw == {"x": 12, "y": 6, "bare": 4}
    assert normal == {"x": 33, "y": 83, "bare": 100}


def test_under_system_defaults_no_zone_and_an_empty_zone_are_one_domain() -> None:
    cluster = GrowingCluster(
        node("none", {HOST: "none"}),
        node("empty", {HOST: "empty", ZONE: ""}),
        foo("p", "none"),
        a_service("front", {"app": "foo"}),
    )
    raw, _ = scored(cluster, pod("incoming", {"app": "foo"}))
    # Hosts ln 4 = 1.386, one zone ln 3 = 1.099. none: 2 + 1.386; empty: 2 + 4 + 1.099.
    assert raw == {"none": 3, "empty": 7}


def test_under_listed_defaults_all_keys_are_required() -> None:
    cluster = labelled()
    cluster.add(node("bare", {HOST: "bare"}), a_service("front", {"app": "foo"}))
    constraints = tuple(
        TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable="ScheduleAnyway")
        for key in (HOST, ZONE)
    )
    _, normal = scored(
        cluster,
        pod("incoming", {"app": "foo"}),
        default_constraints=constraints,
        defaulting_type="List",
    )
    assert normal == {"x": 0, "y": 100, "bare": 0}


def test_a_pod_with_hard_constraints_only_gets_no_defaults() -> None:
    cluster = labelled()
    cluster.add(a_service("front", {"app": "foo"}))
    hard = incoming(soft(whenUnsatisfiable="DoNotSchedule"))
    assert plugin_for(cluster).pre_score(CycleState(), hard, cluster.nodes) == SKIP


# -- edges ----------------------------------------------------------------------------------------


def test_a_selector_that_does_not_parse_is_an_error() -> None:
    cluster = three_zones()
    faulty = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    incoming_pod = incoming(soft(labelSelector=faulty))
    assert plugin_for(cluster).pre_score(CycleState(), incoming_pod, cluster.nodes) == error(
        "calculating preScoreState: obtaining pod's soft topology spread constraints: "
        '"Near" is not a valid label selector operator'
    )


def test_scoring_without_pre_score_is_an_error() -> None:
    cluster = three_zones()
    plugin, incoming_pod = plugin_for(cluster), incoming(soft())
    text = 'error reading "PreScorePodTopologySpread" from cycleState: not found'
    with pytest.raises(StatusError) as raised:
        plugin.score_nodes(CycleState(), incoming_pod, cluster.nodes)
    assert raised.value.status == error(text)
    with pytest.raises(StatusError) as raised:
        plugin.normalize_scores(CycleState(), incoming_pod, np.zeros(3, dtype=np.int64))
    assert raised.value.status == error(text)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param(None, "want args to be of type PodTopologySpreadArgs, got <nil>", id="none"),
        pytest.param(
            PodTopologySpreadArgs(defaulting_type="Never"),
            'defaultingType: Unsupported value: "Never": supported values: "System", "List"',
            id="an unknown type of defaulting",
        ),
    ],
)
def test_arguments_are_validated(args: object, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        PodTopologySpread(args, GrowingCluster().handle)


# Printed by Go 1.26 on amd64: the bits of math.Log where they are not those of the C library,
# and two where they are.
@pytest.mark.parametrize(
    ("size", "bits"),
    [
        (2, "0x1.62e42fefa39efp-1"),
        (3, "0x1.193ea7aad030ap+0"),
        (14, "0x1.51cca16d7bba8p+1"),
        (48, "0x1.ef8383c50bb74p+1"),
        (74, "0x1.1375cd6fcab1cp+2"),
        (176, "0x1.4ae935b3cb89ep+2"),
        (5002, "0x1.10901f6dc84b9p+3"),
    ],
)
def test_the_logarithm_is_gos(size: int, bits: str) -> None:
    assert go_log(size).hex() == bits
