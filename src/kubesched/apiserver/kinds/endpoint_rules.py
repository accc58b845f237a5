"""Rules for addresses that traffic is sent to.

Owns what is wrong with an endpoint's address.
Upstream: pkg/apis/core/validation/validation.go ValidateEndpointIP
"""

from __future__ import annotations

import ipaddress

from kubesched.apiserver.errors import Problem, invalid
from kubesched.apiserver.kinds.checks import parse_ip_sloppily

_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def check_endpoint_ip(value: str, path: str, out: list[Problem]) -> None:
    """Note what is wrong with an address that traffic is sent to."""
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
