"""Strategies of NetworkPolicy, IngressClass, Ingress and EndpointSlice.

Upstream: pkg/apis/{networking,discovery}/validation/validation.go and v1/defaults.go
"""

from __future__ import annotations

import re

from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.cluster.apiserver.kinds.checks import (
    Address,
    check_cidr,
    check_dns_label,
    check_ip,
    parse_cidr_sloppily,
    parse_ip_sloppily,
    port_name_problems,
    port_number_problems,
)
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector
from kubesched.cluster.apiserver.kinds.workload_rules import check_immutable, part_of, set_default
from kubesched.cluster.apiserver.names import (
    dns_1035_problems,
    path_segment_problems,
    subdomain_problems,
)
from kubesched.cluster.apiserver.strategy import Request, Strategy

_NETWORKING = "networking.k8s.io"
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"


def networking_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of networking.k8s.io and discovery.k8s.io."""
    return {
        (_NETWORKING, "networkpolicies"): NetworkPolicyStrategy(),
        (_NETWORKING, "ingressclasses"): IngressClassStrategy(),
        (_NETWORKING, "ingresses"): IngressStrategy(),
        ("discovery.k8s.io", "endpointslices"): EndpointSliceStrategy(),
    }


class NetworkPolicyStrategy(Strategy):
    """Strategy of network policies."""

    has_status = False

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        for direction in ("ingress", "egress"):
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    set_default(port, "protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        spec, out = document.get("spec") or {}, []  # type: ignore[var-annotated]
        check_label_selector(spec.get("podSelector"), "spec.podSelector", out)
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                path = f"spec.{direction}[{index}]"
                for place, port in enumerate(rule.get("ports") or ()):
                    _check_policy_port(port, f"{path}.ports[{place}]", out)
                for place, peer in enumerate(rule.get(peers) or ()):
                    _check_peer(peer, f"{path}.{peers}[{place}]", out)
        types, known = spec.get("policyTypes") or [], ["Ingress", "Egress"]
        if len(types) > len(known):
            text = "may not specify more than two policyTypes"
            out.append(invalid("spec.policyTypes", types, text))
            return out
        out.extend(
            not_supported(f"spec.policyTypes[{index}]", kind, known)
            for index, kind in enumerate(types)
            if kind not in known
        )
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)


def _check_policy_port(port: Document, path: str, out: list[Problem]) -> None:
    protocol = port.get("protocol")
    if protocol is not None and protocol not in _PROTOCOLS:
        out.append(not_supported(f"{path}.protocol", protocol, ["TCP", "UDP", "SCTP"]))
    number, end, end_path = port.get("port"), port.get("endPort"), f"{path}.endPort"
    if number is None:
        if end is not None:
            text = "may not be specified when `port` is not specified"
            out.append(invalid(end_path, end, text))
    elif isinstance(number, str):
        if end is not None:
            text = "may not be specified when `port` is non-numeric"
            out.append(invalid(end_path, end, text))
        out.extend(invalid(f"{path}.port", number, text) for text in port_name_problems(number))
    else:
        out.extend(invalid(f"{path}.port", number, text) for text in port_number_problems(number))
        if end is not None:
            if end < number:
                # Parity: upstream's error shows port, not endPort.
                out.append(invalid(end_path, number, "must be greater than or equal to `port`"))
            out.extend(invalid(end_path, end, text) for text in port_number_problems(end))


def _check_peer(peer: Document, path: str, out: list[Problem]) -> None:
    selectors = [one for one in ("podSelector", "namespaceSelector") if peer.get(one) is not None]
    for field in selectors:
        check_label_selector(peer[field], f"{path}.{field}", out)
    block = peer.get("ipBlock")
    if block is not None:
        _check_block(block, f"{path}.ipBlock", out)
        if selectors:
            text = "may not specify both ipBlock and another peer"
            out.append(forbidden_field(path, text))
    elif not selectors:
        out.append(required(path, "must specify a peer"))


def _check_block(block: Document, path: str, out: list[Problem]) -> None:
    whole = block.get("cidr") or ""
    if not whole:
        out.append(required(f"{path}.cidr"))
        return
    check_cidr(whole, f"{path}.cidr", out)
    outer = parse_cidr_sloppily(whole)
    for index, text in enumerate(block.get("except") or ()):
        child = f"{path}.except[{index}]"
        check_cidr(text, child, out)
        inner = parse_cidr_sloppily(text)
        if outer is not None and inner is not None and not _is_inside(inner, outer):
            out.append(invalid(child, text, "must be a strict subset of `cidr`"))


def _is_inside(inner: tuple[Address, int], outer: tuple[Address, int]) -> bool:
    (address, length), (base, base_length) = inner, outer
    if address.version != base.version or base_length >= length:
        return False
    shift = base.max_prefixlen - base_length
    return int(address) >> shift == int(base) >> shift


class IngressClassStrategy(Strategy):
    """Strategy of ingress classes."""

    has_status = False

    def default(self, document: Document) -> None:
        parameters = dig(document, "spec", "parameters")
        if parameters is not None:
            set_default(parameters, "scope", "Cluster")

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        controller = dig(document, "spec", "controller") or ""
        _check_prefixed_path(controller, "spec.controller", out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        path = ("spec", "controller")
        check_immutable(dig(new, *path), dig(old, *path), "spec.controller", out)
        return [*out, *self.validate_create(new, request)]


def _check_prefixed_path(value: str, path: str, out: list[Problem]) -> None:
    # Parity: apimachinery/pkg/util/validation IsDomainPrefixedPath, v1.36
    if not value:
        out.append(required(path))
        return
    domain, slash, rest = value.partition("/")
    if not slash or not domain or not rest:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        out.append(invalid(path, value, text))
        return
    out.extend(invalid(path, domain, text) for text in subdomain_problems(domain))


class IngressStrategy(Strategy):
    """Strategy of ingresses."""

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        spec, out = document.get("spec") or {}, []
        rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
        if not rules and backend is None:
            text = "either `defaultBackend` or `rules` must be specified"
            out.append(invalid("spec", spec.get("rules"), text))
        if backend is not None:
            _check_backend(backend, "spec.defaultBackend", out)
        for index, rule in enumerate(rules):
            _check_ingress_rule(rule, f"spec.rules[{index}]", out)
        for index, tls in enumerate(spec.get("tls") or ()):
            for place, host in enumerate(tls.get("hosts") or ()):
                _check_host(host, f"spec.tls[{index}].hosts[{place}]", out)
            name = tls.get("secretName") or ""
            if name:
                path = f"spec.tls[{index}].secretName"
                out.extend(invalid(path, name, text) for text in subdomain_problems(name))
        name = spec.get("ingressClassName")
        if name is not None:
            path = "spec.ingressClassName"
            out.extend(invalid(path, name, text) for text in subdomain_problems(name))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)


def _check_host(host: str, path: str, out: list[Problem]) -> None:
    if "*" not in host:
        out.extend(invalid(path, host, text) for text in subdomain_problems(host))
    elif not re.fullmatch(_WILDCARD, host):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS "
            "subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and "
            "end with an alphanumeric character (e.g. '*.example.com', regex used for validation "
            f"is '{_WILDCARD}')"
        )
        out.append(invalid(path, host, text))


def _check_ingress_rule(rule: Document, path: str, out: list[Problem]) -> None:
    host = rule.get("host") or ""
    if host:
        if parse_ip_sloppily(host) is not None:
            out.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        _check_host(host, f"{path}.host", out)
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or []
    if not paths:
        out.append(required(f"{path}.http.paths"))
    for index, one in enumerate(paths):
        _check_ingress_path(one, f"{path}.http.paths[{index}]", out)


def _check_ingress_path(one: Document, path: str, out: list[Problem]) -> None:
    kind, text = one.get("pathType"), one.get("path") or ""
    if kind is None:
        out.append(required(f"{path}.pathType", "pathType must be specified"))
        return
    is_strict = kind in {"Exact", "Prefix"}
    if kind not in _PATH_TYPES:
        out.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (is_strict or text):
        out.append(invalid(f"{path}.path", text, "must be an absolute path"))
    if is_strict:
        out.extend(
            invalid(f"{path}.path", text, f"must not contain '{bad}'")
            for bad in _BAD_SEQUENCES
            if bad in text
        )
        out.extend(
            invalid(f"{path}.path", text, f"cannot end with '{bad}'")
            for bad in _BAD_ENDS
            if text.endswith(bad)
        )
    _check_backend(one.get("backend") or {}, f"{path}.backend", out)


def _check_backend(backend: Document, path: str, out: list[Problem]) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        out.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        for field in ("kind", "name"):
            value = resource.get(field) or ""
            child = f"{path}.resource.{field}"
            if not value:
                out.append(required(child))
            out.extend(invalid(child, value, text) for text in path_segment_problems(value))
    elif service is not None:
        _check_service_backend(service, path, out)
    else:
        out.append(invalid(path, "", "resource or service backend is required"))


def _check_service_backend(service: Document, path: str, out: list[Problem]) -> None:
    name, port = service.get("name") or "", service.get("port") or {}
    if not name:
        out.append(required(f"{path}.service.name"))
    else:
        child = f"{path}.service.name"
        out.extend(invalid(child, name, text) for text in dns_1035_problems(name))
    port_name, number = port.get("name") or "", port.get("number") or 0
    child = f"{path}.service.port"
    if port_name and number:
        out.append(invalid(path, "", "cannot set both port name & port number"))
    elif port_name:
        out.extend(
            invalid(f"{child}.name", port_name, text) for text in port_name_problems(port_name)
        )
    elif number:
        out.extend(
            invalid(f"{child}.number", number, text) for text in port_number_problems(number)
        )
    else:
        out.append(required(path, "port name or number is required"))


class EndpointSliceStrategy(Strategy):
    """Strategy of endpoint slices."""

    has_status = False

    def default(self, document: Document) -> None:
        for port in document.get("ports") or ():
            set_default(port, "name", "")
            set_default(port, "protocol", "TCP")

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        kind, kinds = document.get("addressType") or "", ["FQDN", "IPv4", "IPv6"]
        if not kind:
            out.append(required("addressType"))
        elif kind not in kinds:
            out.append(not_supported("addressType", kind, kinds))
        _check_ports(document.get("ports") or [], out)
        endpoints = document.get("endpoints") or []
        if len(endpoints) > 1000:
            out.append(too_many("endpoints", len(endpoints), 1000))
            return out
        for index, endpoint in enumerate(endpoints):
            path, addresses = f"endpoints[{index}].addresses", endpoint.get("addresses") or []
            if not addresses:
                out.append(required(path, "must contain at least 1 address"))
            elif len(addresses) > 100:
                out.append(too_many(path, len(addresses), 100))
            if kind in {"IPv4", "IPv6"}:
                for place, address in enumerate(addresses):
                    check_ip(address, f"{path}[{place}]", out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = self.validate_create(new, request)
        check_immutable(new.get("addressType"), old.get("addressType"), "addressType", out)
        return out


def _check_ports(ports: list[Document], out: list[Problem]) -> None:
    names: list[str] = []
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name") or ""
        if name:
            check_dns_label(name, f"{path}.name", out)
        if name in names:
            out.append(duplicate(f"{path}.name", name))
        names.append(name)
        if port.get("protocol") not in _PROTOCOLS:
            out.append(not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
        number = port.get("port")
        if number is not None:
            out.extend(
                invalid(f"{path}.port", number, text) for text in port_number_problems(number)
            )
