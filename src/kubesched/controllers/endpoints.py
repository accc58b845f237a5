"""Endpoints: the addresses behind each service that selects pods.

Owns one Endpoints for each such service. Never touches those of services without a selector.
Upstream: pkg/controller/endpoint/endpoints_controller.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import (
    Document,
    is_ready,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from kubesched.client.errors import ApiError, ForbiddenError
from kubesched.client.resources import ENDPOINTS, PODS, SERVICES
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.endpoint_subsets import repacked, truncated
from kubesched.controllers.refusals import is_namespace_ending
from kubesched.controllers.service_pods import (
    HEADLESS,
    ServicePods,
    addresses_of,
    has_endpoints,
    hostname_of,
    is_endpoint,
    is_headless,
    ports_of,
)

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_MANAGER: Final = "endpoint-controller"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"


class EndpointsController(Controller):
    """Keeps the Endpoints of services."""

    name = "endpoint"
    component = _MANAGER

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._services = parts.informers.of(SERVICES)
        self._endpoints = parts.informers.of(ENDPOINTS)
        self._pods = ServicePods(self._services, parts.informers.of(PODS), self.queue.add_after)
        self._endpoints.on_change(self._endpoints_changed)

    def _endpoints_changed(self, old: Document | None, new: Document | None) -> None:
        # Those of a service that went while nobody watched are found when they are first seen.
        found = new or old
        if found is not None and (old is None or new is None):
            self.queue.add(key_of(found))

    async def sync(self, key: str) -> None:
        """Bring the Endpoints of one service to where it leads."""
        service, endpoints = self._services.get(key), self._endpoints.get(key)
        if service is None:
            if endpoints is not None and not _is_lock(endpoints):
                await self.api.delete(ENDPOINTS, endpoints)
            return
        if not has_endpoints(service):
            return
        subsets = repacked(
            subset
            for pod in self._pods.of(service)
            if is_endpoint(
                pod, include_terminating=bool(service["spec"].get("publishNotReadyAddresses"))
            )
            for subset in _subsets_of(pod, service)
        )
        wanted = _document(service, subsets, endpoints)
        if endpoints is None or not _is_same(endpoints, wanted):
            await self._write(wanted, is_new=endpoints is None)

    async def _write(self, endpoints: Document, *, is_new: bool) -> None:
        place = f"{namespace_of(endpoints)}/{name_of(endpoints)}"
        try:
            if is_new:
                await self.api.create(ENDPOINTS, endpoints)
            else:
                await self.api.update(ENDPOINTS, endpoints)
        except ApiError as error:
            if is_new and isinstance(error, ForbiddenError) and is_namespace_ending(error):
                return
            reason = "FailedToCreateEndpoint" if is_new else "FailedToUpdateEndpoint"
            what = "create endpoint for service" if is_new else "update endpoint"
            note = f"Failed to {what} {place}: {error.message}"
            self.event(endpoints, "Warning", reason, note)
            raise


def _is_lock(endpoints: Document) -> bool:
    """Return whether it is no service's, but somebody's leader election."""
    return _LEADER in (endpoints["metadata"].get("annotations") or {})


def _subsets_of(pod: Document, service: Document) -> list[Document]:
    """Return what one pod adds, a subset for each port."""
    address = _address_of(pod, service)
    if address is None:
        return []
    spec = service["spec"]
    part = "notReadyAddresses"
    if spec.get("publishNotReadyAddresses") or is_ready(pod):
        part = "addresses"
    if not spec.get("ports"):
        # A headless service leads to pods, whatever their ports.
        return [{part: [address]}] if spec.get("clusterIP") == "None" else []
    ports = ports_of(pod, service)
    return [{part: [address], "ports": [_without_empty_name(port)]} for port in ports]


def _without_empty_name(port: Document) -> Document:
    return port if port["name"] else {key: value for key, value in port.items() if key != "name"}


def _address_of(pod: Document, service: Document) -> Document | None:
    """Return the address of a pod in the family that a service has first."""
    spec = service["spec"]
    families = spec.get("ipFamilies") or []
    family = families[0] if families else _family(spec, pod)
    found = addresses_of(pod, family)
    if not found:
        return None
    address: Document = {"ip": found[0]}
    if hostname := hostname_of(pod, service):
        address["hostname"] = hostname
    if node := pod["spec"].get("nodeName"):
        address["nodeName"] = node
    address["targetRef"] = {
        "kind": "Pod",
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "uid": uid_of(pod),
    }
    return address


def _family(spec: Document, pod: Document) -> str:
    """Return the family of a service that says none: that of its address, or of the pod."""
    own = spec.get("clusterIP")
    shown = own if own and own != "None" else (pod.get("status") or {}).get("podIP", "")
    return "IPv6" if ":" in shown else "IPv4"


def _document(service: Document, subsets: list[Document], known: Document | None) -> Document:
    """Return the Endpoints that a service should have."""
    labels = {key: value for key, value in labels_of(service).items() if key != HEADLESS}
    if is_headless(service):
        labels[HEADLESS] = ""
    labels[_MANAGED_BY] = _MANAGER
    metadata = dict(known["metadata"]) if known is not None else {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(_OVER_CAPACITY, None)
    cut = truncated(subsets)
    if cut is not None:
        annotations[_OVER_CAPACITY] = "truncated"
    metadata |= {"name": name_of(service), "namespace": namespace_of(service), "labels": labels}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    made: Document = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    if subsets:
        made["subsets"] = subsets if cut is None else cut
    return made


def _is_same(known: Document, wanted: Document) -> bool:
    metadata, other = known["metadata"], wanted["metadata"]
    return (
        metadata.get("labels") == other["labels"]
        and (metadata.get("annotations") or {}) == (other.get("annotations") or {})
        and repacked(known.get("subsets") or ()) == repacked(wanted.get("subsets") or ())
    )
