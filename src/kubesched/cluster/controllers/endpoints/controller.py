"""Endpoints: the addresses behind each service with a selector.

Owns the Endpoints of these services. Never touches those of services without a selector.
Upstream: pkg/controller/endpoint/endpoints_controller.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import (
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
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.endpoints.service_pods import (
    HEADLESS,
    ServicePods,
    addresses_of,
    has_endpoints,
    hostname_of,
    is_endpoint,
    is_headless,
    ports_of,
)
from kubesched.cluster.controllers.endpoints.subsets import repack_subsets, truncate_subsets

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_MANAGER: Final = "endpoint-controller"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"


class EndpointsController(Controller):
    """Reconciles the Endpoints of services."""

    name = "endpoint"
    component = _MANAGER

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._services = context.informers.of(SERVICES)
        self._endpoints = context.informers.of(ENDPOINTS)
        self._pods = ServicePods(self._services, context.informers.of(PODS), self.queue.add_after)
        self._endpoints.on_change(self._endpoints_changed)

    def _endpoints_changed(self, old: Document | None, new: Document | None) -> None:
        # Endpoints whose service was deleted while we were down are found on the initial list.
        endpoints = new or old
        if endpoints is not None and (old is None or new is None):
            self.queue.add(key_of(endpoints))

    async def sync(self, key: str) -> None:
        """Reconcile the Endpoints of one service."""
        service, endpoints = self._services.get(key), self._endpoints.get(key)
        if service is None:
            if endpoints is not None and not _is_leader_lock(endpoints):
                await self.api.delete(ENDPOINTS, endpoints)
            return
        if not has_endpoints(service):
            return
        subsets = repack_subsets(
            subset
            for pod in self._pods.of(service)
            if is_endpoint(
                pod, include_terminating=bool(service["spec"].get("publishNotReadyAddresses"))
            )
            for subset in _subsets_of(pod, service)
        )
        desired = _desired_endpoints(service, subsets, endpoints)
        if endpoints is None or not _is_same(endpoints, desired):
            await self._write(desired, is_new=endpoints is None)

    async def _write(self, endpoints: Document, *, is_new: bool) -> None:
        endpoints_key = f"{namespace_of(endpoints)}/{name_of(endpoints)}"
        try:
            if is_new:
                await self.api.create(ENDPOINTS, endpoints)
            else:
                await self.api.update(ENDPOINTS, endpoints)
        except ApiError as error:
            if is_new and isinstance(error, ForbiddenError) and is_namespace_terminating(error):
                return
            reason = "FailedToCreateEndpoint" if is_new else "FailedToUpdateEndpoint"
            action = "create endpoint for service" if is_new else "update endpoint"
            note = f"Failed to {action} {endpoints_key}: {error.message}"
            self.event(endpoints, "Warning", reason, note)
            raise


def _is_leader_lock(endpoints: Document) -> bool:
    """Return whether the Endpoints object is a leader election lock, not a service's."""
    return _LEADER in (endpoints["metadata"].get("annotations") or {})


def _subsets_of(pod: Document, service: Document) -> list[Document]:
    """Return the subsets that one pod contributes, one per port."""
    address = _address_of(pod, service)
    if address is None:
        return []
    spec = service["spec"]
    field = "notReadyAddresses"
    if spec.get("publishNotReadyAddresses") or is_ready(pod):
        field = "addresses"
    if not spec.get("ports"):
        # A headless service may have no ports.
        return [{field: [address]}] if spec.get("clusterIP") == "None" else []
    ports = ports_of(pod, service)
    return [{field: [address], "ports": [_without_empty_name(port)]} for port in ports]


def _without_empty_name(port: Document) -> Document:
    return port if port["name"] else {key: value for key, value in port.items() if key != "name"}


def _address_of(pod: Document, service: Document) -> Document | None:
    """Return a pod's address in the service's primary IP family."""
    spec = service["spec"]
    families = spec.get("ipFamilies") or []
    family = families[0] if families else _default_family(spec, pod)
    addresses = addresses_of(pod, family)
    if not addresses:
        return None
    address: Document = {"ip": addresses[0]}
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


def _default_family(spec: Document, pod: Document) -> str:
    """Return the IP family of a service without ipFamilies, from its or the pod's address."""
    cluster_ip = spec.get("clusterIP")
    address = (
        cluster_ip
        if cluster_ip and cluster_ip != "None"
        else (pod.get("status") or {}).get("podIP", "")
    )
    return "IPv6" if ":" in address else "IPv4"


def _desired_endpoints(
    service: Document, subsets: list[Document], current: Document | None
) -> Document:
    """Return the desired Endpoints of a service."""
    labels = {key: value for key, value in labels_of(service).items() if key != HEADLESS}
    if is_headless(service):
        labels[HEADLESS] = ""
    labels[_MANAGED_BY] = _MANAGER
    metadata = dict(current["metadata"]) if current is not None else {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(_OVER_CAPACITY, None)
    truncated_subsets = truncate_subsets(subsets)
    if truncated_subsets is not None:
        annotations[_OVER_CAPACITY] = "truncated"
    metadata |= {"name": name_of(service), "namespace": namespace_of(service), "labels": labels}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    endpoints: Document = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    if subsets:
        endpoints["subsets"] = subsets if truncated_subsets is None else truncated_subsets
    return endpoints


def _is_same(current: Document, desired: Document) -> bool:
    metadata, other = current["metadata"], desired["metadata"]
    return (
        metadata.get("labels") == other["labels"]
        and (metadata.get("annotations") or {}) == (other.get("annotations") or {})
        and repack_subsets(current.get("subsets") or ())
        == repack_subsets(desired.get("subsets") or ())
    )
