"""Pods behind services: selection, addresses, ports, and which pod changes matter.

Shared by the Endpoints and EndpointSlice controllers. Never writes.
Upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go, utils.go FindPort
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
    namespace_of,
)
from kubesched.api.label_selectors import Selector, selector_from_set
from kubesched.cluster.informers.informer import Informer

HEADLESS: Final = "service.kubernetes.io/headless"
_BATCH_S: Final = 0.05
_PODS_A_SECOND: Final = 100
_BATCH_S_MAX: Final = 3.0


class ServicePods:
    """Finds the pods of services, and enqueues services whose pods changed."""

    def __init__(
        self, services: Informer, pods: Informer, add_after: Callable[[str, float], None]
    ) -> None:
        self._services = services
        self._pods = pods
        self._add_after = add_after
        self._pod_counts: dict[str, int] = {}
        """Pods per service; changes of larger services are batched for longer."""
        services.on_change(self._service_changed)
        pods.on_change(self._pod_changed)

    def of(self, service: Document) -> list[Document]:
        """Return the pods that a service selects."""
        selector_labels: Mapping[str, str] = service["spec"]["selector"]
        namespace = namespace_of(service)
        if selector_labels:
            key, value = next(iter(selector_labels.items()))
            index = f"label {key}"
            self._pods.add_index(index, partial(_label_index_keys, key))
            candidates = self._pods.by_index(index, f"{namespace}/{value}")
        else:
            candidates = self._pods.in_namespace(namespace)
        selector = selector_from_set(selector_labels or {})
        pods = [pod for pod in candidates if selector.matches(labels_of(pod))]
        self._pod_counts[key_of(service)] = len(pods)
        return pods

    def _service_changed(self, old: Document | None, new: Document | None) -> None:
        service = new or old
        if service is None:
            return
        if new is None:
            self._pod_counts.pop(key_of(service), None)
        self._add_after(key_of(service), 0.0)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        pod = new or old
        if pod is None or not (services := self._services.in_namespace(namespace_of(pod))):
            return
        affects_endpoints, affects_membership = _pod_change_effects(old, new)
        if not affects_endpoints and not affects_membership:
            return
        for service in services:
            labels = service["spec"].get("selector")
            if labels is None:
                continue
            selector = selector_from_set(labels or {})
            was_in, is_in = _selects(selector, old), _selects(selector, new)
            if (affects_endpoints and (was_in or is_in)) or was_in != is_in:
                key = key_of(service)
                batch_s = _BATCH_S + self._pod_counts.get(key, 0) / _PODS_A_SECOND
                self._add_after(key, min(batch_s, _BATCH_S_MAX))


def is_endpoint(pod: Document, *, include_terminating: bool) -> bool:
    """Return whether a pod is or may become an endpoint of a service."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return False
    if not status.get("podIP") and not status.get("podIPs"):
        return False
    return include_terminating or not is_terminating(pod)


def has_endpoints(service: Document) -> bool:
    """Return whether endpoints of a service are managed here."""
    spec = service.get("spec") or {}
    return spec.get("type") != "ExternalName" and spec.get("selector") is not None


def is_headless(service: Document) -> bool:
    """Return whether a service has no cluster IP."""
    return service["spec"].get("clusterIP") in (None, "", "None")


def hostname_of(pod: Document, service: Document) -> str:
    """Return a pod's hostname within a service, if it has one."""
    spec = pod["spec"]
    is_in_subdomain = spec.get("subdomain") == name_of(service)
    is_in_subdomain = is_in_subdomain and namespace_of(service) == namespace_of(pod)
    return str(spec.get("hostname") or "") if is_in_subdomain else ""


def addresses_of(pod: Document, family: str) -> list[str]:
    """Return a pod's addresses of a family, `IPv4` or `IPv6`."""
    version = 6 if family == "IPv6" else 4
    addresses = [
        ipaddress.ip_address(pod_ip["ip"])
        for pod_ip in (pod.get("status") or {}).get("podIPs") or ()
        if pod_ip.get("ip")
    ]
    return [str(address) for address in addresses if address.version == version]


def port_of(pod: Document, service_port: Mapping[str, Any]) -> int | None:
    """Return the pod's port for a service port; None if it has none."""
    target = service_port.get("targetPort")
    if not isinstance(target, str):
        return target if target is not None else service_port.get("port")
    spec = pod["spec"]
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            has_name = port.get("name") == target
            if has_name and port.get("protocol", "TCP") == service_port.get("protocol", "TCP"):
                return int(port["containerPort"])
    return None


def ports_of(pod: Document, service: Document) -> list[Document]:
    """Return a service's ports resolved for a pod, without those that it lacks."""
    ports: list[Document] = []
    for one in service["spec"].get("ports") or ():
        number = port_of(pod, one)
        if number is None:
            continue
        port: Document = {"name": one.get("name") or "", "port": number}
        port["protocol"] = one.get("protocol") or "TCP"
        if one.get("appProtocol") is not None:
            port["appProtocol"] = one["appProtocol"]
        ports.append(port)
    return ports


def _label_index_keys(key: str, pod: Document) -> tuple[str, ...]:
    value = labels_of(pod).get(key)
    return () if value is None else (f"{namespace_of(pod)}/{value}",)


def _selects(selector: Selector, pod: Document | None) -> bool:
    return pod is not None and selector.matches(labels_of(pod))


def _pod_change_effects(old: Document | None, new: Document | None) -> tuple[bool, bool]:
    """Return whether a pod change affects endpoints, and whether it affects membership."""
    # Parity: controller_utils.go podEndpointsChanged, v1.36.
    if old is None or new is None:
        # Most pods have no address when created and are not ready when deleted.
        pod = new or old
        return pod is not None and is_endpoint(pod, include_terminating=True), False
    affects_endpoints = (
        old["metadata"].get("deletionTimestamp") != new["metadata"].get("deletionTimestamp")
        or is_ready(old) != is_ready(new)
        or _address_state(old) != _address_state(new)
    )
    affects_membership = labels_of(old) != labels_of(new) or any(
        old["spec"].get(field) != new["spec"].get(field) for field in ("hostname", "subdomain")
    )
    return affects_endpoints, affects_membership


def _address_state(pod: Document) -> tuple[object, ...]:
    status = pod.get("status") or {}
    return (status.get("podIPs"), status.get("phase") in ("Failed", "Succeeded"))
