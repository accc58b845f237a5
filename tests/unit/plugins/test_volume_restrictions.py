"""VolumeRestrictions: disks that pods cannot share, and claims for a single pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.framework.cluster_event import EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import Reads
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.volume_restrictions import (
    REASON_DISK_CONFLICT,
    REASON_READ_WRITE_ONCE_POD_CONFLICT,
    VolumeRestrictions,
)
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, a_trial, statuses_of
from tests.unit.plugins.growing_cluster import GrowingCluster
from tests.unit.plugins.volume_objects import a_claim, ephemeral, hint_for, uses_claim

HANDLE = Handle("default-scheduler")

DISK = unschedulable(REASON_DISK_CONFLICT)
IN_USE = unschedulable(REASON_READ_WRITE_ONCE_POD_CONFLICT)
ONE_POD: dict[str, Any] = {"accessModes": ["ReadWriteOncePod"]}


def holding(name: str, *volumes: dict[str, Any], **fields: Any) -> PodInfo:
    return a_pod(name, volumes=list(volumes), **fields)


def gce(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str) -> dict[str, Any]:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": name, "readOnly": True}}


def iscsi(iqn: str, read_only: bool = False, lun: int = 0) -> dict[str, Any]:
    source = {"targetPortal": "t", "iqn": iqn, "lun": lun, "readOnly": read_only}
    return {"name": "v", "iscsi": source}


def rbd(
    monitors: str, image: str = "i", pool: str = "p", read_only: bool = False
) -> dict[str, Any]:
    source = {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}
    return {"name": "v", "rbd": source}


def judged(
    view: ClusterView, pod: PodInfo, plugin: VolumeRestrictions | None = None
) -> dict[str, Status]:
    plugin = plugin or VolumeRestrictions(HANDLE)
    state, nodes = CycleState(), view.all_nodes()
    assert plugin.pre_filter(state, pod, nodes) is None
    return statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)


@pytest.mark.parametrize(
    ("ours", "theirs", "rejected"),
    [
        pytest.param(gce("a"), gce("a"), True, id="one GCE disk written by both"),
        pytest.param(gce("a", True), gce("a"), True, id="one GCE disk written by one"),
        pytest.param(gce("a", True), gce("a", True), False, id="one GCE disk read by both"),
        pytest.param(gce("a"), gce("b"), False, id="two GCE disks"),
        pytest.param(ebs("a"), ebs("a"), True, id="one EBS volume, though read only"),
        pytest.param(ebs("a"), ebs("b"), False, id="two EBS volumes"),
        pytest.param(iscsi("a"), iscsi("a", lun=1), True, id="one iSCSI name of two units"),
        pytest.param(iscsi("a", True), iscsi("a", True), False, id="one iSCSI disk read by both"),
        pytest.param(rbd("ab"), rbd("bc"), True, id="one RBD image by a shared monitor"),
        pytest.param(rbd("ab"), rbd("cd"), False, id="RBD images of other monitors"),
        pytest.param(rbd("a"), rbd("a", pool="q"), False, id="RBD images of two pools"),
        pytest.param(rbd("a"), rbd("a", image="j"), False, id="two RBD images"),
        pytest.param(
            rbd("a", read_only=True), rbd("a", read_only=True), False, id="an image read by both"
        ),
        pytest.param(gce("a"), ebs("a"), False, id="disks of two kinds"),
    ],
)
def test_a_disk_of_a_pod_on_the_node(
    ours: dict[str, Any], theirs: dict[str, Any], rejected: bool
) -> None:
    view = a_cluster([a_node("a"), a_node("b")], {"a": [holding("theirs", theirs)]})
    assert judged(view, holding("ours", ours)) == ({"a": DISK} if rejected else {})


def test_a_pod_that_is_added_later_counts() -> None:
    plugin = VolumeRestrictions(HANDLE)
    empty = a_cluster([a_node("a")])
    assert judged(empty, holding("ours", ebs("x")), plugin) == {}
    cluster = a_cluster([a_node("a")], {"a": [holding("theirs", ebs("x"))]})
    assert judged(cluster, holding("ours", ebs("x")), plugin) == {"a": DISK}


def test_in_a_trial_the_pods_of_the_trial_count() -> None:
    view = a_cluster([a_node("a"), a_node("b")], {"a": [holding("theirs", ebs("x"))]})
    trial = a_trial(view, "a", "b")
    index = view.pods.index_of["uid-default-theirs"]
    trial.remove(np.array([index, -1], dtype=np.int32))
    trial.add(np.array([-1, index], dtype=np.int32))
    plugin, state, pod = (
        VolumeRestrictions(HANDLE),
        CycleState(),
        holding("ours", ebs("x")),
    )
    plugin.pre_filter(state, pod, view.all_nodes())
    verdict = plugin.filter_nodes(state, pod, trial.nodes)
    assert statuses_of(verdict, trial.nodes.names) == {"b": DISK}


def test_a_missing_claim_rejects_the_pod() -> None:
    nodes = a_cluster([a_node()]).all_nodes()
    status = VolumeRestrictions(HANDLE).pre_filter(
        CycleState(), holding("ours", uses_claim("x")), nodes
    )
    assert status == unresolvable('persistentvolumeclaim "x" not found')


@pytest.mark.parametrize(
    ("pods", "claim", "skipped"),
    [
        pytest.param({}, a_claim(**ONE_POD), True, id="no pod uses the claim"),
        pytest.param(
            {"a": [holding("p", uses_claim("claim"))]},
            a_claim(),
            True,
            id="several pods may use it",
        ),
        pytest.param(
            {"a": [holding("p", uses_claim("claim"), namespace="other")]},
            a_claim(**ONE_POD),
            True,
            id="a pod of another namespace uses another claim",
        ),
        pytest.param(
            {"gone": [holding("p", uses_claim("claim"))]},
            a_claim(**ONE_POD),
            True,
            id="the pod that uses it is on a node that is not there",
        ),
        pytest.param(
            {"a": [holding("p", uses_claim("claim"))]},
            a_claim(**ONE_POD),
            False,
            id="a pod uses it",
        ),
    ],
)
def test_the_plugin_skips_if_no_claim_is_in_use(
    pods: dict[str, list[PodInfo]], claim: Any, skipped: bool
) -> None:
    nodes = a_cluster([a_node("a")], pods, [claim]).all_nodes()
    status = VolumeRestrictions(HANDLE).pre_filter(
        CycleState(), holding("ours", uses_claim("claim")), nodes
    )
    assert status == (SKIP if skipped else None)


def test_a_claim_in_use_rejects_every_node() -> None:
    pods = {"a": [holding("p", uses_claim("claim"))]}
    view = a_cluster([a_node("a"), a_node("b")], pods, [a_claim(**ONE_POD)])
    assert judged(view, holding("ours", uses_claim("claim"))) == {"a": IN_USE, "b": IN_USE}


def test_users_of_a_claim_follow_added_and_removed_pods_and_nodes() -> None:
    cluster = GrowingCluster(a_node("n1"), a_node("n2"), a_claim("c", **ONE_POD))
    plugin, incoming_pod = (
        VolumeRestrictions(HANDLE),
        holding("new", uses_claim("c")),
    )

    def verdict() -> Status | None:
        return plugin.pre_filter(CycleState(), incoming_pod, cluster.nodes)

    assert verdict() == SKIP
    cluster.add(holding("user", uses_claim("c"), nodeName="n1"))
    assert verdict() is None
    cluster.add(*(holding(f"other{i}", nodeName="n1") for i in range(3)))
    assert verdict() is None
    cluster.remove_node("n1")
    assert verdict() == SKIP
    cluster.add(a_node("n1"))
    assert verdict() is None
    cluster.remove_pod("user")
    assert verdict() == SKIP
    cluster.add(*(holding(f"many{i}", nodeName="n2") for i in range(100)))
    cluster.add(holding("late", uses_claim("c", volume="v2"), nodeName="n2"))
    assert verdict() is None


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param([], Reads(), id="without volumes nothing is read"),
        pytest.param(
            [uses_claim("shared")],
            Reads(objects=("persistent_volume_claims",)),
            id="a shared claim can only become a claim for a single pod",
        ),
        pytest.param([uses_claim("c")], None, id="a claim for one pod depends on all pods"),
        pytest.param([uses_claim("missing")], None, id="a missing claim rejects the pod"),
        pytest.param([gce("d")], None, id="a disk depends on the pods of the node"),
    ],
)
def test_declared_reads(volumes: list[dict[str, Any]], expected: Reads | None) -> None:
    cluster = GrowingCluster(a_claim("c", **ONE_POD), a_claim("shared"))
    plugin = VolumeRestrictions(cluster.handle)
    assert plugin.reads(holding("new", *volumes)) == expected


def test_a_node_fits_in_a_trial_without_the_only_user() -> None:
    user = holding("user", uses_claim("claim"))
    stranger = holding("stranger", uses_claim("claim"), namespace="other")
    view = a_cluster(
        [a_node("a"), a_node("b")], {"a": [user], "b": [stranger]}, [a_claim(**ONE_POD)]
    )
    plugin, state, pod = (
        VolumeRestrictions(HANDLE),
        CycleState(),
        holding("o", uses_claim("claim")),
    )
    plugin.pre_filter(state, pod, view.all_nodes())
    trial, tried = a_trial(view, "a", "b"), state.clone()
    indices = [view.pods.index_of[p.uid] for p in (user, stranger)]
    removed = trial.remove(np.array(indices, dtype=np.int32))
    assert plugin.remove_pods(tried, pod, removed, trial.nodes) is None
    # Upstream compares only the names of claims, so that the pod of another namespace counts too.
    assert statuses_of(plugin.filter_nodes(tried, pod, trial.nodes), ["a", "b"]) == {}
    added = trial.add(np.array([indices[0], -1], dtype=np.int32))
    plugin.add_pods(tried, pod, added, trial.nodes)
    assert statuses_of(plugin.filter_nodes(tried, pod, trial.nodes), ["a", "b"]) == {"a": IN_USE}
    nodes = view.all_nodes()
    untouched = statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)
    assert untouched == {"a": IN_USE, "b": IN_USE}


def test_without_pre_filter_only_disk_conflicts_come_before_the_error() -> None:
    view = a_cluster([a_node("a"), a_node("b")], {"a": [holding("p", ebs("x"))]})
    plugin, pod, nodes = (
        VolumeRestrictions(HANDLE),
        holding("ours", ebs("x")),
        view.all_nodes(),
    )
    missing = error('cannot read "PreFilterVolumeRestrictions" from cycleState')
    verdict = plugin.filter_nodes(CycleState(), pod, nodes)
    assert statuses_of(verdict, nodes.names) == {"a": DISK, "b": missing}


QUEUE, SKIPS = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP


@pytest.mark.parametrize(
    ("ours", "deleted", "expected"),
    [
        pytest.param(ebs("a"), holding("d", ebs("a")), QUEUE, id="a pod that held our disk"),
        pytest.param(ebs("a"), holding("d", ebs("b")), SKIPS, id="a pod that held another disk"),
        pytest.param(
            ebs("a"),
            holding("d", ebs("a"), namespace="other"),
            SKIPS,
            id="a pod of another namespace, though it held our disk",
        ),
        pytest.param(
            uses_claim("c"), holding("d", uses_claim("c")), QUEUE, id="a pod that used our claim"
        ),
        pytest.param(
            uses_claim("c"), holding("d", uses_claim("x")), SKIPS, id="a pod that used another"
        ),
    ],
)
def test_a_deleted_pod_wakes(ours: dict[str, Any], deleted: PodInfo, expected: object) -> None:
    hint = hint_for(
        VolumeRestrictions(HANDLE).events_to_register(),
        EventResource.POD,
    )
    assert hint(holding("ours", ours), deleted, None) is expected


@pytest.mark.parametrize(
    ("volume", "claim", "expected"),
    [
        pytest.param(uses_claim("claim"), a_claim(), QUEUE, id="the pod's claim"),
        pytest.param(uses_claim("x"), a_claim(), SKIPS, id="another claim"),
        pytest.param(
            uses_claim("claim"), a_claim(namespace="other"), SKIPS, id="another namespace's claim"
        ),
        pytest.param(ephemeral("v"), a_claim("ours-v"), SKIPS, id="an ephemeral volume's claim"),
    ],
)
def test_a_new_claim_wakes(volume: dict[str, Any], claim: object, expected: object) -> None:
    registered = VolumeRestrictions(HANDLE).events_to_register()
    hint = hint_for(registered, EventResource.PERSISTENT_VOLUME_CLAIM)
    assert hint(holding("ours", volume), None, claim) is expected
