"""Distribution of a service's endpoints over EndpointSlices.

Owns which slices are created, updated and deleted: as few changes as possible, and no slice above
the limit. Never reads or writes the API server.
Upstream: staging/src/k8s.io/endpointslice/{reconciler,utils}.go, trafficdist/trafficdist.go

Differs: hints come from spec.trafficDistribution alone, not from the older annotation
service.kubernetes.io/topology-mode, which weighs zones by the CPUs of their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.api.documents import (
    Document,
    controller_ref,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from kubesched.cluster.controllers.endpoints.service_pods import (
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
_TOPOLOGY_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_NAME_MAX: Final = 253


@dataclass(slots=True)
class SlicePlan:
    """Slices to write."""

    create: list[Document] = field(default_factory=list)
    update: list[Document] = field(default_factory=list)
    delete: list[Document] = field(default_factory=list)
    missing_nodes: list[str] = field(default_factory=list)
    """Nodes of pods that were left out because the node is unknown."""


@dataclass(slots=True)
class _PortGroup:
    """Endpoints with the same ports."""

    ports: list[Document]
    endpoints: dict[tuple[Any, ...], Document] = field(default_factory=dict)


def plan_slices(
    service: Document,
    pods: Iterable[Document],
    slices: Iterable[Document],
    nodes: Mapping[str, Document | None],
) -> SlicePlan:
    """Plan the changes from the existing slices to the desired ones."""
    plan = SlicePlan()
    pod_list, slice_list = list(pods), list(slices)
    families = families_of(service)
    plan.delete += [one for one in slice_list if one.get("addressType") not in families]
    for family in families:
        family_slices = [one for one in slice_list if one.get("addressType") == family]
        _plan_family(
            plan,
            service,
            family,
            _group_by_ports(plan, service, family, pod_list, nodes),
            family_slices,
        )
    return plan


def families_of(service: Document) -> list[str]:
    """Return the IP families of a service."""
    spec = service["spec"]
    if families := spec.get("ipFamilies"):
        return list(families)
    address = spec.get("clusterIP")
    if address and address != "None":
        return ["IPv6" if ":" in address else "IPv4"]
    return ["IPv4", "IPv6"]


def _group_by_ports(
    plan: SlicePlan,
    service: Document,
    family: str,
    pods: list[Document],
    nodes: Mapping[str, Document | None],
) -> dict[bytes, _PortGroup]:
    groups: dict[bytes, _PortGroup] = {}
    for pod in pods:
        if not is_endpoint(pod, include_terminating=True):
            continue
        ports = ports_of(pod, service)
        group = groups.setdefault(_port_key(ports), _PortGroup(ports))
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
    """Return the endpoint of a pod."""
    # Parity: utils.go podToEndpoint, v1.36: a terminating pod is not ready, but may be serving.
    is_serving, is_leaving = is_ready(pod), is_terminating(pod)
    publishes_all = bool(service["spec"].get("publishNotReadyAddresses"))
    ready = publishes_all or (is_serving and not is_leaving)
    endpoint: Document = {
        "addresses": addresses_of(pod, family),
        "conditions": {"ready": ready, "serving": is_serving, "terminating": is_leaving},
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
    """Return the topology hints of an endpoint."""
    hints: Document = {}
    if distribution not in _TOPOLOGY_DISTRIBUTIONS or not endpoint["conditions"]["ready"]:
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
    groups: dict[bytes, _PortGroup],
    slices: list[Document],
) -> None:
    # Parity: reconciler.go reconcileByAddressType, v1.36.
    family_plan = SlicePlan()
    by_ports: dict[bytes, list[Document]] = {}
    for one in slices:
        if _is_owned(one, service):
            by_ports.setdefault(_port_key(one.get("ports") or []), []).append(one)
        else:
            family_plan.delete.append(one)
    for key, group in groups.items():
        _plan_group(family_plan, service, family, group, by_ports.pop(key, []))
    family_plan.delete += [one for remaining in by_ports.values() for one in remaining]
    if len(family_plan.delete) == len(slices) and not family_plan.create:
        _plan_placeholder(family_plan, service, family)
    _reuse_deleted(family_plan, service)
    plan.create += family_plan.create
    plan.update += family_plan.update
    plan.delete += family_plan.delete


def _plan_group(
    plan: SlicePlan, service: Document, family: str, group: _PortGroup, slices: list[Document]
) -> None:
    """Keep endpoints in place, then fill changed slices, then use other or new slices."""
    # Parity: reconciler.go reconcileByPortMapping, v1.36.
    remaining = dict(group.endpoints)
    changed: list[Document] = []
    unchanged: list[Document] = []
    for one in slices:
        before = one.get("endpoints") or []
        kept = [remaining.pop(key) for end in before if (key := _endpoint_key(end)) in remaining]
        labels = _labels(service)
        if before and not kept:
            plan.delete.append(one)
        elif kept != before or labels != labels_of(one):
            metadata = {**one["metadata"], "labels": labels}
            changed.append({**one, "metadata": metadata, "endpoints": kept})
        else:
            unchanged.append(one)
    for one in sorted(changed, key=lambda one: -len(one["endpoints"])):
        _fill(one, remaining)
    while remaining:
        slice_with_room = _fullest_with_room(unchanged, len(remaining))
        if slice_with_room is None:
            new_slice = _new_slice(service, family, group.ports)
            plan.create.append(new_slice)
        else:
            unchanged.remove(slice_with_room)
            new_slice = {
                **slice_with_room,
                "endpoints": list(slice_with_room.get("endpoints") or []),
            }
            changed.append(new_slice)
        _fill(new_slice, remaining)
    plan.update += changed


def _fill(one: Document, remaining: dict[tuple[Any, ...], Document]) -> None:
    while remaining and len(one["endpoints"]) < ENDPOINTS_MAX:
        one["endpoints"].append(remaining.pop(next(iter(remaining))))


def _fullest_with_room(slices: list[Document], count: int) -> Document | None:
    """Return the fullest slice that has room for all; None if there is none."""
    fitting = [one for one in slices if len(one.get("endpoints") or ()) + count <= ENDPOINTS_MAX]
    return max(fitting, key=lambda one: len(one.get("endpoints") or ()), default=None)


def _plan_placeholder(plan: SlicePlan, service: Document, family: str) -> None:
    """Keep one empty slice, which says that there are no endpoints."""
    placeholder = _new_slice(service, family, [])
    if len(plan.delete) == 1:
        existing = plan.delete[0]
        is_placeholder = (
            not existing.get("endpoints")
            and not existing.get("ports")
            and _is_owned(existing, service)
        )
        if is_placeholder and labels_of(existing) == placeholder["metadata"]["labels"]:
            plan.delete.clear()
            return
    plan.create.append(placeholder)


def _reuse_deleted(plan: SlicePlan, service: Document) -> None:
    """Update a slice instead of deleting it and creating another."""
    # Parity: reconciler.go finalize, v1.36.
    for old in list(plan.delete):
        if not plan.create:
            return
        if _is_owned(old, service):
            new_slice = plan.create.pop()
            plan.delete.remove(old)
            metadata = {**old["metadata"], "labels": new_slice["metadata"]["labels"]}
            plan.update.append({**new_slice, "metadata": metadata})


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
    # Parity: endpointset.go hashEndpoint, v1.36: the identity of an endpoint.
    target = endpoint.get("targetRef") or {}
    addresses = tuple(sorted(endpoint.get("addresses") or ()))
    return (addresses, endpoint.get("hostname"), target.get("namespace"), target.get("name"))
