"""NodeVolumeLimits: distinct volumes of a driver against the attach limit of the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.framework.cluster_event import EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.node_volume_limits.plugin import (
    REASON_MAX_VOLUME_COUNT_EXCEEDED,
    NodeVolumeLimits,
)
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, a_trial, statuses_of
from tests.unit.plugins.volume_objects import (
    a_claim,
    a_class,
    a_csi_node,
    a_csi_volume,
    a_volume,
    an_attachment,
    ephemeral,
    hint_for,
    uses_claim,
)

HANDLE = Handle("default-scheduler")

DRIVER, EBS = "csi.example.com", "ebs.csi.aws.com"
FULL = unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED)
THREE_BOUND = [
    part for n in "123" for part in (a_claim(f"c{n}", volume=f"pv{n}"), a_csi_volume(f"pv{n}", n))
]


def holding(name: str, *volumes: dict[str, Any], **fields: Any) -> PodInfo:
    return a_pod(name, volumes=list(volumes), **fields)


def using(name: str, *claims: str) -> PodInfo:
    return holding(name, *(uses_claim(claim, f"v{i}") for i, claim in enumerate(claims)))


def disk(volume_id: str) -> dict[str, Any]:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": volume_id}}


def judged(view: ClusterView, pod: PodInfo) -> dict[str, Status]:
    plugin, nodes = NodeVolumeLimits(), view.all_nodes()
    assert plugin.pre_filter(CycleState(), pod, nodes) is None
    return statuses_of(plugin.filter_nodes(CycleState(), pod, nodes), nodes.names)


def on_one_node(
    limit: int | None, pods: list[PodInfo], pod: PodInfo, *objects: Any
) -> Status | None:
    csi_node = a_csi_node("n", {DRIVER: limit, EBS: limit})
    view = a_cluster([a_node("n")], {"n": pods}, [csi_node, *objects])
    return judged(view, pod).get("n")


@pytest.mark.parametrize(
    ("limit", "pods", "pod", "rejected"),
    [
        pytest.param(1, [], using("p", "c1"), False, id="one volume of one"),
        pytest.param(1, [], using("p", "c1", "c2"), True, id="two volumes of one"),
        pytest.param(0, [], using("p", "c1"), True, id="one volume of none"),
        pytest.param(None, [], using("p", "c1", "c2"), False, id="a driver without a limit"),
        pytest.param(2, [using("a", "c1"), using("b", "c2")], using("p", "c3"), True, id="full"),
        pytest.param(
            2, [using("a", "c1"), using("b", "c1")], using("p", "c3"), False, id="shared, once"
        ),
        pytest.param(
            2,
            [using("a", "c1", "c2")],
            using("p", "c2"),
            False,
            id="a volume that is there is free",
        ),
        pytest.param(
            1, [using("a", "gone")], using("p", "c1"), False, id="a pod whose claim is missing"
        ),
    ],
)
def test_volumes_of_pods(
    limit: int | None, pods: list[PodInfo], pod: PodInfo, rejected: bool
) -> None:
    assert on_one_node(limit, pods, pod, *THREE_BOUND) == (FULL if rejected else None)


def test_a_node_without_csi_node_takes_any_number() -> None:
    view = a_cluster([a_node("n")], objects=THREE_BOUND)
    assert judged(view, using("p", "c1", "c2", "c3")) == {}


def test_each_node_is_counted_separately() -> None:
    limits = [a_csi_node(name, {DRIVER: 1}) for name in "ab"]
    nodes = [a_node("a"), a_node("b"), a_node("c")]
    view = a_cluster(nodes, {"a": [using("x", "c1")]}, [*THREE_BOUND, *limits])
    assert judged(view, using("p", "c2")) == {"a": FULL}


def test_in_a_trial_the_pods_of_the_trial_count() -> None:
    other_pod = using("x", "c1")
    objects = [*THREE_BOUND, *(a_csi_node(name, {DRIVER: 1}) for name in "ab")]
    view = a_cluster([a_node("a"), a_node("b")], {"a": [other_pod]}, objects)
    trial, index = a_trial(view, "a", "b"), view.pods.index_of[other_pod.uid]
    trial.remove(np.array([index, -1], dtype=np.int32))
    trial.add(np.array([-1, index], dtype=np.int32))
    verdict = NodeVolumeLimits().filter_nodes(CycleState(), using("p", "c2"), trial.nodes)
    assert statuses_of(verdict, trial.nodes.names) == {"b": FULL}


def test_nodes_without_a_change_in_a_trial_keep_their_volumes() -> None:
    full, plain = using("x", "c1"), a_pod("plain")
    objects = [*THREE_BOUND, *(a_csi_node(name, {DRIVER: 1}) for name in "abc")]
    view = a_cluster([a_node(name) for name in "abc"], {"a": [full], "c": [plain]}, objects)
    trial, index = a_trial(view, "a", "b", "c"), view.pods.index_of
    trial.remove(np.array([-1, -1, index[plain.uid]], dtype=np.int32))
    plugin = NodeVolumeLimits()
    verdict = plugin.filter_nodes(CycleState(), using("p", "c2"), trial.nodes)
    assert statuses_of(verdict, trial.nodes.names) == {"a": FULL}
    trial.add(np.array([-1, index[full.uid], -1], dtype=np.int32))
    verdict = plugin.filter_nodes(CycleState(), using("p", "c2"), trial.nodes)
    assert statuses_of(verdict, trial.nodes.names) == {"a": FULL, "b": FULL}


@pytest.mark.parametrize(
    ("attachments", "pods", "pod", "rejected"),
    [
        pytest.param(
            [an_attachment("a", "n", "pv1", DRIVER)], [], using("p", "c2"), True, id="counts"
        ),
        pytest.param(
            [an_attachment("a", "n", "pv1", DRIVER)],
            [using("x", "c1")],
            using("p", "c1"),
            False,
            id="of a volume that a pod holds counts once",
        ),
        pytest.param(
            [an_attachment("a", "n", "pv1", DRIVER)],
            [],
            using("p", "c1"),
            True,
            id="of the pod's own volume counts beside it",
        ),
        pytest.param(
            [an_attachment("a", "other", "pv1", DRIVER)],
            [],
            using("p", "c2"),
            False,
            id="elsewhere",
        ),
        pytest.param(
            [an_attachment("a", "n", "pv1", EBS)], [], using("p", "c2"), False, id="of others"
        ),
        pytest.param(
            [an_attachment("a", "n", "gone", DRIVER), an_attachment("b", "n", None, DRIVER)],
            [],
            using("p", "c2"),
            False,
            id="of no known volume",
        ),
    ],
)
def test_an_attachment(
    attachments: list[Any], pods: list[PodInfo], pod: PodInfo, rejected: bool
) -> None:
    status = on_one_node(1, pods, pod, *THREE_BOUND, *attachments)
    assert status == (FULL if rejected else None)


@pytest.mark.parametrize(
    ("objects", "rejected"),
    [
        pytest.param(
            [a_claim("u"), a_class(provisioner=DRIVER)], True, id="counts by its class's driver"
        ),
        pytest.param([a_claim("u")], False, id="of a missing class is not counted"),
        pytest.param([a_claim("u", storage_class=None)], False, id="without class is not counted"),
        pytest.param(
            [a_claim("u", volume="gone"), a_class(provisioner=DRIVER)],
            True,
            id="whose volume is missing counts by class",
        ),
        pytest.param(
            [a_claim("u"), a_class(provisioner="kubernetes.io/aws-ebs")],
            True,
            id="of a migrated provisioner counts for its driver",
        ),
        pytest.param(
            [a_claim("u"), a_class(provisioner="kubernetes.io/vsphere-volume")],
            False,
            id="of an in-tree provisioner that has not migrated is not counted",
        ),
    ],
)
def test_a_claim_without_a_volume(objects: list[Any], rejected: bool) -> None:
    assert on_one_node(0, [], using("p", "u"), *objects) == (FULL if rejected else None)


def test_one_unbound_claim_of_two_pods_counts_once() -> None:
    objects = [a_claim("u"), a_claim("w"), a_class(provisioner=DRIVER)]
    assert on_one_node(1, [using("x", "u")], using("p", "u"), *objects) is None
    assert on_one_node(1, [using("x", "u")], using("p", "w"), *objects) == FULL


def test_in_tree_volumes_count_for_the_driver_that_replaces_them() -> None:
    volume = a_volume("ebs", awsElasticBlockStore={"volumeID": "aws:///vol-1"})
    objects = [a_claim("c", volume="ebs"), volume]
    assert on_one_node(0, [], using("p", "c"), *objects) == FULL
    assert on_one_node(0, [], holding("p", disk("vol-1"))) == FULL
    assert on_one_node(1, [holding("x", disk("vol-1"))], using("p", "c"), *objects) is None


def test_in_tree_volumes_do_not_count_without_a_csi_node() -> None:
    view = a_cluster([a_node("n")])
    assert judged(view, holding("p", disk("aws:///none"))) == {}


@pytest.mark.parametrize(
    ("pods", "pod", "expected"),
    [
        pytest.param(
            [],
            using("p", "x"),
            unresolvable('looking up PVC default/x: persistentvolumeclaim "x" not found'),
            id="a missing claim of the pod",
        ),
        pytest.param(
            [], using("p", ""), error("PersistentVolumeClaim had no name"), id="a nameless claim"
        ),
        pytest.param(
            [using("x", "")],
            using("p", "c1"),
            error("PersistentVolumeClaim had no name"),
            id="a nameless claim of a pod on the node",
        ),
        pytest.param(
            [],
            holding("c", ephemeral("1")),
            error("PVC default/c-1 was not created for pod default/c (pod is not owner)"),
            id="an ephemeral volume's claim of another owner",
        ),
        pytest.param(
            [],
            holding("p", disk("aws:///none")),
            error(
                "converting volume(v) from inline to csi: failed to translate Kubernetes ID to "
                "EBS Volume ID Invalid format for AWS volume (aws:///none)"
            ),
            id="an in-line disk that cannot be translated",
        ),
    ],
)
def test_unresolvable_volumes(pods: list[PodInfo], pod: PodInfo, expected: Status) -> None:
    objects = [*THREE_BOUND, a_claim("c-1")]
    assert on_one_node(3, pods, pod, *objects) == expected


def test_ephemeral_claims_of_two_pods_of_one_template_count_apart() -> None:
    def owned(name: str) -> Any:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-default-{name}"}
        metadata = {"ownerReferences": [owner | {"controller": True}]}
        return a_claim(f"{name}-scratch", metadata=metadata)

    pods = [holding(name, ephemeral()) for name in ("a", "b")]
    objects = [owned("a"), owned("b"), owned("p"), a_class(provisioner=DRIVER)]
    assert on_one_node(2, pods, holding("p", ephemeral()), *objects) == FULL
    assert on_one_node(3, pods, holding("p", ephemeral()), *objects) is None


def test_pods_without_such_volumes_are_skipped() -> None:
    nodes = a_cluster([a_node()]).all_nodes()
    pod = holding("p", {"name": "v", "iscsi": {"targetPortal": "t", "iqn": "q", "lun": 0}})
    assert NodeVolumeLimits().pre_filter(CycleState(), pod, nodes) == SKIP


QUEUE, SKIPS = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP


@pytest.mark.parametrize(
    ("resource", "pod", "old", "new", "expected"),
    [
        pytest.param(
            EventResource.CSI_NODE,
            using("p", "c"),
            a_csi_node("n", {DRIVER: 1, EBS: 2}),
            a_csi_node("n", {DRIVER: 1, EBS: 3}),
            QUEUE,
            id="a limit was raised",
        ),
        pytest.param(
            EventResource.CSI_NODE,
            using("p", "c"),
            a_csi_node("n", {DRIVER: 2}),
            a_csi_node("n", {DRIVER: 1}),
            SKIPS,
            id="a limit was lowered",
        ),
        pytest.param(
            EventResource.CSI_NODE,
            using("p", "c"),
            a_csi_node("n", {DRIVER: 2}),
            a_csi_node("n", {DRIVER: None}),
            SKIPS,
            id="a limit went, which upstream takes for zero",
        ),
        pytest.param(
            EventResource.POD,
            using("p", "c"),
            a_pod("d", volumes=[uses_claim("x")], nodeName="n"),
            None,
            QUEUE,
            id="a bound pod with a claim was deleted",
        ),
        pytest.param(
            EventResource.POD,
            using("p", "c"),
            a_pod("d", volumes=[ephemeral()], status={"nominatedNodeName": "n"}),
            None,
            QUEUE,
            id="a nominated pod with an ephemeral volume was deleted",
        ),
        pytest.param(
            EventResource.POD, using("p", "c"), using("d", "x"), None, SKIPS, id="it had no node"
        ),
        pytest.param(
            EventResource.POD,
            using("p", "c"),
            a_pod("d", nodeName="n"),
            None,
            SKIPS,
            id="a pod without volumes was deleted",
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM,
            holding("p", ephemeral("v")),
            None,
            a_claim("p-v"),
            QUEUE,
            id="the claim of an ephemeral volume came",
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM,
            using("p", "c"),
            None,
            a_claim("c", namespace="other"),
            SKIPS,
            id="a claim of another namespace came",
        ),
        pytest.param(
            EventResource.VOLUME_ATTACHMENT,
            using("p", "c"),
            an_attachment("a", "n", "pv", EBS),
            None,
            QUEUE,
            id="an attachment went, and the pod has a claim",
        ),
        pytest.param(
            EventResource.VOLUME_ATTACHMENT,
            holding("p", disk("vol-1")),
            an_attachment("a", "n", "pv", EBS),
            None,
            QUEUE,
            id="an attachment of the in-line disk's driver went",
        ),
        pytest.param(
            EventResource.VOLUME_ATTACHMENT,
            holding("p", disk("vol-1")),
            an_attachment("a", "n", "pv", DRIVER),
            None,
            SKIPS,
            id="an attachment of another driver went",
        ),
    ],
)
def test_hints(resource: str, pod: PodInfo, old: object, new: object, expected: object) -> None:
    hint = hint_for(NodeVolumeLimits().events_to_register(), resource)
    assert hint(pod, old, new) is expected
