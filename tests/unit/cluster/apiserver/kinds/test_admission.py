"""Admission plugins; the rejections are those of a v1.36.4 server."""

from typing import Any

import pytest

from kubesched.cluster.apiserver.admission.chain import WHOLE, admission_chain
from kubesched.kit.rng import RandomStream
from tests.unit.cluster.apiserver.kinds.cluster import Cluster, a_pod

PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def a_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    kind = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1"}
    return {**kind, "metadata": {"name": name}, "value": value, **more}


def test_pod_gets_default_tolerations_and_priority(cluster: Cluster) -> None:
    spec = cluster.make(PODS, a_pod())["spec"]

    assert spec["tolerations"] == [
        NOT_READY,
        {**NOT_READY, "key": "node.kubernetes.io/unreachable"},
    ]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


def test_own_toleration_replaces_the_default_one(cluster: Cluster) -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}

    spec = cluster.make(PODS, a_pod(tolerations=[own]))["spec"]

    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["tolerations"][0] == own


def test_priority_comes_from_the_class(cluster: Cluster) -> None:
    cluster.make(CLASSES, a_class("high", 77, preemptionPolicy="Never"))

    spec = cluster.make(PODS, a_pod(priorityClassName="high"))["spec"]

    assert (spec["priority"], spec["preemptionPolicy"]) == (77, "Never")


def test_global_default_class_is_used(cluster: Cluster) -> None:
    cluster.make(CLASSES, a_class("usual", 5, globalDefault=True))

    spec = cluster.make(PODS, a_pod())["spec"]
    second = cluster.request("POST", CLASSES, a_class("other", 6, globalDefault=True))

    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 5)
    assert second.body["message"] == (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already '
        "marked as default. Only one default can exist"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; priority "
                "admission controller computed 0 from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
                "priority admission controller computed PreemptLowerPriority from the given "
                "PriorityClass name"
            ),
        ),
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
)
def test_pod_is_forbidden(cluster: Cluster, spec: dict[str, Any], message: str) -> None:
    reply = cluster.request("POST", PODS, a_pod(**spec))

    assert reply.code == 403
    assert reply.body["message"] == f'pods "p" is forbidden: {message}'


def test_runtime_class_fills_in(cluster: Cluster) -> None:
    toleration = {"key": "k", "operator": "Exists"}
    runtime_class = {
        "kind": "RuntimeClass",
        "apiVersion": "node.k8s.io/v1",
        "metadata": {"name": "sandbox"},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [toleration]},
    }
    cluster.make("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)

    spec = cluster.make(PODS, a_pod(runtimeClassName="sandbox"))["spec"]
    other = cluster.request(
        "POST", PODS, a_pod(runtimeClassName="sandbox", nodeSelector={"a": "c"})
    )

    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"a": "b"}
    assert toleration in spec["tolerations"]
    assert other.body["message"] == (
        'pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = b; '
        "pod.spec.nodeSelector[a] = c"
    )


def test_absent_namespace_is_not_found(cluster: Cluster) -> None:
    reply = cluster.request("POST", "/api/v1/namespaces/absent/pods", a_pod())

    assert (reply.code, reply.body["message"]) == (404, 'namespaces "absent" not found')


def test_terminating_namespace_rejects_new_objects(cluster: Cluster) -> None:
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n"}}
    cluster.make("/api/v1/namespaces", namespace)
    cluster.request("DELETE", "/api/v1/namespaces/n")

    reply = cluster.request("POST", "/api/v1/namespaces/n/pods", a_pod())

    assert reply.body["message"] == (
        'pods "p" is forbidden: unable to create new content in namespace n because it is being '
        "terminated"
    )
    assert reply.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_default_namespace_stays(cluster: Cluster) -> None:
    reply = cluster.request("DELETE", "/api/v1/namespaces/default")

    assert (reply.code, reply.body["message"]) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


def test_limit_range_sets_defaults_and_rejects(cluster: Cluster) -> None:
    limits = [
        {
            "type": "Container",
            "max": {"cpu": "2"},
            "min": {"cpu": "100m"},
            "default": {"memory": "1Gi"},
        }
    ]
    limit_range = {"kind": "LimitRange", "apiVersion": "v1", "metadata": {"name": "l"}}
    url = "/api/v1/namespaces/default/limitranges"
    cluster.make(url, {**limit_range, "spec": {"limits": limits}})

    pod = cluster.make(PODS, a_pod())
    greedy = a_pod("greedy")
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "5"}}
    reply = cluster.request("POST", PODS, greedy)

    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "1Gi"},
        "limits": {"memory": "1Gi", "cpu": "2"},
    }
    assert pod["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: memory request for container a; cpu, memory limit for "
            "container a"
        )
    }
    assert pod["status"]["qosClass"] == "Burstable"
    assert reply.body["message"] == (
        'pods "greedy" is forbidden: maximum cpu usage per Container is 2, but limit is 5'
    )


def test_quota_rejects_excess_usage(cluster: Cluster) -> None:
    url = "/api/v1/namespaces/default/resourcequotas"
    hard = {"pods": "1", "requests.cpu": "150m"}
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}}
    made = cluster.make(url, {**quota, "spec": {"hard": hard}})
    made["status"] = {"hard": hard, "used": {"pods": "0", "requests.cpu": "0"}}
    cluster.request("PUT", f"{url}/q/status", made)
    cluster.make(PODS, a_pod())

    reply = cluster.request("POST", PODS, a_pod("second"))
    modest = a_pod("modest")
    del modest["spec"]["containers"][0]["resources"]
    vague = cluster.request("POST", PODS, modest)

    assert reply.body["message"] == (
        'pods "second" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=100m, '
        "used: pods=1,requests.cpu=100m, limited: pods=1,requests.cpu=150m"
    )
    assert vague.body["message"] == (
        'pods "modest" is forbidden: failed quota: q: must specify requests.cpu for: a'
    )


def test_default_storage_class_and_finalizers(cluster: Cluster) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "fast", "annotations": annotations},
        "provisioner": "p",
    }
    cluster.make("/apis/storage.k8s.io/v1/storageclasses", storage_class)
    claim = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }

    made = cluster.make("/api/v1/namespaces/default/persistentvolumeclaims", claim)

    assert made["spec"]["storageClassName"] == "fast"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def test_service_account_is_mounted_or_required(cluster: Cluster) -> None:
    cluster.context.admission = admission_chain(WHOLE, RandomStream(1, "test"))
    missed = cluster.request("POST", PODS, a_pod())
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}}
    cluster.make("/api/v1/namespaces/default/serviceaccounts", account)

    spec = cluster.make(PODS, a_pod())["spec"]

    assert missed.body["message"] == (
        'pods "p" is forbidden: error looking up service account default/default: '
        'serviceaccount "default" not found'
    )
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["containers"][0]["volumeMounts"] == [
        {
            "name": volume["name"],
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
    ]


def test_new_node_is_tainted_if_configured(cluster: Cluster) -> None:
    cluster.context.admission = admission_chain(WHOLE, RandomStream(1, "test"))
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}

    made = cluster.make("/api/v1/nodes", node)

    assert made["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]
