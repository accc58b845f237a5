"""Defaulting and admission; expectations are from upstream's defaults and admission plugins."""

from typing import Any

import pytest

from kubesched.api.decode import KubeObject, decode_object
from kubesched.api.errors import MalformedObject
from kubesched.api.namespace import Namespace
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.api.workloads import ReplicationController
from kubesched.manifests.defaulting import Admission, with_namespaces


def made(
    version: str, kind: str, metadata: dict[str, Any] | None = None, **rest: Any
) -> KubeObject:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **(metadata or {})}}
    return decode_object(document | rest)


def a_pod(metadata: dict[str, Any] | None = None, **spec: Any) -> KubeObject:
    return made("v1", "Pod", {"namespace": "default", **(metadata or {})}, spec=spec)


def admitted(pod: KubeObject, *others: KubeObject) -> Pod:
    result = Admission([pod, *others]).admit(pod)
    assert isinstance(result, Pod)
    return result


def a_class(name: str, value: int, **rest: Any) -> KubeObject:
    return made("scheduling.k8s.io/v1", "PriorityClass", {"name": name}, value=value, **rest)


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, [], (0, "", "PreemptLowerPriority"), id="no class at all"),
        pytest.param(
            {"priorityClassName": "gold"},
            [a_class("gold", 7)],
            (7, "gold", "PreemptLowerPriority"),
            id="the class it names",
        ),
        pytest.param(
            {"priorityClassName": "shy"},
            [a_class("shy", 7, preemptionPolicy="Never")],
            (7, "shy", "Never"),
            id="the policy of its class",
        ),
        pytest.param(
            {},
            [a_class("high", 9, globalDefault=True), a_class("low", 3, globalDefault=True)],
            (3, "low", "PreemptLowerPriority"),
            id="the lowest of the default classes",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            [],
            (2_000_001_000, "system-node-critical", "PreemptLowerPriority"),
            id="a class every cluster has",
        ),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"},
            [],
            (2_000_000_000, "system-cluster-critical", "PreemptLowerPriority"),
            id="the other class every cluster has",
        ),
        pytest.param(
            {"priority": 5, "priorityClassName": "left-out"},
            [],
            (5, "left-out", None),
            id="stored already, its class left out of the files",
        ),
        pytest.param(
            {"priority": 5},
            [a_class("low", 3, globalDefault=True, preemptionPolicy="Never")],
            (5, "", "PreemptLowerPriority"),
            id="stored before there was a default class",
        ),
        pytest.param({"preemptionPolicy": "Never"}, [], (0, "", "Never"), id="a policy of its own"),
    ],
)
def test_priority(
    spec: dict[str, Any], classes: list[KubeObject], expected: tuple[Any, ...]
) -> None:
    found = admitted(a_pod(**spec), *classes).spec
    assert (found.priority, found.priority_class_name, found.preemption_policy) == expected


def test_a_missing_priority_class_is_rejected() -> None:
    with pytest.raises(MalformedObject, match="no PriorityClass with name gold was found"):
        admitted(a_pod(priorityClassName="gold"))


def test_the_default_scheduler_is_set_unless_named() -> None:
    assert admitted(a_pod()).spec.scheduler_name == "default-scheduler"
    assert admitted(a_pod(schedulerName="batch")).spec.scheduler_name == "batch"


def test_requests_default_to_limits_per_resource() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    containers = [{"name": "a", "resources": resources}]
    spec = admitted(a_pod(containers=containers, initContainers=containers)).spec
    for container in (*spec.containers, *spec.init_containers):
        assert container.resources.requests == {"cpu": "1", "memory": "1Gi"}
        assert container.resources.limits == {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "container", "requests"),
    [
        pytest.param(
            {"limits": {"cpu": "4", "memory": "8Gi"}},
            {},
            {"cpu": "4", "memory": "8Gi"},
            id="no container requests: the pod's limits",
        ),
        pytest.param(
            {"limits": {"cpu": "4", "memory": "8Gi"}},
            {"requests": {"cpu": "1500m"}},
            {"cpu": "3", "memory": "8Gi"},
            id="containers request cpu: their sum",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            {"requests": {"memory": "1Gi"}},
            {"cpu": "1"},
            id="no limits: nothing is filled in",
        ),
        pytest.param(
            {"limits": {"cpu": "4"}},
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"cpu": "4", "hugepages-2Mi": "8Mi"},
            id="huge pages follow the containers' limits",
        ),
    ],
)
def test_pod_level_requests(
    resources: dict[str, Any], container: dict[str, Any], requests: dict[str, str]
) -> None:
    containers = [{"name": name, "resources": container} for name in ("a", "b")]
    found = admitted(a_pod(resources=resources, containers=containers)).spec.resources
    assert found is not None
    assert found.requests == requests


def test_ports_default_to_tcp_and_to_host_ports_on_the_host_network() -> None:
    containers = [
        {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}
    ]
    ports = admitted(a_pod(containers=containers)).spec.containers[0].ports
    assert [(port.protocol, port.host_port) for port in ports] == [("TCP", 0), ("UDP", 0)]
    ports = admitted(a_pod(containers=containers, hostNetwork=True)).spec.containers[0].ports
    assert [port.host_port for port in ports] == [80, 53]


def test_failing_nodes_are_tolerated_for_five_minutes() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 5}
    found = admitted(a_pod(tolerations=[own])).spec.tolerations
    assert [(t.key, t.effect, t.toleration_seconds) for t in found] == [
        ("node.kubernetes.io/not-ready", "", 5),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]
    assert len(admitted(a_pod(tolerations=[{"operator": "Exists"}])).spec.tolerations) == 1


def test_label_keys_are_merged_into_selectors_once() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    pod = a_pod(
        {"labels": {"app": "a", "rev": "1", "tenant": "t"}},
        affinity={
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": term}
                ]
            },
        },
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "labelSelector": {},
                "matchLabelKeys": ["rev"],
            },
            {"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": ["rev"]},
        ],
    )
    once = admitted(pod)
    assert admitted(once) == once
    affinity = once.spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    assert affinity.pod_anti_affinity is not None
    required = affinity.pod_affinity.required_during_scheduling_ignored_during_execution[0]
    preferred = affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution[0]
    for merged in (required, preferred.pod_affinity_term):
        assert merged.label_selector is not None
        assert [
            (e.key, e.operator, tuple(e.values)) for e in merged.label_selector.match_expressions
        ] == [
            ("rev", "In", ("1",)),
            ("tenant", "NotIn", ("t",)),
        ]
    spread, nil = once.spec.topology_spread_constraints
    assert spread.label_selector is not None
    assert [e.key for e in spread.label_selector.match_expressions] == ["rev"]
    assert nil.label_selector is None


def storage_class(name: str, created: str = "", *, default: bool = True, **rest: Any) -> KubeObject:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true" if default else "false"}
    metadata = {"name": name, "annotations": annotations}
    if created:
        metadata["creationTimestamp"] = created
    return made("storage.k8s.io/v1", "StorageClass", metadata, **rest)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param({}, "new-a", id="the newest default class, the first by name"),
        pytest.param({"storageClassName": ""}, "", id="no class on request"),
        pytest.param({"storageClassName": "other"}, "other", id="a class of its own"),
        pytest.param({"volumeName": "pv"}, None, id="it has its volume already"),
    ],
)
def test_a_claim_gets_the_default_class(claim: dict[str, Any], expected: str | None) -> None:
    classes = [
        storage_class("a", "2025-01-01T00:00:00Z"),
        storage_class("new-b", "2026-01-01T00:00:00Z"),
        storage_class("new-a", "2026-01-01T00:00:00Z"),
        storage_class("newest", "2027-01-01T00:00:00Z", default=False),
    ]
    new_claim = made("v1", "PersistentVolumeClaim", spec=claim)
    found = Admission([*classes, new_claim]).admit(new_claim)
    assert isinstance(found, PersistentVolumeClaim)
    assert found.spec.storage_class_name == expected
    assert found.spec.volume_mode == "Filesystem"


def test_storage_objects_get_their_modes() -> None:
    volume = Admission([]).admit(made("v1", "PersistentVolume"))
    assert isinstance(volume, PersistentVolume)
    assert volume.spec.volume_mode == "Filesystem"
    immediate = Admission([]).admit(storage_class("a"))
    assert isinstance(immediate, StorageClass)
    assert immediate.volume_binding_mode == "Immediate"
    waiting = Admission([]).admit(storage_class("a", volumeBindingMode="WaitForFirstConsumer"))
    assert isinstance(waiting, StorageClass)
    assert waiting.volume_binding_mode == "WaitForFirstConsumer"


def test_allocatable_defaults_to_capacity() -> None:
    node = Admission([]).admit(made("v1", "Node", status={"capacity": {"cpu": "4"}}))
    assert isinstance(node, Node)
    assert node.status.allocatable == {"cpu": "4"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}
    node = Admission([]).admit(made("v1", "Node", status=status))
    assert isinstance(node, Node)
    assert node.status.allocatable == {"cpu": "3"}


def test_a_replication_controller_selects_by_its_template() -> None:
    template = {"metadata": {"labels": {"app": "a"}}}
    found = Admission([]).admit(made("v1", "ReplicationController", spec={"template": template}))
    assert isinstance(found, ReplicationController)
    assert found.spec.selector == {"app": "a"}


def test_used_namespaces_exist_with_their_name_label() -> None:
    shop = made("v1", "Namespace", {"name": "shop", "labels": {"team": "a"}})
    objects = [Admission([]).admit(shop), a_pod({"namespace": "lab"}), a_pod({"namespace": "shop"})]
    found = {o.key: o.metadata.labels for o in with_namespaces(objects) if isinstance(o, Namespace)}
    assert found == {
        "shop": {"team": "a", "kubernetes.io/metadata.name": "shop"},
        "default": {"kubernetes.io/metadata.name": "default"},
        "lab": {"kubernetes.io/metadata.name": "lab"},
    }


def test_rbd_volumes_are_in_the_default_pool() -> None:
    volumes = [
        {"name": "a", "rbd": {"image": "i"}},
        {"name": "b", "rbd": {"image": "i", "pool": "p"}},
    ]
    found = admitted(a_pod(volumes=volumes)).spec.volumes
    assert [volume.rbd.pool for volume in found if volume.rbd is not None] == ["rbd", "p"]
