"""A copy of a cluster brought to life on another API server.

Owns what of an object is copied: what scheduling reads, and nothing that another server made up
(uids, versions, addresses), that runs there (tokens, heartbeats), or that is over. Owners come
before what they own, and references follow them to their new uids, so that controllers find
everything as it should be. Nobody else may work on the server meanwhile.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubesched.client.cached.documents import condition_of
from kubesched.client.errors import AlreadyExistsError, ApiError
from kubesched.client.resources import Resource
from kubesched.playground.snapshots import KINDS, Document
from kubesched.testing.companions import HEARTBEAT

if TYPE_CHECKING:
    from kubesched.client.rest import Client

_BY_KIND: Final = {(one.api_version, one.kind): one for one in KINDS}
_OWN_TAINTS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
)
_OWN_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
    "kubernetes.io/config.source",
)
_AT_A_TIME: Final = 32
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations", "finalizers")


class Copy:
    """One copying; `write` may be called once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._uids: dict[str, str] = {}
        self._namespaces: dict[str, None] = {}
        self.written: Counter[str] = Counter()
        """How many objects of each kind were made."""
        self.refused: list[str] = []
        """What the server would not take, and why."""

    async def write(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Make the objects of a copy."""
        by_kind: dict[Resource, list[Document]] = {resource: [] for resource in KINDS}
        for one in objects:
            resource = _BY_KIND.get((one["apiVersion"], one["kind"]))
            if resource is not None:
                by_kind[resource].append(dict(one))
        for resource, found in by_kind.items():
            for start in range(0, len(found), _AT_A_TIME):
                some = found[start : start + _AT_A_TIME]
                await asyncio.gather(*(self._write(resource, one) for one in some))

    async def _write(self, resource: Resource, original: Document) -> None:
        made = _MAKERS.get(resource.kind, _as_it_is)(original)
        if made is None:
            return
        metadata = original["metadata"]
        owners = self._owners(metadata.get("ownerReferences") or ())
        if owners:
            made["metadata"]["ownerReferences"] = owners
        if resource.kind == "PersistentVolume":
            self._follow_claim(made)
        namespace = str(metadata.get("namespace", ""))
        status = made.pop("status", None) if resource.kind in _WITH_STATUS else None
        try:
            stored = await self._made(resource, made, namespace)
        except ApiError as error:
            name = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
            self.refused.append(f"{resource.kind} {name}: {error}")
            return
        self._uids[str(metadata.get("uid", ""))] = stored["metadata"]["uid"]
        self.written[resource.kind] += 1
        if status:
            await self._set_status(resource, stored, status)
        if resource.kind == "Namespace":
            await self._make_account(stored["metadata"]["name"])

    async def _made(self, resource: Resource, document: Document, namespace: str) -> Document:
        try:
            answer = await self._client.create(resource, document, namespace=namespace)
        except AlreadyExistsError:
            # What every cluster has: its namespaces and priority classes.
            name = document["metadata"]["name"]
            answer = await self._client.get(resource, name, namespace=namespace)
        stored: Document = msgspec.json.decode(answer)
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

    async def _make_account(self, namespace: str) -> None:
        """Make the account without which a namespace takes no pods."""
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
        """Return references to those owners that were copied."""
        return [
            {**one, "uid": self._uids[one["uid"]]} for one in references if one["uid"] in self._uids
        ]

    def _follow_claim(self, volume: Document) -> None:
        claim = volume["spec"].get("claimRef")
        if claim is None:
            return
        claim.pop("resourceVersion", None)
        uid = claim.pop("uid", "")
        if uid in self._uids:
            claim["uid"] = self._uids[uid]


def _as_it_is(original: Document) -> Document | None:
    metadata = original["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    kept = {key: metadata[key] for key in _KEPT_METADATA if metadata.get(key)}
    annotations = {
        key: text
        for key, text in (kept.get("annotations") or {}).items()
        if key not in _OWN_ANNOTATIONS
    }
    if "annotations" in kept:
        kept["annotations"] = annotations
    made = {key: value for key, value in original.items() if key != "status"}
    return copy.deepcopy({**made, "metadata": kept})


def _node(original: Document) -> Document | None:
    made = _as_it_is(original)
    if made is None:
        return None
    spec, status = original.get("spec", {}), original.get("status", {})
    taints = [one for one in spec.get("taints") or () if one["key"] not in _OWN_TAINTS]
    made["spec"] = {
        key: spec[key] for key in ("podCIDR", "podCIDRs", "unschedulable") if spec.get(key)
    }
    if taints:
        made["spec"]["taints"] = taints
    made["status"] = {
        key: status[key]
        for key in ("capacity", "allocatable", "images", "nodeInfo", "features")
        if status.get(key)
    }
    ready = condition_of(original, "Ready")
    if ready is not None and ready.get("status") != "True":
        made["metadata"].setdefault("annotations", {})[HEARTBEAT] = "off"
    return made


def _namespace(original: Document) -> Document | None:
    made = _as_it_is(original)
    if made is not None:
        made.pop("spec", None)
    return made


def _service(original: Document) -> Document | None:
    made = _as_it_is(original)
    if made is None or made["metadata"]["name"] == "kubernetes":
        return None
    spec = made.get("spec", {})
    headless = spec.get("clusterIP") == "None"
    for field in ("clusterIP", "clusterIPs", "healthCheckNodePort", "loadBalancerIP"):
        spec.pop(field, None)
    if headless:
        spec["clusterIP"] = "None"
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)
    return made


def _with_status(original: Document) -> Document | None:
    made = _as_it_is(original)
    if made is not None and original.get("status"):
        made["status"] = copy.deepcopy(original["status"])
    return made


def _pod(original: Document) -> Document | None:
    made = _as_it_is(original)
    if made is None or original.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    spec = made["spec"]
    # Accounts are not copied, priorities follow from the class, and admission checks both.
    for field in ("serviceAccount", "serviceAccountName", "priority", "preemptionPolicy"):
        spec.pop(field, None)
    nominated = original.get("status", {}).get("nominatedNodeName")
    if nominated and not spec.get("nodeName"):
        made["status"] = {"nominatedNodeName": nominated}
    return made


_MAKERS: Final[Mapping[str, Callable[[Document], Document | None]]] = {
    "Node": _node,
    "Namespace": _namespace,
    "Service": _service,
    "PersistentVolumeClaim": _with_status,
    "PersistentVolume": _with_status,
    "VolumeAttachment": _with_status,
    "Pod": _pod,
}
_WITH_STATUS: Final = ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment", "Pod")
