"""Queueing hints of in-tree plugins read only the fields of a pod that they declare.

Pods with equal fields get the same hint for every event, unless the event is about one of them;
that allows the queue to call the hint once for all of them.
"""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.decode import decode_object
from kubesched.config.load import load_config_object
from kubesched.framework.cluster_event import EventResource as R
from kubesched.framework.interface import EventRegistration
from kubesched.framework.runtime.enqueue import enqueue_registrations
from kubesched.profile.build import Built, build
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo, PodShapes
from tests.unit.builders import a_cluster, a_config, a_node, pod_wire
from tests.unit.plugins.volume_objects import ephemeral, uses_claim

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def term(app: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}, **more}


def spread(**more: Any) -> dict[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, **term("a"), **more}]}


SPECS: list[dict[str, Any]] = [
    {},
    {"affinity": {"podAffinity": {REQUIRED: [term("a")]}}},
    {"affinity": {"podAntiAffinity": {REQUIRED: [term("b", topologyKey=HOST)]}}},
    {"affinity": {"podAntiAffinity": {REQUIRED: [term("a", namespaceSelector={})]}}},
    spread(),
    spread(matchLabelKeys=["rank"]),
    spread(nodeTaintsPolicy="Honor"),
    {"tolerations": [{"key": "t", "operator": "Exists"}]},
    {"nodeSelector": {"pool": "x"}},
    {"volumes": [uses_claim("one"), ephemeral("two")]},
    {"volumes": [uses_claim("p0-two")]},
    {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk"}}]},
    {"volumes": [{"name": "d", "csi": {"driver": "csi.example.com"}}]},
    {"hostNetwork": True, "containers": [{"name": "m", "ports": [{"hostPort": 80}]}]},
]
REQUESTS: list[dict[str, str]] = [{"cpu": "1"}, {"cpu": "2", "example.com/gpu": "1"}]
LABELS = [{}, {"app": "a", "rank": "1"}, {"app": "a", "rank": "2"}, {"app": "b"}]
NAMESPACES = ("default", "other")


def made_pods() -> list[PodInfo]:
    """Return pods of all kinds, each with several labels, names and priorities."""
    shapes, pods = PodShapes(), []
    for i, (spec, requests, namespace, labels) in enumerate(
        product(SPECS, REQUESTS, NAMESPACES, LABELS)
    ):
        for copy in range(2):
            wire = pod_wire(
                f"p{copy}",
                namespace=namespace,
                uid=f"uid-{i}-{copy}",
                labels=labels,
                requests=requests,
                metadata={"annotations": {"copy": str(copy)}},
                priority=copy,
                **spec,
            )
            pods.append(shapes.pod_info(decoded(wire, "v1", "Pod")))
    return pods


def decoded(wire: dict[str, Any], api_version: str, kind: str) -> Any:
    return decode_object({"apiVersion": api_version, "kind": kind, **wire})


PODS = made_pods()
CHANGED_PODS = [
    shapes.pod_info(
        decoded(
            pod_wire(
                "gone", namespace=ns, uid="gone", labels=labels, requests=requests, **spec | on
            ),
            "v1",
            "Pod",
        )
    )
    for shapes in [PodShapes()]
    for spec, requests, ns, labels in product(SPECS, REQUESTS, NAMESPACES, LABELS)
    for on in ({}, {"nodeName": "n"})
]
NODES: list[NodeInfo] = [
    a_node(labels=labels, allocatable=room, **spec)
    for labels in ({}, {ZONE: "z1", HOST: "n", "pool": "x"}, {ZONE: "z2", "pool": "y"})
    for room in ({"cpu": "1", "pods": "9"}, {"cpu": "4", "example.com/gpu": "2", "pods": "9"})
    for spec in ({}, {"taints": [{"key": "t", "effect": "NoSchedule"}]}, {"unschedulable": True})
]


def storage(kind: str, version: str = "storage.k8s.io/v1", **parts: Any) -> Any:
    return decoded({"metadata": {"name": parts.pop("name", "x")}, **parts}, version, kind)


def claim(name: str, namespace: str) -> Any:
    metadata = {"name": name, "namespace": namespace}
    return decoded({"metadata": metadata}, "v1", "PersistentVolumeClaim")


OBJECTS: dict[str, list[Any]] = {
    R.NODE: NODES,
    R.PERSISTENT_VOLUME_CLAIM: [
        claim(name, ns) for name in ("one", "p0-two", "p1-two", "none") for ns in NAMESPACES
    ],
    R.PERSISTENT_VOLUME: [
        decoded({"metadata": {"name": "v", "labels": labels}}, "v1", "PersistentVolume")
        for labels in ({}, {ZONE: "z1"}, {ZONE: "z2"})
    ],
    R.STORAGE_CLASS: [
        storage("StorageClass", provisioner="p", volumeBindingMode=mode)
        for mode in ("Immediate", "WaitForFirstConsumer")
    ],
    R.CSI_NODE: [
        storage(
            "CSINode",
            spec={"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": count}}]},
        )
        for count in (1, 2)
    ],
    R.CSI_DRIVER: [
        storage("CSIDriver", name="csi.example.com", spec={"storageCapacity": has_capacity})
        for has_capacity in (True, False)
    ],
    R.CSI_STORAGE_CAPACITY: [
        storage("CSIStorageCapacity", storageClassName="c", capacity=size)
        for size in ("1Gi", "2Gi")
    ],
    R.VOLUME_ATTACHMENT: [
        storage(
            "VolumeAttachment",
            spec={"attacher": attacher, "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        )
        for attacher in ("pd.csi.storage.gke.io", "other")
    ],
    R.DEVICE_CLASS: [
        {"metadata": {"name": name}, "spec": {"extendedResourceName": "example.com/gpu"} | {}}
        for name in ("a", "b")
    ],
    R.RESOURCE_CLAIM: [{"metadata": {"name": "c"}}],
    R.RESOURCE_SLICE: [{"metadata": {"name": "s"}}],
}


def built() -> Built:
    defaults = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [defaults]}
    config = a_config(pluginConfig=[{"name": "PodTopologySpread", "args": args}])
    result = build(load_config_object(config))
    service = {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "a"}},
    }
    view = a_cluster(NODES[:1], objects=[decoded(service, "v1", "Service")])
    for handle in result.handles.values():
        handle.view = view
    return result


BUILT = built()
REGISTERED = [
    pytest.param(registration, id=f"{plugin} {registration.event.resource} {place}")
    for plugin, registered in enqueue_registrations(BUILT.profiles["default-scheduler"]).items()
    for place, registration in enumerate(registered)
    if registration.hint is not None
]


def alike(pod: PodInfo, reads: str) -> list[PodInfo]:
    """Return the other pods with equal values of the fields that a hint declares."""
    if reads == "nothing":
        return PODS
    if reads == "shape":
        return [other for other in PODS if other.shape is pod.shape]
    return [other for other in PODS if other.template == pod.template]


def objects_of(registration: EventRegistration, data: st.DataObject) -> tuple[Any, Any]:
    resource, action = registration.event.resource, registration.event.action
    if resource == R.POD:
        known: list[Any] = CHANGED_PODS
        old, new = (data.draw(st.sampled_from(known)) for _ in range(2))
        if old.node_name and data.draw(st.booleans()):
            old = BoundPod(old, old.node_name, None)
    else:
        old, new = (data.draw(st.sampled_from(OBJECTS[resource])) for _ in range(2))
    names = [name for name in ("ADD", "DELETE") if action & type(action)[name]]
    if int(action) > 3:
        names.append("UPDATE")
    verb = data.draw(st.sampled_from(names))
    return (None if verb == "ADD" else old), (None if verb == "DELETE" else new)


@pytest.mark.parametrize("registration", REGISTERED)
@settings(max_examples=60)
@given(data=st.data())
def test_pods_with_equal_read_fields_get_the_same_hint(
    registration: EventRegistration, data: st.DataObject
) -> None:
    assert registration.hint is not None
    pod = data.draw(st.sampled_from(PODS))
    old, new = objects_of(registration, data)
    reads = registration.reads
    if callable(reads):
        reads = reads(pod.shape, old, new)
    if reads == "pod":
        return
    other = data.draw(st.sampled_from(alike(pod, reads)))
    assert registration.hint(pod, old, new) is registration.hint(other, old, new)


def test_every_hint_declares_less_than_the_whole_pod() -> None:
    for parameter in REGISTERED:
        (registration,) = parameter.values
        assert isinstance(registration, EventRegistration)
        assert registration.reads != "pod", parameter.id
