"""A node's status: as its kubelet reports it, and what of it has to be written.

Owns the documents: addresses, amounts, conditions, versions, the endpoint of the kubelet, and the
smallest patch; and the lease. Never writes anything.
Upstream: pkg/kubelet/nodestatus/setters.go, pkg/kubelet/kubelet_node_status.go,
staging/src/k8s.io/component-helpers/apimachinery/lease
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubesched.kubelet import wishes
from kubesched.kubelet.settings import VERSION, KubeletSettings
from kubesched.objects.times import micro_time_text, time_text

Document: TypeAlias = dict[str, Any]

LEASE_NAMESPACE: Final = "kube-node-lease"
# Parity: pkg/kubelet/nodestatus/setters.go, v1.36: what each says when all is well.
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
    """Where the kubelet of a node is reached."""

    host: str
    port: int


def is_alive(node: Mapping[str, Any]) -> bool:
    """Return whether a node's kubelet does anything: an annotation may have stopped it."""
    return not wishes.is_switched_off(node, wishes.HEARTBEAT)


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
    """Return what has to change in a node's status; nothing if it is as it should be.

    Args:
        node: The node as it is.
        ip: The address it has among its like.
        endpoint: Where its kubelet is reached.
        now_s: The time.
        settings: What nodes have that say nothing of it.
        before: The node as it was before its last change, if that is known.
        is_report: Whether conditions shall say that they were looked at now.
    """
    status: Mapping[str, Any] = node.get("status") or {}
    wanted: Document = {
        "addresses": _addresses(status, ip, endpoint),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": endpoint.port}},
        "nodeInfo": _node_info(status),
    }
    patch = {key: value for key, value in wanted.items() if status.get(key) != value}
    if "addresses" in patch:
        # Addresses merge by type, and there may be two of one.
        patch["addresses"] = [*patch["addresses"], {"$patch": "replace"}]
    patch.update(_amounts(status, (before or {}).get("status") or {}, settings))
    conditions = _conditions(status, now_s, is_report=is_report)
    if conditions:
        patch["conditions"] = conditions
    return patch


def _addresses(status: Mapping[str, Any], ip: str, endpoint: Endpoint) -> list[Document]:
    """Return the addresses: API servers reach a kubelet at its Hostname before any other."""
    kept = [
        dict(one)
        for one in status.get("addresses") or ()
        if one.get("type") not in {"Hostname", "InternalIP"}
    ]
    own = [one for one in status.get("addresses") or () if one.get("type") == "InternalIP"]
    internal = [dict(one) for one in own] or [{"type": "InternalIP", "address": ip}]
    return [*internal, {"type": "Hostname", "address": endpoint.host}, *kept]


def _node_info(status: Mapping[str, Any]) -> Document:
    known = {key: value for key, value in (status.get("nodeInfo") or {}).items() if value}
    return {**_NODE_INFO, **known}


def _amounts(
    status: Mapping[str, Any], before: Mapping[str, Any], settings: KubeletSettings
) -> Document:
    """Return what is missing of capacity and allocatable.

    Parity: pkg/kubelet/nodestatus/setters.go MachineInfo, v1.36: allocatable has whatever capacity
    has, and no extended resource that capacity has no more. Differs: what is only in allocatable
    is taken as a capacity that nobody wrote down, not as one that is gone.
    """
    capacity: Mapping[str, str] = status.get("capacity") or {}
    allocatable: Mapping[str, str] = status.get("allocatable") or {}
    if not capacity and not allocatable:
        return {"capacity": dict(settings.capacity), "allocatable": dict(settings.capacity)}
    had = before.get("capacity") or {}
    gone = [name for name in allocatable if name in had and name not in capacity and "/" in name]
    more = {name: amount for name, amount in capacity.items() if name not in allocatable}
    unwritten = {
        name: amount
        for name, amount in allocatable.items()
        if name not in capacity and name not in gone
    }
    patch: Document = {}
    if more or gone:
        patch["allocatable"] = {**more, **dict.fromkeys(gone)}
    if unwritten:
        patch["capacity"] = unwritten
    return patch


def _conditions(status: Mapping[str, Any], now_s: float, *, is_report: bool) -> list[Document]:
    """Return the conditions to write.

    A pressure that somebody has written down stays: that is how one tries what it does.
    """
    known: dict[str, Document] = {one["type"]: one for one in status.get("conditions") or ()}
    now = time_text(now_s)
    changed = []
    for kind, value, reason, note in _CONDITIONS:
        old = known.get(kind)
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
    """Return the labels that every kubelet gives its node and this one has not."""
    name = node["metadata"]["name"]
    labels = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    wanted = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": info.get("operatingSystem") or "linux",
        "kubernetes.io/arch": info.get("architecture") or "amd64",
    }
    return {key: value for key, value in wanted.items() if key not in labels}


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


def renewal(now_s: float) -> Document:
    """Return the patch that renews a lease."""
    return {"spec": {"renewTime": micro_time_text(now_s)}}
