"""VolumeBinding keeps pools and masks: its results always equal fresh ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.storage import PersistentVolume
from kubesched.config.types import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins.volume_binding import volume_index as volume_index_module
from kubesched.plugins.volume_binding.delayed_search import PodVolumes
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from kubesched.plugins.volume_binding.volume_index import VolumeIndex
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable
from tests.unit.plugins.builders import a_node, a_pod, statuses_of
from tests.unit.plugins.growing_cluster import GrowingCluster
from tests.unit.plugins.volume_objects import (
    HOSTNAME,
    SnapshotHandle,
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    ephemeral,
    uses_claim,
)

ZONE = "topology.kubernetes.io/zone"
STORES = {"csi_nodes", "persistent_volume_claims", "persistent_volumes"}
Change = Callable[[GrowingCluster], None]


def in_zone(name: str, *zones: str, operator: str = "In", **fields: Any) -> PersistentVolume:
    requirement = {"key": ZONE, "operator": operator, "values": list(zones)}
    terms = [{"matchExpressions": [requirement]}]
    return a_volume(name, nodeAffinity={"required": {"nodeSelectorTerms": terms}}, **fields)


def a_labelled_node(number: int, zone: str) -> NodeInfo:
    return a_node(f"n{number}", labels={HOSTNAME: f"n{number}", ZONE: zone})


def a_busy_cluster(node_count: int = 9) -> GrowingCluster:
    cluster = GrowingCluster(*(a_labelled_node(i, f"z{i % 3}") for i in range(node_count)))
    cluster.add(a_class(), a_claim("c0", size="2Gi"), a_claim("c1", size="1Gi"), a_claim("c2"))
    cluster.add(a_volume("w0", size="5Gi", hosts=["n0"]), a_volume("w1", size="3Gi", hosts=["n0"]))
    cluster.add(a_volume("w2", size="4Gi", hosts=["n1", "n2"]), in_zone("w3", "z1", size="3Gi"))
    cluster.add(in_zone("w4", "z0", operator="NotIn", size="3072Mi"), in_zone("w5", "z2", "z9"))
    return cluster


def using(*claims: str) -> PodInfo:
    return a_pod("probe", volumes=[uses_claim(c, f"v{i}") for i, c in enumerate(claims)])


PROBES = [using("c0"), using("c0", "c1"), using("c1", "c2")]


def plugin_for(cluster: GrowingCluster) -> VolumeBinding:
    return VolumeBinding(VolumeBindingArgs(), SnapshotHandle(cluster.view))


def answers(
    plugin: VolumeBinding, pod: PodInfo, nodes: NodeTable
) -> tuple[dict[str, Status] | Status, dict[str, PodVolumes]]:
    """Return the status of each rejected node, and the found volumes of each other node."""
    state = CycleState()
    rejection = plugin.pre_filter(state, pod, nodes)
    if rejection is not None:
        return rejection, {}
    statuses = statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)
    found = state.read("VolumeBinding")
    rows = dict(zip(nodes.names, nodes.rows.tolist(), strict=True))
    return statuses, {n: found.volumes_at(r) for n, r in rows.items() if n not in statuses}


def node_by_node(plugin: VolumeBinding, pod: PodInfo, nodes: NodeTable) -> Any:
    """Return the same, with each node evaluated alone."""
    statuses: Any = {}
    volumes: dict[str, PodVolumes] = {}
    for position in range(len(nodes)):
        of_node, found = answers(plugin, pod, nodes.take(np.array([position])))
        if isinstance(of_node, Status):
            return of_node, {}
        statuses |= of_node
        volumes |= found
    return statuses, volumes


def put(obj: Any) -> Change:
    return lambda cluster: cluster.add(obj)


def drop(store: str, key: str) -> Change:
    return lambda cluster: getattr(cluster.view.objects, store).remove(key)


def relabelled(number: int, zone: str) -> Change:
    return lambda cluster: cluster.add(a_labelled_node(number, zone))


def changes() -> st.SearchStrategy[Change]:
    names, sizes = st.sampled_from([f"w{i}" for i in range(7)]), st.sampled_from(("1Gi", "2Gi"))
    phases = st.sampled_from(("Available", "Available", "Bound"))
    zones, numbers = st.sampled_from(("z0", "z1", "z2", "z8")), st.integers(0, 8)
    claims = st.sampled_from(("c0", "c1", "c2"))
    refs = st.one_of(
        st.none(), claims.map(lambda name: {"namespace": "default", "name": name, "uid": ""})
    )

    def local(name: str, size: str, number: int, phase: str, ref: Any) -> Change:
        return put(a_volume(name, size=size, hosts=[f"n{number}"], phase=phase, claimRef=ref))

    def zonal(name: str, size: str, zone: str, ref: Any) -> Change:
        return put(in_zone(name, zone, size=size, claimRef=ref))

    return st.one_of(
        st.builds(local, names, sizes, numbers, phases, refs),
        st.builds(zonal, names, sizes, zones, refs),
        st.builds(lambda name, mode: put(a_volume(name, volumeMode=mode)), names, st.just("Block")),
        st.builds(lambda name: drop("persistent_volumes", name), names),
        st.builds(lambda name, size: put(a_claim(name, size=size)), claims, sizes),
        st.builds(lambda name, mode: put(a_claim(name, volumeMode=mode)), claims, st.just("Block")),
        st.builds(relabelled, numbers, zones),
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(changes(), min_size=1, max_size=10), st.lists(st.integers(0, 8), max_size=2))
def test_after_any_changes_results_equal_those_of_a_new_plugin(
    steps: list[Change], chosen: list[int]
) -> None:
    cluster = a_busy_cluster()
    kept = plugin_for(cluster)
    for step in steps:
        for pod in PROBES:
            fresh = answers(plugin_for(cluster), pod, cluster.nodes)
            assert answers(kept, pod, cluster.nodes) == fresh
            assert node_by_node(kept, pod, cluster.nodes) == fresh
        step(cluster)
    for number in chosen:
        reserve_on(kept, PROBES[number % 3], cluster, f"n{number}")
        for pod in PROBES:
            together = answers(kept, pod, cluster.nodes)
            assert node_by_node(kept, pod, cluster.nodes) == together


def reserve_on(plugin: VolumeBinding, pod: PodInfo, cluster: GrowingCluster, name: str) -> None:
    state = CycleState()
    if plugin.pre_filter(state, pod, cluster.nodes) is None:
        plugin.filter_nodes(state, pod, cluster.nodes)
        assert plugin.reserve(state, pod, name) is None


def test_a_volume_that_was_assumed_is_no_longer_free() -> None:
    cluster = a_busy_cluster()
    plugin = plugin_for(cluster)
    _, before = answers(plugin, using("c1"), cluster.nodes)
    assert [v.metadata.name for _, v in before["n0"].static_bindings] == ["w1"]
    reserve_on(plugin, using("c1"), cluster, "n0")
    _, other = answers(plugin, using("c0"), cluster.nodes)
    assert [v.metadata.name for _, v in other["n0"].static_bindings] == ["w0"]
    _, own = answers(plugin, using("c1"), cluster.nodes)
    assert {n: v.static_bindings[0][1].metadata.name for n, v in own.items()} == {"n0": "w1"}


def test_many_equal_nodes_and_many_single_ones() -> None:
    # More nodes of a zone than are kept as positions, with local volumes beside the zonal ones.
    cluster = a_busy_cluster(240)
    for number in range(0, 240, 7):
        cluster.add(a_volume(f"x{number}", size=f"{1 + number % 4}Gi", hosts=[f"n{number}"]))
    plugin = plugin_for(cluster)
    for pod in PROBES:
        statuses, volumes = answers(plugin, pod, cluster.nodes)
        assert node_by_node(plugin, pod, cluster.nodes) == (statuses, volumes)
        some = cluster.nodes.take(np.arange(239, 0, -3))
        assert answers(plugin, pod, some)[1] == {n: volumes[n] for n in some.names if n in volumes}


def test_a_trial_finds_the_same_volumes() -> None:
    cluster = a_busy_cluster()
    plugin, state = plugin_for(cluster), CycleState()
    assert plugin.pre_filter(state, PROBES[1], cluster.nodes) is None
    statuses = statuses_of(
        plugin.filter_nodes(state, PROBES[1], cluster.nodes), cluster.nodes.names
    )
    trial = cluster.trial("n4", "n3", "n8")
    verdict = plugin.filter_nodes(state, PROBES[1], trial.nodes)
    assert statuses_of(verdict, trial.nodes.names) == {"n3": statuses["n3"]}
    assert {"n4", "n8"}.isdisjoint(statuses)


def test_unused_affinities_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_index_module, "_DEAD_MAX", 4)
    cluster = GrowingCluster(*(a_labelled_node(i, "z") for i in range(9)), a_class(), a_claim("c0"))
    plugin, index, sizes = plugin_for(cluster), VolumeIndex(), []
    for number in range(30):
        # Three hosts each time, so that the ids of their affinities recur in another order.
        hosts = [f"n{place * (number + 1) % 9}" for place in (1, 2, 3)]
        cluster.add(a_volume("w", hosts=hosts))
        _, found = answers(plugin, using("c0"), cluster.nodes)
        assert sorted(found) == sorted(set(hosts))
        index.pool(cluster.view.objects.store_of(PersistentVolume), "wait")
        sizes.append(len(index.affinities))
    assert max(sizes) <= 8


BOUND = [a_claim("b0", volume="w0"), a_claim("b1", volume="w1")]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod("p"), set(), id="without claims there is nothing to read"),
        pytest.param(using("b0", "b1"), STORES, id="bound claims: node, claims and volumes"),
        pytest.param(using("b0", "c0"), None, id="one claim waits for a node"),
        pytest.param(using("b0", "gone"), None, id="one claim is missing"),
        pytest.param(using("lost"), None, id="one claim has lost its volume"),
        pytest.param(a_pod("p", volumes=[ephemeral("s")]), None, id="a claim named after the pod"),
    ],
)
def test_declared_reads(pod: PodInfo, expected: set[str] | None) -> None:
    cluster = a_busy_cluster()
    cluster.add(*BOUND, a_claim("lost", volume="w3", phase="Lost"))
    reads = plugin_for(cluster).reads(pod)
    assert (None if reads is None else set(reads.objects)) == expected
    assert reads is None or (reads.nodes == bool(expected) and not reads.usage)


def test_pods_whose_volumes_are_reached_from_the_same_nodes_share_a_verdict() -> None:
    cluster = a_busy_cluster()
    cluster.add(*BOUND, a_claim("b2", volume="w2"), a_claim("b9", volume="nothing"))
    plugin = plugin_for(cluster)
    fragments = {name: plugin.fragment(using(name)) for name in ("b0", "b1", "b2", "b9")}
    assert fragments["b0"] == fragments["b1"]
    assert len(set(fragments.values())) == 3


def test_a_moved_volume_does_not_share_after_a_csi_node_changed() -> None:
    cluster = a_busy_cluster()
    disk = {"volumeID": "vol-1"}
    cluster.add(
        a_volume("d", awsElasticBlockStore=disk), a_claim("b", volume="d"), a_csi_node("n0")
    )
    plugin = plugin_for(cluster)
    before = plugin.fragment(using("b"))
    assert plugin.fragment(using("b")) == before
    cluster.add(a_csi_node("n0", migrated="kubernetes.io/aws-ebs"))
    assert plugin.fragment(using("b")) != before
