"""Strategy of Endpoints.

Upstream: pkg/registry/core/endpoint/strategy.go,
pkg/apis/core/validation/validation.go ValidateEndpoints
"""

from __future__ import annotations

import ipaddress

from kubesched.cluster.apiserver.documents import Document, labels_of
from kubesched.cluster.apiserver.errors import Problem, invalid, required
from kubesched.cluster.apiserver.kinds.checks import (
    check_dns_label,
    check_ip,
    check_qualified_name,
    check_subdomain,
    ip_warnings,
    parse_ip_sloppily,
    port_number_problems,
)
from kubesched.cluster.apiserver.kinds.containers import check_protocol
from kubesched.cluster.apiserver.strategy import Request, Strategy

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"


class EndpointsStrategy(Strategy):
    """Strategy of Endpoints."""

    bumps_generation = False
    has_status = False
    allows_create_on_update = True

    def default(self, document: Document) -> None:
        """Default the protocols."""
        for subset in document.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate addresses and ports; return the errors."""
        out: list[Problem] = []
        for index, subset in enumerate(document.get("subsets") or ()):
            _check_subset(subset, f"subsets[{index}]", out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of addresses and ports."""
        if new.get("subsets") == old.get("subsets"):
            return []
        return self.validate_create(new, request)

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about addresses."""
        if labels_of(document).get(_MANAGED_BY) == "endpoint-controller":
            return []
        return [
            text
            for index, subset in enumerate(document.get("subsets") or ())
            for kind in ("addresses", "notReadyAddresses")
            for position, address in enumerate(subset.get(kind) or ())
            for text in ip_warnings(
                address.get("ip") or "", f"subsets[{index}].{kind}[{position}].ip"
            )
        ]


def _check_subset(subset: Document, path: str, out: list[Problem]) -> None:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        out.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    for kind in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(kind) or ()):
            here, value = f"{path}.{kind}[{index}]", address.get("ip") or ""
            check_ip(value, f"{here}.ip", out)
            if address.get("hostname"):
                check_dns_label(address["hostname"], f"{here}.hostname", out)
            if address.get("nodeName") is not None:
                check_subdomain(address["nodeName"], f"{here}.nodeName", out)
            check_endpoint_ip(value, f"{here}.ip", out)
    ports = subset.get("ports") or []
    for index, port in enumerate(ports):
        _check_port(port, f"{path}.ports[{index}]", out, needs_name=len(ports) > 1)


def _check_port(port: Document, path: str, out: list[Problem], *, needs_name: bool) -> None:
    if port.get("name"):
        check_dns_label(port["name"], f"{path}.name", out)
    elif needs_name:
        out.append(required(f"{path}.name"))
    number = port.get("port") or 0
    out.extend(invalid(f"{path}.port", number, text) for text in port_number_problems(number))
    check_protocol(port.get("protocol") or "", f"{path}.protocol", out)
    if port.get("appProtocol") is not None:
        check_qualified_name(port["appProtocol"], f"{path}.appProtocol", out)


_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def check_endpoint_ip(value: str, path: str, out: list[Problem]) -> None:
    """Validate the IP address of an endpoint, adding errors."""
    found = parse_ip_sloppily(value)
    if found is None:
        out.append(invalid(path, value, "must be a valid IP address"))
        return
    if found.is_unspecified:
        out.append(invalid(path, value, f"may not be unspecified ({value})"))
    if found.is_loopback:
        text = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        out.append(invalid(path, value, text))
    if found.is_link_local:
        text = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        out.append(invalid(path, value, text))
    if any(found in network for network in _MULTICAST if network.version == found.version):
        text = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        out.append(invalid(path, value, text))
