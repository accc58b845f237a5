"""Which pods a service leads to, and which services a pod is in.

Owns the selection, the ports, and which changes of a pod matter to services. Never writes:
endpoints and endpoint_slices do.
Upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go, utils.go FindPort
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    selector_of_labels,
)
from kubesched.client.cached.informers import Informer
from kubesched.objects.label_selectors import Selector

HEADLESS: Final = "service.kubernetes.io/headless"
_BATCH_S: Final = 0.05
_PODS_A_SECOND: Final = 100
_BATCH_S_MAX: Final = 3.0


class ServicePods:
    """Tells of the services that may lead to other pods than they did, and of their pods."""

    def __init__(
        self, services: Informer, pods: Informer, add_after: Callable[[str, float], None]
    ) -> None:
        self._services = services
        self._pods = pods
        self._add_after = add_after
        self._pod_counts: dict[str, int] = {}
        """How many pods a service led to: the more, the longer changes are gathered."""
        services.on_change(self._service_changed)
        pods.on_change(self._pod_changed)

    def of(self, service: Document) -> list[Document]:
        """Return the pods that a service selects."""
        wanted: Mapping[str, str] = service["spec"]["selector"]
        namespace = namespace_of(service)
        if wanted:
            key, value = next(iter(wanted.items()))
            index = f"label {key}"
            self._pods.add_index(index, partial(_labelled, key))
            found = self._pods.by(index, f"{namespace}/{value}")
        else:
            found = self._pods.in_namespace(namespace)
        selector = selector_of_labels(wanted)
        pods = [pod for pod in found if selector.matches(labels_of(pod))]
        self._pod_counts[key_of(service)] = len(pods)
        return pods

    def _service_changed(self, old: Document | None, new: Document | None) -> None:
        found = new or old
        if found is None:
            return
        if new is None:
            self._pod_counts.pop(key_of(found), None)
        self._add_after(key_of(found), 0.0)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        found = new or old
        if found is None or not (services := self._services.in_namespace(namespace_of(found))):
            return
        matters, changes_services = _differences(old, new)
        if not matters and not changes_services:
            return
        for service in services:
            labels = service["spec"].get("selector")
            if labels is None:
                continue
            selector = selector_of_labels(labels)
            was_in, is_in = _selects(selector, old), _selects(selector, new)
            if (matters and (was_in or is_in)) or was_in != is_in:
                key = key_of(service)
                gathered_s = _BATCH_S + self._pod_counts.get(key, 0) / _PODS_A_SECOND
                self._add_after(key, min(gathered_s, _BATCH_S_MAX))


def is_endpoint(pod: Document, *, include_terminating: bool) -> bool:
    """Return whether a pod is, or may become, where a service leads to."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return False
    if not status.get("podIP") and not status.get("podIPs"):
        return False
    return include_terminating or not is_terminating(pod)


def has_endpoints(service: Document) -> bool:
    """Return whether endpoints of a service are made here."""
    spec = service.get("spec") or {}
    return spec.get("type") != "ExternalName" and spec.get("selector") is not None


def is_headless(service: Document) -> bool:
    """Return whether a service has no address of its own."""
    return service["spec"].get("clusterIP") in (None, "", "None")


def hostname_of(pod: Document, service: Document) -> str:
    """Return the name under which a pod is found in a service, if it has one."""
    spec = pod["spec"]
    is_own = spec.get("subdomain") == name_of(service)
    is_own = is_own and namespace_of(service) == namespace_of(pod)
    return str(spec.get("hostname") or "") if is_own else ""


def addresses_of(pod: Document, family: str) -> list[str]:
    """Return the addresses of a pod that are of a family, `IPv4` or `IPv6`."""
    version = 6 if family == "IPv6" else 4
    found = [
        ipaddress.ip_address(one["ip"])
        for one in (pod.get("status") or {}).get("podIPs") or ()
        if one.get("ip")
    ]
    return [str(one) for one in found if one.version == version]


def port_of(pod: Document, service_port: Mapping[str, Any]) -> int | None:
    """Return the port of a pod that a port of a service means; None if it has none."""
    target = service_port.get("targetPort")
    if not isinstance(target, str):
        return target if target is not None else service_port.get("port")
    spec = pod["spec"]
    sidecars = [
        one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"
    ]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            is_meant = port.get("name") == target
            if is_meant and port.get("protocol", "TCP") == service_port.get("protocol", "TCP"):
                return int(port["containerPort"])
    return None


def ports_of(pod: Document, service: Document) -> list[Document]:
    """Return the ports of a service as a pod has them, without those that it has not."""
    found: list[Document] = []
    for one in service["spec"].get("ports") or ():
        number = port_of(pod, one)
        if number is None:
            continue
        port: Document = {"name": one.get("name") or "", "port": number}
        port["protocol"] = one.get("protocol") or "TCP"
        if one.get("appProtocol") is not None:
            port["appProtocol"] = one["appProtocol"]
        found.append(port)
    return found


def _labelled(key: str, pod: Document) -> tuple[str, ...]:
    value = labels_of(pod).get(key)
    return () if value is None else (f"{namespace_of(pod)}/{value}",)


def _selects(selector: Selector, pod: Document | None) -> bool:
    return pod is not None and selector.matches(labels_of(pod))


def _differences(old: Document | None, new: Document | None) -> tuple[bool, bool]:
    """Return whether a change matters to where a service leads, and to which services do."""
    # Parity: controller_utils.go podEndpointsChanged, v1.36.
    if old is None or new is None:
        # Most pods have no address when they come, nor are they ready when they go.
        found = new or old
        return found is not None and is_endpoint(found, include_terminating=True), False
    matters = (
        old["metadata"].get("deletionTimestamp") != new["metadata"].get("deletionTimestamp")
        or is_ready(old) != is_ready(new)
        or _seen(old) != _seen(new)
    )
    changes_services = labels_of(old) != labels_of(new) or any(
        old["spec"].get(part) != new["spec"].get(part) for part in ("hostname", "subdomain")
    )
    return matters, changes_services


def _seen(pod: Document) -> tuple[object, ...]:
    status = pod.get("status") or {}
    return (status.get("podIPs"), status.get("phase") in ("Failed", "Succeeded"))
