"""Status patch and lease of a node.

Owns the documents: addresses, capacity, conditions, versions, the kubelet's endpoint and the
lease. Never writes.
Upstream: pkg/kubelet/nodestatus/setters.go, pkg/kubelet/kubelet_node_status.go,
staging/src/k8s.io/component-helpers/apimachinery/lease
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubesched.api.times import micro_time_text, time_text
from kubesched.cluster.kubelet.annotations import HEARTBEAT, is_switched_off
from kubesched.cluster.kubelet.settings import VERSION, KubeletSettings

Document: TypeAlias = dict[str, Any]

LEASE_NAMESPACE: Final = "kube-node-lease"
# Parity: pkg/kubelet/nodestatus/setters.go, v1.36: the conditions of a healthy node.
_CONDITIONS: Final = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_NODE_INFO: Final = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "kubesched://1",
    "kernelVersion": "none",
    "kubeProxyVersion": "",
    "kubeletVersion": VERSION,
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "kubesched playground",
    "systemUUID": "",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a node's kubelet."""

    host: str
    port: int


def is_alive(node: Mapping[str, Any]) -> bool:
    """Return whether a node's kubelet is alive; an annotation can switch it off."""
    return not is_switched_off(node, HEARTBEAT)


def status_patch(  # noqa: PLR0913  # One argument for each thing a status follows from.
    node: Mapping[str, Any],
    *,
    ip: str,
    endpoint: Endpoint,
    now_s: float,
    settings: KubeletSettings,
    before: Mapping[str, Any] | None = None,
    is_report: bool = False,
) -> Document:
    """Return the patch of a node's status; empty if nothing has to change.

    Args:
        node: The node.
        ip: Its InternalIP.
        endpoint: Address of its kubelet.
        now_s: The current time.
        settings: Defaults for nodes without capacity.
        before: The node before its last change, if known.
        is_report: Whether to update the heartbeat times of all conditions.
    """
    status: Mapping[str, Any] = node.get("status") or {}
    desired: Document = {
        "addresses": _addresses(status, ip, endpoint),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": endpoint.port}},
        "nodeInfo": _node_info(status),
    }
    patch = {key: value for key, value in desired.items() if status.get(key) != value}
    if "addresses" in patch:
        # The merge key is the type, and there may be two addresses of one type.
        patch["addresses"] = [*patch["addresses"], {"$patch": "replace"}]
    patch.update(_resource_amounts(status, (before or {}).get("status") or {}, settings))
    conditions = _conditions(status, now_s, is_report=is_report)
    if conditions:
        patch["conditions"] = conditions
    return patch


def _addresses(status: Mapping[str, Any], ip: str, endpoint: Endpoint) -> list[Document]:
    """Return the addresses; API servers prefer the Hostname to reach a kubelet."""
    kept = [
        dict(address)
        for address in status.get("addresses") or ()
        if address.get("type") not in {"Hostname", "InternalIP"}
    ]
    internal_addresses = [
        address for address in status.get("addresses") or () if address.get("type") == "InternalIP"
    ]
    internal = [dict(address) for address in internal_addresses] or [
        {"type": "InternalIP", "address": ip}
    ]
    return [*internal, {"type": "Hostname", "address": endpoint.host}, *kept]


def _node_info(status: Mapping[str, Any]) -> Document:
    current = {key: value for key, value in (status.get("nodeInfo") or {}).items() if value}
    return {**_NODE_INFO, **current}


def _resource_amounts(
    status: Mapping[str, Any], before: Mapping[str, Any], settings: KubeletSettings
) -> Document:
    """Return the patch of capacity and allocatable.

    Parity: pkg/kubelet/nodestatus/setters.go MachineInfo, v1.36: allocatable has every resource of
    capacity, and no extended resource that capacity lost. Differs: a resource in allocatable only
    is added to capacity instead of being removed.
    """
    capacity: Mapping[str, str] = status.get("capacity") or {}
    allocatable: Mapping[str, str] = status.get("allocatable") or {}
    if not capacity and not allocatable:
        return {"capacity": dict(settings.capacity), "allocatable": dict(settings.capacity)}
    capacity_before = before.get("capacity") or {}
    removed = [
        name
        for name in allocatable
        if name in capacity_before and name not in capacity and "/" in name
    ]
    missing = {name: amount for name, amount in capacity.items() if name not in allocatable}
    only_allocatable = {
        name: amount
        for name, amount in allocatable.items()
        if name not in capacity and name not in removed
    }
    patch: Document = {}
    if missing or removed:
        patch["allocatable"] = {**missing, **dict.fromkeys(removed)}
    if only_allocatable:
        patch["capacity"] = only_allocatable
    return patch


def _conditions(status: Mapping[str, Any], now_s: float, *, is_report: bool) -> list[Document]:
    """Return the conditions to write.

    A pressure condition that a user set stays, so that its effects can be tried out.
    """
    current: dict[str, Document] = {
        condition["type"]: condition for condition in status.get("conditions") or ()
    }
    now = time_text(now_s)
    changed = []
    for kind, value, reason, note in _CONDITIONS:
        old = current.get(kind)
        is_kept = old is not None and (
            old.get("status") == value or (kind != "Ready" and old.get("status") == "True")
        )
        if old is not None and is_kept:
            if is_report:
                changed.append({"type": kind, "lastHeartbeatTime": now})
            continue
        changed.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": note,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
        )
    return changed


def missing_labels(node: Mapping[str, Any]) -> Document:
    """Return the well-known labels that a node lacks."""
    name = node["metadata"]["name"]
    labels = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    desired = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": info.get("operatingSystem") or "linux",
        "kubernetes.io/arch": info.get("architecture") or "amd64",
    }
    return {key: value for key, value in desired.items() if key not in labels}


def lease_of(node: Mapping[str, Any], now_s: float, lease_s: int) -> Document:
    """Return the lease of a node, renewed now."""
    metadata = node["metadata"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": metadata["name"],
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                }
            ],
        },
        "spec": {
            "holderIdentity": metadata["name"],
            "leaseDurationSeconds": lease_s,
            "renewTime": micro_time_text(now_s),
        },
    }


def lease_renewal(now_s: float) -> Document:
    """Return the patch that renews a lease."""
    return {"spec": {"renewTime": micro_time_text(now_s)}}
