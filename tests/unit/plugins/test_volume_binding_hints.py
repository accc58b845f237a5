"""VolumeBinding: events that wake a pod that it rejected."""

from __future__ import annotations

import pytest

from kubesched.framework.cluster_event import EventResource, QueueingHint
from kubesched.plugins.volume_binding.hints import registrations
from tests.unit.plugins.builders import a_pod
from tests.unit.plugins.volume_objects import (
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    ephemeral,
    hint_for,
    uses_claim,
)

QUEUE, SKIPS = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP
POD = a_pod(
    "pod",
    volumes=[
        uses_claim("claim"),
        ephemeral("v"),
        {"name": "inline", "csi": {"driver": "csi.example.com"}},
    ],
)
ZONES = [{"matchLabelExpressions": [{"key": "zone", "values": ["1"]}]}]


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        pytest.param(EventResource.STORAGE_CLASS, None, a_class(), QUEUE, id="a new class"),
        pytest.param(
            EventResource.STORAGE_CLASS,
            a_class(),
            a_class(allowedTopologies=ZONES),
            QUEUE,
            id="a class whose allowed topologies changed",
        ),
        pytest.param(
            EventResource.STORAGE_CLASS,
            a_class(allowedTopologies=ZONES),
            a_class(allowedTopologies=ZONES, allowVolumeExpansion=True),
            SKIPS,
            id="a class that changed otherwise",
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM, None, a_claim(), QUEUE, id="the pod's claim"
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM,
            a_claim("pod-v"),
            a_claim("pod-v", volume="pv"),
            QUEUE,
            id="the claim of its ephemeral volume",
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM, None, a_claim("x"), SKIPS, id="another claim"
        ),
        pytest.param(
            EventResource.PERSISTENT_VOLUME_CLAIM,
            None,
            a_claim(namespace="other"),
            SKIPS,
            id="a claim of another namespace",
        ),
        pytest.param(EventResource.CSI_NODE, None, a_csi_node("n"), QUEUE, id="a new CSINode"),
        pytest.param(
            EventResource.CSI_NODE,
            a_csi_node("n", migrated="a"),
            a_csi_node("n", migrated="a,b"),
            QUEUE,
            id="a CSINode on which more has migrated",
        ),
        pytest.param(
            EventResource.CSI_NODE,
            a_csi_node("n"),
            a_csi_node("n", {"d": 3}, migrated=""),
            SKIPS,
            id="a CSINode that changed otherwise",
        ),
        pytest.param(
            EventResource.CSI_DRIVER,
            a_driver(),
            a_driver(storage_capacity=None),
            QUEUE,
            id="the in-line volume's driver stops reporting capacities",
        ),
        pytest.param(
            EventResource.CSI_DRIVER,
            a_driver(storage_capacity=False),
            a_driver(storage_capacity=None),
            SKIPS,
            id="a driver that never reported them",
        ),
        pytest.param(
            EventResource.CSI_DRIVER,
            a_driver("other"),
            a_driver("other", storage_capacity=False),
            SKIPS,
            id="another driver stops reporting capacities",
        ),
        pytest.param(
            EventResource.CSI_STORAGE_CAPACITY, None, a_capacity(), QUEUE, id="a new capacity"
        ),
        pytest.param(
            EventResource.CSI_STORAGE_CAPACITY,
            a_capacity(capacity="1Gi"),
            a_capacity(capacity="2Gi"),
            QUEUE,
            id="a capacity that grew",
        ),
        pytest.param(
            EventResource.CSI_STORAGE_CAPACITY,
            a_capacity(),
            a_capacity(capacity="1Gi"),
            QUEUE,
            id="a capacity that was unknown",
        ),
        pytest.param(
            EventResource.CSI_STORAGE_CAPACITY,
            a_capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
            a_capacity(capacity="2Gi", maximumVolumeSize="1Gi"),
            SKIPS,
            id="a capacity whose largest volume stays",
        ),
        pytest.param(
            EventResource.CSI_STORAGE_CAPACITY,
            a_capacity(capacity="1Gi"),
            a_capacity(),
            SKIPS,
            id="a capacity that is unknown now",
        ),
    ],
)
def test_hints(resource: str, old: object, new: object, expected: QueueingHint) -> None:
    assert hint_for(registrations(), resource)(POD, old, new) is expected


def test_events_are_registered_in_upstreams_order() -> None:
    assert [r.event.resource for r in registrations()] == [
        "storage.k8s.io/StorageClass",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "Node",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/CSIStorageCapacity",
    ]
