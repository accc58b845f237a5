"""How the endpoints of a service are spread over slices.

Owns which slices are made, changed and deleted for which endpoints: as few changes as possible,
and no slice with too many. Never reads or writes anything.
Upstream: staging/src/k8s.io/endpointslice/{reconciler,utils}.go, trafficdist/trafficdist.go

Differs: hints come from spec.trafficDistribution alone, not from the older annotation
service.kubernetes.io/topology-mode, which weighs zones by the CPUs of their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.client.cached.documents import (
    Document,
    controller_ref,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from kubesched.controllers.service_pods import (
    HEADLESS,
    addresses_of,
    hostname_of,
    is_endpoint,
    is_headless,
    ports_of,
)

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
ENDPOINTS_MAX: Final = 100
_ZONE: Final = "topology.kubernetes.io/zone"
_CLOSE: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_NAME_MAX: Final = 253


@dataclass(slots=True)
class SlicePlan:
    """What has to be written."""

    create: list[Document] = field(default_factory=list)
    update: list[Document] = field(default_factory=list)
    delete: list[Document] = field(default_factory=list)
    missing_nodes: list[str] = field(default_factory=list)
    """The nodes of pods that were left out because nobody knows them."""


@dataclass(slots=True)
class _Group:
    """The endpoints that have the same ports."""

    ports: list[Document]
    endpoints: dict[tuple[Any, ...], Document] = field(default_factory=dict)


def plan_slices(
    service: Document,
    pods: Iterable[Document],
    slices: Iterable[Document],
    nodes: Mapping[str, Document | None],
) -> SlicePlan:
    """Return what makes of the slices there are those that a service should have."""
    plan = SlicePlan()
    listed, known = list(pods), list(slices)
    families = families_of(service)
    plan.delete += [one for one in known if one.get("addressType") not in families]
    for family in families:
        own = [one for one in known if one.get("addressType") == family]
        _plan_family(plan, service, family, _groups(plan, service, family, listed, nodes), own)
    return plan


def families_of(service: Document) -> list[str]:
    """Return the families of addresses that a service has."""
    spec = service["spec"]
    if found := spec.get("ipFamilies"):
        return list(found)
    address = spec.get("clusterIP")
    if address and address != "None":
        return ["IPv6" if ":" in address else "IPv4"]
    return ["IPv4", "IPv6"]


def _groups(
    plan: SlicePlan,
    service: Document,
    family: str,
    pods: list[Document],
    nodes: Mapping[str, Document | None],
) -> dict[bytes, _Group]:
    groups: dict[bytes, _Group] = {}
    for pod in pods:
        if not is_endpoint(pod, include_terminating=True):
            continue
        ports = ports_of(pod, service)
        group = groups.setdefault(_port_key(ports), _Group(ports))
        node_name = pod["spec"].get("nodeName", "")
        node = nodes.get(node_name)
        if node is None and not service["spec"].get("publishNotReadyAddresses"):
            plan.missing_nodes.append(node_name)
            continue
        endpoint = endpoint_of(pod, node, service, family)
        if endpoint["addresses"]:
            group.endpoints[_endpoint_key(endpoint)] = endpoint
    return groups


def endpoint_of(pod: Document, node: Document | None, service: Document, family: str) -> Document:
    """Return a pod as an endpoint."""
    # Parity: utils.go podToEndpoint, v1.36: who is going is not ready, but may serve still.
    is_serving, is_going = is_ready(pod), is_terminating(pod)
    publishes_all = bool(service["spec"].get("publishNotReadyAddresses"))
    ready = publishes_all or (is_serving and not is_going)
    endpoint: Document = {
        "addresses": addresses_of(pod, family),
        "conditions": {"ready": ready, "serving": is_serving, "terminating": is_going},
    }
    if hostname := hostname_of(pod, service):
        endpoint["hostname"] = hostname
    endpoint["targetRef"] = {
        "kind": "Pod",
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "uid": uid_of(pod),
    }
    if node_name := pod["spec"].get("nodeName"):
        endpoint["nodeName"] = node_name
    if node is not None and (zone := labels_of(node).get(_ZONE)):
        endpoint["zone"] = zone
    hints = _hints(endpoint, service["spec"].get("trafficDistribution"))
    if hints:
        endpoint["hints"] = hints
    return endpoint


def _hints(endpoint: Document, distribution: str | None) -> Document:
    """Return from where an endpoint is best used."""
    hints: Document = {}
    if distribution not in _CLOSE or not endpoint["conditions"]["ready"]:
        return hints
    if "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if "nodeName" in endpoint and distribution == "PreferSameNode":
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _plan_family(
    plan: SlicePlan,
    service: Document,
    family: str,
    groups: dict[bytes, _Group],
    slices: list[Document],
) -> None:
    # Parity: reconciler.go reconcileByAddressType, v1.36.
    found = SlicePlan()
    by_ports: dict[bytes, list[Document]] = {}
    for one in slices:
        if _is_owned(one, service):
            by_ports.setdefault(_port_key(one.get("ports") or []), []).append(one)
        else:
            found.delete.append(one)
    for key, group in groups.items():
        _plan_group(found, service, family, group, by_ports.pop(key, []))
    found.delete += [one for left in by_ports.values() for one in left]
    if len(found.delete) == len(slices) and not found.create:
        _plan_placeholder(found, service, family)
    _reuse(found, service)
    plan.create += found.create
    plan.update += found.update
    plan.delete += found.delete


def _plan_group(
    plan: SlicePlan, service: Document, family: str, group: _Group, slices: list[Document]
) -> None:
    """Put endpoints where they are already, then into what changes anyway, then elsewhere."""
    # Parity: reconciler.go reconcileByPortMapping, v1.36.
    left = dict(group.endpoints)
    changed: list[Document] = []
    unchanged: list[Document] = []
    for one in slices:
        before = one.get("endpoints") or []
        kept = [left.pop(key) for end in before if (key := _endpoint_key(end)) in left]
        labels = _labels(service)
        if before and not kept:
            plan.delete.append(one)
        elif kept != before or labels != labels_of(one):
            metadata = {**one["metadata"], "labels": labels}
            changed.append({**one, "metadata": metadata, "endpoints": kept})
        else:
            unchanged.append(one)
    for one in sorted(changed, key=lambda one: -len(one["endpoints"])):
        _fill(one, left)
    while left:
        room = _with_room(unchanged, len(left))
        if room is None:
            made = _new_slice(service, family, group.ports)
            plan.create.append(made)
        else:
            unchanged.remove(room)
            made = {**room, "endpoints": list(room.get("endpoints") or [])}
            changed.append(made)
        _fill(made, left)
    plan.update += changed


def _fill(one: Document, left: dict[tuple[Any, ...], Document]) -> None:
    while left and len(one["endpoints"]) < ENDPOINTS_MAX:
        one["endpoints"].append(left.pop(next(iter(left))))


def _with_room(slices: list[Document], number: int) -> Document | None:
    """Return the slice that is fullest afterwards, if one takes them all."""
    fitting = [one for one in slices if len(one.get("endpoints") or ()) + number <= ENDPOINTS_MAX]
    return max(fitting, key=lambda one: len(one.get("endpoints") or ()), default=None)


def _plan_placeholder(plan: SlicePlan, service: Document, family: str) -> None:
    """Keep one empty slice, which says that there is nothing."""
    placeholder = _new_slice(service, family, [])
    if len(plan.delete) == 1:
        only = plan.delete[0]
        is_one = not only.get("endpoints") and not only.get("ports") and _is_owned(only, service)
        if is_one and labels_of(only) == placeholder["metadata"]["labels"]:
            plan.delete.clear()
            return
    plan.create.append(placeholder)


def _reuse(plan: SlicePlan, service: Document) -> None:
    """Change a slice instead of deleting it and making another."""
    # Parity: reconciler.go finalize, v1.36.
    for old in list(plan.delete):
        if not plan.create:
            return
        if _is_owned(old, service):
            made = plan.create.pop()
            plan.delete.remove(old)
            metadata = {**old["metadata"], "labels": made["metadata"]["labels"]}
            plan.update.append({**made, "metadata": metadata})


def _new_slice(service: Document, family: str, ports: list[Document]) -> Document:
    name = name_of(service)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name}-" if len(name) < _NAME_MAX else name,
            "namespace": namespace_of(service),
            "labels": _labels(service),
            "ownerReferences": [controller_ref(service)],
        },
        "addressType": family,
        "ports": ports,
        "endpoints": [],
    }


def _labels(service: Document) -> dict[str, str]:
    reserved = (SERVICE_NAME, MANAGED_BY, HEADLESS)
    labels = {key: value for key, value in labels_of(service).items() if key not in reserved}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: name_of(service), MANAGED_BY: MANAGER}


def _is_owned(one: Document, service: Document) -> bool:
    owners = one["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid_of(service) for owner in owners)


def _port_key(ports: Iterable[Document]) -> bytes:
    return b",".join(sorted(msgspec.json.encode(port, order="sorted") for port in ports))


def _endpoint_key(endpoint: Document) -> tuple[Any, ...]:
    # Parity: endpointset.go hashEndpoint, v1.36: what may not change in one endpoint.
    target = endpoint.get("targetRef") or {}
    addresses = tuple(sorted(endpoint.get("addresses") or ()))
    return (addresses, endpoint.get("hostname"), target.get("namespace"), target.get("name"))
