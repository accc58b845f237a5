"""VolumeZone: a pod stays in the zones and regions of its bound volumes."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.cluster_event import EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.status import SKIP, unresolvable
from kubesched.plugins.volume_zone import REASON_CONFLICT, VolumeZone
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, statuses_of
from tests.unit.plugins.volume_objects import a_claim, a_class, a_volume, hint_for, uses_claim

HANDLE = Handle("default-scheduler")

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


def a_plugin() -> VolumeZone:
    return VolumeZone(HANDLE)


def verdict(volume_labels: dict[str, str], node_labels: dict[str, str], *, ran: bool) -> bool:
    """Return whether the node is rejected, with or without the plugin's PreFilter."""
    objects = [a_claim(volume="pv"), a_volume(labels=volume_labels)]
    view = a_cluster([a_node("n", labels=node_labels)], objects=objects)
    pod, state, nodes = a_pod(volumes=[uses_claim("claim")]), CycleState(), view.all_nodes()
    plugin = a_plugin()
    if ran:
        assert plugin.pre_filter(state, pod, nodes) is None
    found = statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)
    assert set(found.values()) <= {unresolvable(REASON_CONFLICT)}
    return bool(found)


@pytest.mark.parametrize("ran", [True, False], ids=["after PreFilter", "PreFilter disabled"])
@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "rejected"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, False, id="the same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, True, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, False, id="one of two zones"),
        pytest.param({ZONE: "a"}, {}, False, id="a node without any zone or region"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, True, id="a node with a region but no zone"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, False, id="the older label meets today's"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, True, id="today's label not the older one"),
        pytest.param(
            {BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, True, id="the node's older label first"
        ),
        pytest.param({BETA_REGION: "r"}, {REGION: "r"}, False, id="the older region label"),
        pytest.param(
            {ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, True, id="zone and region must fit"
        ),
    ],
)
def test_labels_of_the_volume_are_met_by_the_nodes(
    volume_labels: dict[str, str], node_labels: dict[str, str], rejected: bool, ran: bool
) -> None:
    assert verdict(volume_labels, node_labels, ran=ran) is rejected


WAIT, NOW = a_class("wait"), a_class("now", mode="Immediate")


@pytest.mark.parametrize(
    ("claim", "objects", "expected"),
    [
        pytest.param("", [], unresolvable("PersistentVolumeClaim had no name"), id="no name"),
        pytest.param(
            "claim",
            [],
            unresolvable('persistentvolumeclaim "claim" not found'),
            id="a missing claim",
        ),
        pytest.param(
            "claim",
            [a_claim(storage_class=None)],
            unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
            id="neither volume nor class",
        ),
        pytest.param(
            "claim",
            [a_claim()],
            unresolvable('storageclass.storage.k8s.io "wait" not found'),
            id="a missing class",
        ),
        pytest.param(
            "claim",
            [a_claim(), a_class(mode=None)],
            unresolvable('VolumeBindingMode not set for StorageClass "wait"'),
            id="a class without a mode",
        ),
        pytest.param(
            "claim",
            [a_claim(storage_class="now"), NOW],
            unresolvable("PersistentVolume had no name"),
            id="unbound, of a class that binds at once",
        ),
        pytest.param("claim", [a_claim(), WAIT], SKIP, id="unbound, of a class that waits"),
        pytest.param(
            "claim",
            [a_claim(volume="pv")],
            unresolvable('persistentvolume "pv" not found'),
            id="a missing volume",
        ),
        pytest.param(
            "claim", [a_claim(volume="pv"), a_volume()], SKIP, id="a volume without labels"
        ),
        pytest.param(
            "claim",
            [a_claim(volume="pv"), a_volume(labels={ZONE: "a____b"})],
            SKIP,
            id="a label with an empty zone",
        ),
        pytest.param(
            "claim",
            [
                a_claim(
                    storage_class=None,
                    metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "wait"}},
                ),
                WAIT,
            ],
            SKIP,
            id="the class of the older annotation",
        ),
    ],
)
def test_claims_without_a_zone(claim: str, objects: list[Any], expected: object) -> None:
    view = a_cluster([a_node()], objects=objects)
    pod = a_pod(volumes=[uses_claim(claim)])
    assert a_plugin().pre_filter(CycleState(), pod, view.all_nodes()) == expected


def test_an_error_of_the_claims_shows_on_every_node_without_pre_filter() -> None:
    view = a_cluster([a_node("a"), a_node("b")])
    nodes = view.all_nodes()
    verdicts = a_plugin().filter_nodes(CycleState(), a_pod(volumes=[uses_claim("x")]), nodes)
    text = 'persistentvolumeclaim "x" not found'
    assert statuses_of(verdicts, nodes.names) == {n: unresolvable(text) for n in ("a", "b")}


QUEUE, SKIPS = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        pytest.param(EventResource.STORAGE_CLASS, None, WAIT, QUEUE, id="a class that waits"),
        pytest.param(EventResource.STORAGE_CLASS, None, NOW, SKIPS, id="a class that does not"),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM, None, a_claim(), QUEUE, id="the pod's claim"
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM, None, a_claim("x"), SKIPS, id="another claim"
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM,
            None,
            a_claim(namespace="other"),
            SKIPS,
            id="a claim of that name elsewhere",
        ),
        pytest.param(EventResource.PERSISTENT_VOLUME, None, a_volume(), QUEUE, id="a new volume"),
        pytest.param(
            EventResource.PERSISTENT_VOLUME,
            a_volume(labels={ZONE: "a"}),
            a_volume(labels={ZONE: "b"}),
            QUEUE,
            id="a volume whose zone changed",
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME,
            a_volume(labels={ZONE: "a__b"}),
            a_volume(labels={ZONE: "b__a"}, size="20Gi"),
            SKIPS,
            id="a volume whose zones are the same",
        ),
    ],
)
def test_hints(resource: str, old: object, new: object, expected: QueueingHint) -> None:
    hint = hint_for(a_plugin().events_to_register(), resource)
    assert hint(a_pod(volumes=[uses_claim("claim")]), old, new) is expected
