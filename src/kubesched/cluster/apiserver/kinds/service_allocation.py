"""Allocates cluster IPs and node ports of services.

Addresses and ports that no stored service uses are free; there is no other state.
Upstream: pkg/registry/core/service/storage/{alloc,storage}.go,
pkg/registry/core/service/{ipallocator,portallocator}
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import Problem, internal, invalid, invalid_object
from kubesched.cluster.apiserver.kinds.checks import parse_ip_sloppily
from kubesched.cluster.apiserver.kinds.service_rules import (
    check_cluster_ips,
    is_matching_prefer_dual_stack,
    needs_health_check,
    needs_node_port,
)
from kubesched.cluster.apiserver.strategy import Request

NONE = "None"


@dataclass(frozen=True, slots=True)
class ServiceRanges:
    """Ranges of cluster IPs and node ports."""

    addresses: str = "10.0.0.0/16"
    first_port: int = 30000
    last_port: int = 32767


class ServiceAllocator:
    """Allocates free cluster IPs and node ports."""

    def __init__(self, ranges: ServiceRanges) -> None:
        self._ranges = ranges
        self._network = ipaddress.IPv4Network(ranges.addresses)

    def begin_create(self, service: Document, request: Request) -> None:
        """Allocate for a new service, or reject it."""
        spec = service["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if spec.get("type") != "ExternalName":
            self._settle_families(service, None)
            self._allocate_address(service, request)
        self._allocate_ports(service, set(), request)

    def begin_update(self, new: Document, old: Document, request: Request) -> None:
        """Allocate for an updated service, or reject it."""
        spec, before = new["spec"], old["spec"]
        _keep_allocated(spec, before)
        _normalize(spec, before)
        if spec.get("type") != "ExternalName" and not is_matching_prefer_dual_stack(spec, before):
            self._settle_families(new, before)
            if before.get("type") == "ExternalName":
                self._allocate_address(new, request)
        own = {port.get("nodePort") for port in before.get("ports") or ()}
        own.add(before.get("healthCheckNodePort"))
        self._allocate_ports(new, {one for one in own if one}, request)

    def _settle_families(self, service: Document, before: Document | None) -> None:
        spec = service["spec"]
        is_free = spec.get("clusterIP") == NONE and not spec.get("selector")
        if spec.get("ipFamilyPolicy") is None:
            kept = (before or {}).get("ipFamilyPolicy")
            spec["ipFamilyPolicy"] = kept or ("RequireDualStack" if is_free else "SingleStack")
        problems: list[Problem] = []
        known = tuple((before or {}).get("clusterIPs") or ())
        check_cluster_ips(spec, known, problems)
        _reject(service, problems)
        problems = _family_problems(spec)
        _reject(service, problems)
        families = spec.get("ipFamilies") or ["IPv4"]
        spec["ipFamilies"] = families
        if is_free:
            if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
                families.append("IPv6" if families[0] == "IPv4" else "IPv4")
            return
        path = "spec.ipFamilyPolicy"
        if spec["ipFamilyPolicy"] == "RequireDualStack":
            text = "this cluster is not configured for dual-stack services"
            problems.append(invalid(path, spec["ipFamilyPolicy"], text))
        for index, family in enumerate(families):
            if family != "IPv4":
                text = "not configured on this cluster"
                problems.append(invalid(f"spec.ipFamilies[{index}]", family, text))
        _reject(service, problems)

    def _allocate_address(self, service: Document, request: Request) -> None:
        spec = service["spec"]
        listed = spec.get("clusterIPs") or []
        if listed and listed[0] == NONE:
            return
        taken = {
            address
            for one in request.reader.list("", "services")
            if (namespace_of(one), name_of(one)) != (namespace_of(service), name_of(service))
            for address in one["spec"].get("clusterIPs") or ()
        }
        if listed:
            self._take(service, listed, taken)
            return
        found = self._next_address(taken)
        if found is None:
            raise internal(
                f'failed to allocate a serviceIP for Service "{name_of(service)}": range is full'
            )
        spec["clusterIP"], spec["clusterIPs"] = found, [found]

    def _take(self, service: Document, listed: list[str], taken: set[str]) -> None:
        address = listed[0]
        parsed = parse_ip_sloppily(address)
        text = ""
        if parsed not in self._network or parsed in {
            self._network.network_address,
            self._network.broadcast_address,
        }:
            text = "the provided network does not match the current range"
        elif address in taken:
            text = "provided IP is already allocated"
        if text:
            reason = f"failed to allocate IP {address}: {text}"
            _reject(service, [invalid("spec.clusterIPs", listed, reason)])

    def _next_address(self, taken: set[str]) -> str | None:
        # The lower part of the range is reserved for explicitly requested addresses.
        size = self._network.num_addresses
        offset = min(max(16, size // 16), 256)
        for position in [*range(offset, size - 1), *range(1, offset)]:
            address = str(self._network[position])
            if address not in taken:
                return address
        return None

    def _allocate_ports(self, service: Document, own: set[int], request: Request) -> None:
        spec = service["spec"]
        is_health_path = needs_health_check(spec)
        has_ports = spec.get("type") in {"NodePort", "LoadBalancer"}
        if not is_health_path and not has_ports:
            return
        taken = self._taken_ports(service, request) | own
        # Parity: upstream's dry run ignores the range of ports.
        checks_range = not request.is_dry_run
        if has_ports:
            self._allocate_node_ports(service, own, taken, checks_range=checks_range)
        if is_health_path:
            number = spec.get("healthCheckNodePort")
            if not number:
                spec["healthCheckNodePort"] = self._next_port(taken)
            elif number not in own and (
                text := self._port_problem(number, taken, checks_range=checks_range)
            ):
                raise internal(
                    f"failed to allocate requested HealthCheck NodePort {number}: {text}"
                )

    def _allocate_node_ports(
        self, service: Document, own: set[int], taken: set[int], *, checks_range: bool
    ) -> None:
        spec = service["spec"]
        chosen: dict[int, int] = {}
        allocates = needs_node_port(spec)
        requested = {
            port.get("port"): port["nodePort"]
            for port in reversed(spec.get("ports") or [])
            if port.get("nodePort")
        }
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort") or 0
            if not number and not allocates:
                continue
            same = chosen.get(port.get("port") or 0)
            node_port = number or same or requested.get(port.get("port")) or 0
            is_new = node_port and node_port not in own and node_port != same
            text = is_new and self._port_problem(node_port, taken, checks_range=checks_range)
            if text:
                path = f"spec.ports[{index}].nodePort"
                _reject(service, [invalid(path, node_port, text)])
            node_port = node_port or self._next_port(taken)
            port["nodePort"] = node_port
            taken.add(node_port)
            own.add(node_port)
            chosen.setdefault(port.get("port") or 0, node_port)

    def _taken_ports(self, service: Document, request: Request) -> set[int]:
        taken: set[int] = set()
        for one in request.reader.list("", "services"):
            if (namespace_of(one), name_of(one)) == (namespace_of(service), name_of(service)):
                continue
            taken.update(port.get("nodePort") or 0 for port in one["spec"].get("ports") or ())
            taken.add(one["spec"].get("healthCheckNodePort") or 0)
        return taken

    def _port_problem(self, number: int, taken: set[int], *, checks_range: bool) -> str:
        first, last = self._ranges.first_port, self._ranges.last_port
        if checks_range and not first <= number <= last:
            text = f"The range of valid ports is {first}-{last}"
            return f"provided port is not in the valid range. {text}"
        return "provided port is already allocated" if number in taken else ""

    def _next_port(self, taken: set[int]) -> int:
        first, last = self._ranges.first_port, self._ranges.last_port
        offset = min(max(16, (last - first + 1) // 32), 128)
        numbers: list[int] = [*range(first + offset, last + 1), *range(first, first + offset)]
        for number in numbers:
            if number not in taken:
                taken.add(number)
                return number
        raise internal("failed to allocate a nodePort: range is full")


def _reject(service: Document, problems: list[Problem]) -> None:
    if problems:
        raise invalid_object("", "Service", name_of(service), problems)


def _family_problems(spec: Document) -> list[Problem]:
    problems: list[Problem] = []
    policy, listed = spec["ipFamilyPolicy"], spec.get("clusterIPs") or []
    families = spec.get("ipFamilies") or []
    path = "spec.ipFamilyPolicy"
    if policy == "SingleStack":
        end = "are specified"
        start = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
        if len(listed) == 2:
            problems.append(invalid(path, policy, f"{start} cluster IPs {end}"))
        if len(families) == 2:
            problems.append(invalid(path, policy, f"{start} IP families {end}"))
    for index, address in enumerate(listed):
        if address == NONE:
            break
        if index < len(families):
            continue
        parsed = parse_ip_sloppily(address)
        if parsed is not None and parsed.version == 6:
            text = "IPv6 is not configured on this cluster"
            problems.append(invalid(f"spec.clusterIPs[{index}]", listed, text))
        else:
            families = [*families, "IPv4"]
            spec["ipFamilies"] = families
    return problems


def _keep_allocated(spec: Document, before: Document) -> None:
    """Copy omitted fields from the old service."""
    if "ExternalName" not in {spec.get("type"), before.get("type")}:
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = list(before["clusterIPs"])
    if needs_node_port(spec) and needs_node_port(before):
        now = {port.get("nodePort") for port in spec.get("ports") or ()}
        known = {port.get("name") or "": port.get("nodePort") for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = known.get(port.get("name") or "")
            if not port.get("nodePort") and kept and kept not in now:
                port["nodePort"] = kept
    number = before.get("healthCheckNodePort")
    keeps_check = needs_health_check(spec) and needs_health_check(before)
    if keeps_check and number and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = number


def _normalize(spec: Document, before: Document) -> None:
    """Keep clusterIP and clusterIPs consistent when a client changes one of them."""
    address, old = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    listed, old_listed = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if address == old:
        if old_listed and not listed:
            spec["clusterIPs"] = list(old_listed)
        return
    if listed != old_listed:
        return
    if address:
        spec["clusterIPs"] = [address]
    else:
        spec.pop("clusterIPs", None)
