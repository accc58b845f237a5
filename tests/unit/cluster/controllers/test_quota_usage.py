"""Usage of objects under a quota."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.client.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    SERVICES,
    Resource,
)
from kubesched.cluster.controllers.resource_quota.usage import (
    matches_scope,
    resource_of_name,
    total_usage,
    usage_of,
)

Document = dict[str, Any]
NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def a_pod(
    requests: Document | None = None, limits: Document | None = None, **spec: Any
) -> Document:
    container = {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [container], **spec},
        "status": {"qosClass": "Burstable" if requests else "BestEffort"},
    }


def texts(resource: Resource, document: Document) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage_of(resource, document, NOW_S).items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pods", PODS),
        ("cpu", PODS),
        ("requests.ephemeral-storage", PODS),
        ("limits.memory", PODS),
        ("hugepages-2Mi", PODS),
        ("requests.hugepages-1Gi", PODS),
        ("requests.example.com/gpu", PODS),
        ("requests.deviceclass.resource.kubernetes.io/gpu", PODS),
        ("requests.storage", PERSISTENT_VOLUME_CLAIMS),
        ("gold.storageclass.storage.k8s.io/requests.storage", PERSISTENT_VOLUME_CLAIMS),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", PERSISTENT_VOLUME_CLAIMS),
        ("gpu.deviceclass.resource.k8s.io/devices", RESOURCE_CLAIMS),
        ("services.loadbalancers", SERVICES),
        ("configmaps", CONFIG_MAPS),
        ("count/pods", "pods"),
        ("count/deployments.apps", "deployments.apps"),
        ("gold.storageclass.storage.k8s.io/other", None),
        ("limits.example.com/gpu", None),
        ("requests.kubernetes.io/thing", None),
        ("bananas", None),
    ],
)
def test_names_map_to_resources(name: str, kind: Resource | str | None) -> None:
    assert resource_of_name(name) == kind


def test_a_pod_counts_with_its_requests_and_limits() -> None:
    pod = a_pod(
        {"cpu": "250m", "memory": "64Mi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        {"cpu": "1", "ephemeral-storage": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
    )
    assert texts(PODS, pod) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "250m",
        "requests.cpu": "250m",
        "memory": "64Mi",
        "requests.memory": "64Mi",
        "requests.example.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "limits.cpu": "1",
        "limits.ephemeral-storage": "1Gi",
    }


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_still_counts_as_an_object(phase: str) -> None:
    pod = a_pod({"cpu": "1"})
    pod["status"]["phase"] = phase
    assert texts(PODS, pod) == {"count/pods": "1"}


@pytest.mark.parametrize(
    ("deleted", "is_charged"),
    [
        pytest.param("2025-12-31T23:59:40Z", True, id="its grace is not over"),
        pytest.param("2025-12-31T23:59:20Z", False, id="it should be gone by now"),
    ],
)
def test_a_pod_past_its_grace_period_uses_nothing(deleted: str, is_charged: bool) -> None:
    pod = a_pod({"cpu": "1"})
    pod["metadata"] |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    assert ("cpu" in texts(PODS, pod)) is is_charged


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({"type": "ClusterIP"}, "0", "0"),
        ({"type": "NodePort"}, "2", "0"),
        ({"type": "LoadBalancer"}, "2", "1"),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, "1", "1"),
    ],
)
def test_a_service_uses_ports_by_its_type(
    spec: Document, node_ports: str, load_balancers: str
) -> None:
    ports = [{"port": 80, "nodePort": 30080}, {"port": 81}]
    service = {"metadata": {"name": "s"}, "spec": {**spec, "ports": ports}}
    assert texts(SERVICES, service) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": node_ports,
        "services.loadbalancers": load_balancers,
    }


def test_a_claim_uses_storage_of_its_class() -> None:
    claim = {
        "metadata": {"name": "c"},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "3Gi"}},
    }
    assert texts(PERSISTENT_VOLUME_CLAIMS, claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "3Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "3Gi",
    }


def test_fractional_bytes_are_rounded_up() -> None:
    claim = {
        "metadata": {"name": "c"},
        "spec": {"resources": {"requests": {"storage": "1500m"}}},
    }
    assert texts(PERSISTENT_VOLUME_CLAIMS, claim)["requests.storage"] == "2"


def test_a_resource_claim_uses_its_maximum_of_devices() -> None:
    exact = {"allocationMode": "ExactCount", "deviceClassName": "gpu", "count": 2}
    either = [
        {"allocationMode": "ExactCount", "deviceClassName": "gpu", "count": 1},
        {"allocationMode": "ExactCount", "deviceClassName": "gpu", "count": 3},
        {"allocationMode": "All", "deviceClassName": "fpga"},
    ]
    requests = [
        {"name": "a", "exactly": exact},
        {"name": "b", "firstAvailable": either},
    ]
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    assert texts(RESOURCE_CLAIMS, claim) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "5",
        "fpga.deviceclass.resource.k8s.io/devices": "32",
    }


def test_other_kinds_are_counted() -> None:
    document = {"metadata": {"name": "x"}}
    assert texts(DEPLOYMENTS, document) == {"count/deployments.apps": "1"}
    assert texts(CONFIG_MAPS, document) == {"count/configmaps": "1", "configmaps": "1"}


AFFINITY = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["other"]}}
        ]
    }
}


@pytest.mark.parametrize(
    ("spec", "term", "is_in"),
    [
        ({"activeDeadlineSeconds": 5}, {"scopeName": "Terminating"}, True),
        ({}, {"scopeName": "Terminating"}, False),
        ({}, {"scopeName": "NotTerminating"}, True),
        ({}, {"scopeName": "BestEffort"}, True),
        ({}, {"scopeName": "NotBestEffort"}, False),
        ({"affinity": AFFINITY}, {"scopeName": "CrossNamespacePodAffinity"}, True),
        ({}, {"scopeName": "CrossNamespacePodAffinity"}, False),
        ({"priorityClassName": "high"}, {"scopeName": "PriorityClass", "operator": "Exists"}, True),
        ({}, {"scopeName": "PriorityClass", "operator": "Exists"}, False),
        ({}, {"scopeName": "PriorityClass", "operator": "DoesNotExist"}, True),
        (
            {"priorityClassName": "high"},
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]},
            True,
        ),
        (
            {"priorityClassName": "other"},
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
            False,
        ),
        ({}, {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}, True),
        ({}, {"scopeName": "Unheard"}, False),
    ],
)
def test_scopes_match_pods(spec: Document, term: Document, is_in: bool) -> None:
    assert matches_scope(PODS, a_pod(**spec), term) is is_in


def test_scopes_match_no_other_resources() -> None:
    assert not matches_scope(SERVICES, {"spec": {}}, {"scopeName": "NotTerminating"})


def test_claims_have_their_own_scope() -> None:
    claim = {"spec": {"volumeAttributesClassName": "fast"}}
    term = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    assert matches_scope(PERSISTENT_VOLUME_CLAIMS, claim, term)
    assert not matches_scope(PERSISTENT_VOLUME_CLAIMS, {"spec": {}}, term)


def test_usage_is_summed_per_quota_name() -> None:
    pods = [a_pod({"cpu": "500m", "memory": "1Gi"}), a_pod({"cpu": "700m"}), a_pod()]
    quota = {"spec": {"scopes": ["NotBestEffort"]}}
    total = total_usage(PODS, pods, ["pods", "cpu", "memory", "limits.cpu"], quota, NOW_S)
    assert {name: str(amount) for name, amount in total.items()} == {
        "pods": "2",
        "cpu": "1200m",
        "memory": "1Gi",
        "limits.cpu": "0",
    }
