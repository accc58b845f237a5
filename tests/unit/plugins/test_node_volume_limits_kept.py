"""NodeVolumeLimits keeps incremental counts: they always equal fresh counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.meta import KubeResource
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads
from kubesched.framework.status import Status, unschedulable
from kubesched.plugins.node_volume_limits import attached
from kubesched.plugins.node_volume_limits.attached import AttachedVolumes, LiveCounts
from kubesched.plugins.node_volume_limits.plugin import (
    REASON_MAX_VOLUME_COUNT_EXCEEDED,
    NodeVolumeLimits,
)
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable
from tests.unit.plugins.builders import a_node, a_pod, made, statuses_of
from tests.unit.plugins.growing_cluster import GrowingCluster
from tests.unit.plugins.volume_objects import (
    a_claim,
    a_class,
    a_csi_node,
    a_csi_volume,
    an_attachment,
    ephemeral,
    uses_claim,
)

DRIVER, OTHER, EBS = "csi.example.com", "other.example.com", "ebs.csi.aws.com"
FULL = unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED)
NODES, CLAIMS, VOLUMES = "abc", ("c0", "c1", "c2", "c3"), ("v0", "v1", "v2")
HANDLES = [f"{driver}/h{i}" for driver in (DRIVER, OTHER) for i in range(2)] + [f"{EBS}/vol-1"]
DISK = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}
WRONG_DISK = {"name": "disk", "awsElasticBlockStore": {"volumeID": "aws://"}}

Change = Callable[[GrowingCluster], None]


def using(name: str, *claims: str, **fields: Any) -> PodInfo:
    return a_pod(name, volumes=[uses_claim(c, f"v{i}") for i, c in enumerate(claims)], **fields)


PROBES = [
    using("probe", "c0"),
    using("probe", "c1", "c2"),
    a_pod("probe", volumes=[DISK, uses_claim("c3")]),
    a_pod("probe", volumes=[ephemeral("s")]),
]


def put(obj: KubeResource) -> Change:
    return lambda cluster: cluster.add(obj)


def drop(store: str, key: str) -> Change:
    return lambda cluster: getattr(cluster.view.objects, store).remove(key)


def pod_comes(name: str, node: str, volumes: list[dict[str, Any]]) -> Change:
    def change(cluster: GrowingCluster) -> None:
        if f"uid-default-{name}" in cluster.view.pods.index_of:
            cluster.remove_pod(name)
        cluster.add(a_pod(name, volumes=volumes, nodeName=node))

    return change


def pod_goes(name: str) -> Change:
    def change(cluster: GrowingCluster) -> None:
        if f"uid-default-{name}" in cluster.view.pods.index_of:
            cluster.remove_pod(name)

    return change


def owned_claim(pod: str, volume: str) -> KubeResource:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "controller": True}
    return a_claim(
        f"{pod}-s",
        volume=volume,
        metadata={"ownerReferences": [{**owner, "uid": f"uid-default-{pod}"}]},
    )


def changes() -> st.SearchStrategy[Change]:
    claims, volumes = st.sampled_from(CLAIMS), st.sampled_from(VOLUMES)
    nodes, pods = st.sampled_from(NODES), st.sampled_from(("p0", "p1", "p2", "p3"))
    drivers = st.sampled_from((DRIVER, OTHER))
    of_pod = st.one_of(
        st.lists(claims, max_size=3, unique=True).map(
            lambda names: [uses_claim(name, f"v{i}") for i, name in enumerate(names)]
        ),
        st.sampled_from([[ephemeral("s")], [DISK], [WRONG_DISK], [ephemeral("s"), DISK]]),
    )
    limits = st.dictionaries(
        st.sampled_from((DRIVER, OTHER, EBS)), st.one_of(st.none(), st.integers(0, 3))
    )
    return st.one_of(
        st.builds(pod_comes, pods, nodes, of_pod),
        st.builds(pod_goes, pods),
        st.builds(lambda c, v: put(a_claim(c, volume=v)), claims, st.sampled_from(("", *VOLUMES))),
        st.builds(lambda p, v: put(owned_claim(p, v)), pods, volumes),
        st.builds(lambda p: put(a_claim(f"{p}-s")), pods),
        st.builds(lambda c: drop("persistent_volume_claims", f"default/{c}"), claims),
        st.builds(
            lambda v, h, d: put(a_csi_volume(v, h, d)),
            volumes,
            st.sampled_from(("h0", "h1")),
            drivers,
        ),
        st.builds(lambda v: drop("persistent_volumes", v), volumes),
        st.builds(lambda d: put(a_class(provisioner=d)), drivers),
        st.just(drop("storage_classes", "wait")),
        st.builds(lambda n, m: put(a_csi_node(n, m)), nodes, limits),
        st.builds(lambda n: drop("csi_nodes", n), nodes),
        st.builds(lambda n, v, d: put(an_attachment(f"{n}{v}", n, v, d)), nodes, volumes, drivers),
        st.builds(lambda n, v: drop("volume_attachments", f"{n}{v}"), nodes, volumes),
        st.builds(lambda n: lambda cluster: cluster.remove_node(n), nodes),
        st.builds(lambda n: lambda cluster: cluster.add(a_node(n)), nodes),
    )


def judged(plugin: NodeVolumeLimits, pod: PodInfo, nodes: NodeTable) -> dict[str, Status]:
    return statuses_of(plugin.filter_nodes(CycleState(), pod, nodes), nodes.names)


def row_by_row(plugin: NodeVolumeLimits, pod: PodInfo, nodes: NodeTable) -> dict[str, Status]:
    found: dict[str, Status] = {}
    for name, row in zip(nodes.names, nodes.rows.tolist(), strict=True):
        verdict = plugin.filter_nodes(CycleState(), pod, nodes.view.row(row))
        assert isinstance(verdict, list)
        assert all(type(rejected.mask) is bool for rejected in verdict)
        first = next((rejected.status for rejected in verdict if rejected.mask), None)
        if first is not None:
            found[name] = first
    return found


def in_a_trial(plugin: NodeVolumeLimits, pod: PodInfo, cluster: GrowingCluster) -> Any:
    """Return the verdict in a trial in which all pods are removed and added again."""
    names, view = cluster.nodes.names, cluster.view
    trial = cluster.trial(*names)
    pods = [view.pods_on(view.row_of(name)) for name in names]
    steps = [np.array(step, dtype=np.int32) for step in zip_longest(*pods, fillvalue=-1)]
    for step in steps:
        trial.remove(step)
    for step in steps:
        trial.add(step)
    return judged(plugin, pod, trial.nodes)


def counted(volumes: AttachedVolumes, cluster: GrowingCluster) -> Any:
    """Return all counts and problems of each node, by name."""
    nodes = cluster.nodes
    volumes.follow(nodes.view)
    counts = LiveCounts(volumes, nodes.rows)
    columns = [counts.of_driver(driver) for driver in (DRIVER, OTHER, EBS)]
    columns += [np.broadcast_to(counts.of_pods([name]), len(nodes)) for name in HANDLES]
    problems = counts.problems()
    return {
        name: (
            [int(column[position]) for column in columns],
            [text for text, mask in problems.items() if mask[position]],
        )
        for position, name in enumerate(nodes.names)
    }


def a_busy_cluster() -> GrowingCluster:
    """Return nodes with pods, claims, volumes, a class and attachments, to be changed."""
    cluster = GrowingCluster(*map(a_node, NODES), a_class(provisioner=DRIVER))
    cluster.add(*(a_csi_node(name, {DRIVER: 2, EBS: 1}) for name in NODES))
    cluster.add(*(a_csi_volume(name, f"h{i % 2}") for i, name in enumerate(VOLUMES)))
    cluster.add(*(a_claim(name, volume=f"v{i}") for i, name in enumerate(CLAIMS)))
    cluster.add(an_attachment("av0", "a", "v0", DRIVER), an_attachment("bv2", "b", "v2", DRIVER))
    cluster.add(using("p0", "c0", "c1", nodeName="a"), using("p1", "c3", nodeName="b"))
    cluster.add(a_pod("p2", volumes=[ephemeral("s")], nodeName="c"), owned_claim("p2", "v1"))
    return cluster


@settings(max_examples=300, deadline=None)
@given(st.lists(changes(), min_size=1, max_size=12), st.integers(0, 2))
def test_after_any_changes_counts_are_as_if_counted_anew(steps: list[Change], every: int) -> None:
    cluster, kept, kept_counts = a_busy_cluster(), made(NodeVolumeLimits), AttachedVolumes()
    counted(kept_counts, cluster)
    judged(kept, PROBES[0], cluster.nodes)
    for number, step in enumerate(steps):
        step(cluster)
        if number % (every + 1):
            continue
        assert counted(kept_counts, cluster) == counted(AttachedVolumes(), cluster)
        for pod in PROBES:
            anew = judged(made(NodeVolumeLimits), pod, cluster.nodes)
            assert judged(kept, pod, cluster.nodes) == anew
            assert row_by_row(kept, pod, cluster.nodes) == anew
            assert in_a_trial(kept, pod, cluster) == anew


def test_another_cluster_is_counted_separately() -> None:
    bound = [a_claim("c0", volume="v0"), a_csi_volume("v0", "x"), a_csi_volume("v1", "y")]
    objects = [*bound, a_claim("c1", volume="v1"), a_csi_node("a", {DRIVER: 1})]
    full = GrowingCluster(a_node("a"), *objects, using("p", "c1", nodeName="a"))
    free = GrowingCluster(a_node("a"), *objects)
    kept = made(NodeVolumeLimits)
    assert judged(kept, PROBES[0], full.nodes) == {"a": FULL}
    assert judged(kept, PROBES[0], free.nodes) == {}
    assert judged(kept, PROBES[0], full.nodes) == {"a": FULL}


def test_a_reused_row_has_the_limits_of_its_new_node() -> None:
    limits = [a_csi_node("a", {DRIVER: 0}), a_csi_node("z", {DRIVER: 1})]
    cluster = GrowingCluster(a_node("a"), *limits, a_claim("c0", volume="v0"))
    cluster.add(a_csi_volume("v0", "x"))
    kept, row = made(NodeVolumeLimits), cluster.view.row_of("a")
    assert judged(kept, PROBES[0], cluster.nodes) == {"a": FULL}
    cluster.remove_node("a")
    cluster.add(a_node("z"))
    assert cluster.view.row_of("z") == row
    assert judged(kept, PROBES[0], cluster.nodes) == {}


def test_volume_uses_of_deleted_pods_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "_DEAD_MAX", 8)
    cluster = GrowingCluster(a_node("a"), a_csi_node("a", {DRIVER: 1}))
    cluster.add(a_claim("c0", volume="v0"), a_csi_volume("v0", "x"))
    kept = made(NodeVolumeLimits)
    sizes = []
    for number in range(50):
        cluster.add(using("p", f"mine-{number}", nodeName="a"))
        assert judged(kept, PROBES[0], cluster.nodes) == {}
        sizes.append(len(kept._attached._uses))
        cluster.remove_pod("p")
    assert max(sizes) < 20


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod("p"), Reads(), id="without volumes there is nothing to read"),
        pytest.param(
            a_pod("p", volumes=[{"name": "n", "nfs": {"server": "s", "path": "/"}}]),
            Reads(),
            id="no driver attaches such a volume",
        ),
        pytest.param(
            a_pod("p", volumes=[ephemeral("s")]), None, id="an ephemeral claim is the pod's own"
        ),
    ],
)
def test_declared_reads(pod: PodInfo, expected: Reads | None) -> None:
    assert made(NodeVolumeLimits).reads(pod) == expected


def test_with_claims_usage_and_all_storage_objects_are_read() -> None:
    reads = made(NodeVolumeLimits).reads(using("p", "c0"))
    assert reads.usage
    assert set(reads.objects) == {
        "csi_nodes",
        "persistent_volume_claims",
        "persistent_volumes",
        "storage_classes",
        "volume_attachments",
    }


def test_a_batch_of_rows_is_evaluated_like_the_whole_table() -> None:
    names = [f"n{i}" for i in range(9)]
    cluster = GrowingCluster(*map(a_node, names), *(a_csi_node(n, {DRIVER: 1}) for n in names[2:]))
    cluster.add(a_claim("c0", volume="v0"), a_csi_volume("v0", "x"))
    cluster.add(a_claim("c1", volume="v1"), a_csi_volume("v1", "y"))
    for number, name in enumerate(names):
        cluster.add(using(f"p{number}", f"c{number % 2}", nodeName=name))
    kept = made(NodeVolumeLimits)
    # The volume is there already on even nodes, another one on odd nodes; two have no limit.
    assert judged(kept, PROBES[0], cluster.nodes) == {f"n{i}": FULL for i in (3, 5, 7)}
    some = cluster.nodes.take(np.array([7, 3, 2]))
    assert judged(kept, PROBES[0], some) == {"n7": FULL, "n3": FULL}
