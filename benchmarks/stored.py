"""Objects as an API server stores them, with the fields of a workload.

Owns the fields that every stored pod and node has. Never sets a field that a decision depends on:
workloads set those.
Upstream: pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

CREATED = "2026-11-01T08:00:00Z"
_TOKEN_VOLUME = "kube-api-access-${suffix}"
_IMAGE_ID = "registry.example.com/app@sha256:" + "0123456789abcdef" * 4


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Document:
    """Return both documents as one; `above` takes precedence; lists are not joined."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merged(old, value)  # noqa: PLW2901 - the same, completed
        result[key] = value
    return result


def stored_node(template: Mapping[str, Any]) -> Document:
    """Return a node's document."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    info = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": "v1.36.4",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.12.0",
        "osImage": "Linux",
    }
    return merged(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _metadata("node-${i}"),
            "spec": {"providerID": "example:///node-${i}"},
            "status": {"conditions": [condition], "nodeInfo": info},
        },
        template,
    )


def stored_object(template: Mapping[str, Any]) -> Document:
    """Return the document of any other object."""
    return merged({"metadata": _metadata("")}, template)


def stored_pod(template: Mapping[str, Any], *, bound: bool, nominated: bool) -> Document:
    """Return a pod's document, with its status as it is before or after binding."""
    document = merged(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**_metadata("pod-${i}"), "namespace": "default"},
            "spec": _pod_spec(),
            "status": {"phase": "Pending", "qosClass": "Burstable"},
        },
        template,
    )
    spec = document["spec"]
    spec["containers"] = [_container(one) for one in spec["containers"]]
    spec["tolerations"] = [*spec.get("tolerations", ()), *_default_tolerations()]
    spec["volumes"] = [*spec.get("volumes", ()), _token_volume()]
    if bound:
        spec["nodeName"] = "${node}"
        document["status"] = _running(spec["containers"])
    if nominated:
        document["status"]["nominatedNodeName"] = "${node}"
    return document


def _metadata(name: str) -> Document:
    return {"name": name, "uid": "${uid}", "resourceVersion": "1", "creationTimestamp": CREATED}


def _pod_spec() -> Document:
    return {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "containers": [{}],
    }


def _container(container: Mapping[str, Any]) -> Document:
    mount = "/var/run/secrets/kubernetes.io/serviceaccount"
    return merged(
        {
            "name": "main",
            "image": "registry.example.com/app:v1",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "volumeMounts": [{"name": _TOKEN_VOLUME, "readOnly": True, "mountPath": mount}],
        },
        container,
    )


def _default_tolerations() -> list[Document]:
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ]


def _token_volume() -> Document:
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {
        "configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    }
    projected = {"sources": [token, authority], "defaultMode": 420}
    return {"name": _TOKEN_VOLUME, "projected": projected}


def _running(containers: list[Document]) -> Document:
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": one, "status": "True", "lastTransitionTime": CREATED} for one in types
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "startTime": "${started}",
        "containerStatuses": [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": _IMAGE_ID,
                "containerID": "containerd://" + "0123456789abcdef" * 4,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "lastState": {},
                "state": {"running": {"startedAt": CREATED}},
            }
            for one in containers
        ],
        "qosClass": "Burstable",
    }
