"""Writes a copy of a cluster to another API server.

Owns which fields are copied: those that scheduling reads, without what the other server generated
(uids, versions, addresses), what runs there (tokens, heartbeats), and finished pods. Owners are
written before their dependents, and references are mapped to the new uids, so that controllers find
a consistent state. No other client may write meanwhile.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubesched.api.documents import condition_of
from kubesched.client.errors import AlreadyExistsError, ApiError
from kubesched.client.resources import Resource
from kubesched.cluster.launch.components import HEARTBEAT
from kubesched.cluster.playground.snapshots import KINDS, Document

if TYPE_CHECKING:
    from kubesched.client.rest import Client

_BY_KIND: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}
_MANAGED_TAINTS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
)
_DROPPED_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
    "kubernetes.io/config.source",
)
_BATCH: Final = 32
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations", "finalizers")


class ClusterCopy:
    """Writes one copy; `write` may be called once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._uids: dict[str, str] = {}
        self._namespaces: dict[str, None] = {}
        self.written: Counter[str] = Counter()
        """Number of created objects by kind."""
        self.rejected: list[str] = []
        """Objects that the server rejected, with the reason."""

    async def write(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Create the objects of a copy."""
        by_kind: dict[Resource, list[Document]] = {resource: [] for resource in KINDS}
        for one in objects:
            resource = _BY_KIND.get((one["apiVersion"], one["kind"]))
            if resource is not None:
                by_kind[resource].append(dict(one))
        for resource, objects_of_kind in by_kind.items():
            for start in range(0, len(objects_of_kind), _BATCH):
                batch = objects_of_kind[start : start + _BATCH]
                await asyncio.gather(*(self._write(resource, one) for one in batch))

    async def _write(self, resource: Resource, original: Document) -> None:
        copied = _TRANSFORMS.get(resource.kind, _copied)(original)
        if copied is None:
            return
        metadata = original["metadata"]
        owners = self._owners(metadata.get("ownerReferences") or ())
        if owners:
            copied["metadata"]["ownerReferences"] = owners
        if resource.kind == "PersistentVolume":
            self._map_claim_reference(copied)
        namespace = str(metadata.get("namespace", ""))
        status = copied.pop("status", None) if resource.kind in _WITH_STATUS else None
        try:
            stored = await self._create(resource, copied, namespace)
        except ApiError as error:
            name = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
            self.rejected.append(f"{resource.kind} {name}: {error}")
            return
        self._uids[str(metadata.get("uid", ""))] = stored["metadata"]["uid"]
        self.written[resource.kind] += 1
        if status:
            await self._set_status(resource, stored, status)
        if resource.kind == "Namespace":
            await self._create_service_account(stored["metadata"]["name"])

    async def _create(self, resource: Resource, document: Document, namespace: str) -> Document:
        try:
            response = await self._client.create(resource, document, namespace=namespace)
        except AlreadyExistsError:
            # Every cluster has default namespaces and priority classes.
            name = document["metadata"]["name"]
            response = await self._client.get(resource, name, namespace=namespace)
        stored: Document = msgspec.json.decode(response)
        return stored

    async def _set_status(self, resource: Resource, stored: Document, status: Document) -> None:
        metadata = stored["metadata"]
        await self._client.patch(
            resource,
            metadata["name"],
            {"status": status},
            namespace=metadata.get("namespace", ""),
            subresource="status",
            content_type="application/merge-patch+json",
        )

    async def _create_service_account(self, namespace: str) -> None:
        """Create the default service account, without which pods are rejected."""
        if namespace in self._namespaces:
            return
        self._namespaces[namespace] = None
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        body = {"metadata": {"name": "default", "namespace": namespace}}
        try:
            await self._client.request("POST", path, body=body)
        except AlreadyExistsError:
            return

    def _owners(self, references: Iterable[Mapping[str, Any]]) -> list[Document]:
        """Return references to the owners that were copied."""
        return [
            {**reference, "uid": self._uids[reference["uid"]]}
            for reference in references
            if reference["uid"] in self._uids
        ]

    def _map_claim_reference(self, volume: Document) -> None:
        claim = volume["spec"].get("claimRef")
        if claim is None:
            return
        claim.pop("resourceVersion", None)
        uid = claim.pop("uid", "")
        if uid in self._uids:
            claim["uid"] = self._uids[uid]


def _copied(original: Document) -> Document | None:
    metadata = original["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    kept = {key: metadata[key] for key in _KEPT_METADATA if metadata.get(key)}
    annotations = {
        key: text
        for key, text in (kept.get("annotations") or {}).items()
        if key not in _DROPPED_ANNOTATIONS
    }
    if "annotations" in kept:
        kept["annotations"] = annotations
    copied = {key: value for key, value in original.items() if key != "status"}
    return copy.deepcopy({**copied, "metadata": kept})


def _node(original: Document) -> Document | None:
    copied = _copied(original)
    if copied is None:
        return None
    spec, status = original.get("spec", {}), original.get("status", {})
    taints = [taint for taint in spec.get("taints") or () if taint["key"] not in _MANAGED_TAINTS]
    copied["spec"] = {
        key: spec[key] for key in ("podCIDR", "podCIDRs", "unschedulable") if spec.get(key)
    }
    if taints:
        copied["spec"]["taints"] = taints
    copied["status"] = {
        key: status[key]
        for key in ("capacity", "allocatable", "images", "nodeInfo", "features")
        if status.get(key)
    }
    ready = condition_of(original, "Ready")
    if ready is not None and ready.get("status") != "True":
        copied["metadata"].setdefault("annotations", {})[HEARTBEAT] = "off"
    return copied


def _namespace(original: Document) -> Document | None:
    copied = _copied(original)
    if copied is not None:
        copied.pop("spec", None)
    return copied


def _service(original: Document) -> Document | None:
    copied = _copied(original)
    if copied is None or copied["metadata"]["name"] == "kubernetes":
        return None
    spec = copied.get("spec", {})
    headless = spec.get("clusterIP") == "None"
    for field in ("clusterIP", "clusterIPs", "healthCheckNodePort", "loadBalancerIP"):
        spec.pop(field, None)
    if headless:
        spec["clusterIP"] = "None"
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)
    return copied


def _with_status(original: Document) -> Document | None:
    copied = _copied(original)
    if copied is not None and original.get("status"):
        copied["status"] = copy.deepcopy(original["status"])
    return copied


def _pod(original: Document) -> Document | None:
    copied = _copied(original)
    if copied is None or original.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    spec = copied["spec"]
    # Service accounts are not copied, and admission derives priorities from the class.
    for field in ("serviceAccount", "serviceAccountName", "priority", "preemptionPolicy"):
        spec.pop(field, None)
    nominated = original.get("status", {}).get("nominatedNodeName")
    if nominated and not spec.get("nodeName"):
        copied["status"] = {"nominatedNodeName": nominated}
    return copied


_TRANSFORMS: Final[Mapping[str, Callable[[Document], Document | None]]] = {
    "Node": _node,
    "Namespace": _namespace,
    "Service": _service,
    "PersistentVolumeClaim": _with_status,
    "PersistentVolume": _with_status,
    "VolumeAttachment": _with_status,
    "Pod": _pod,
}
_WITH_STATUS: Final = ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment", "Pod")
