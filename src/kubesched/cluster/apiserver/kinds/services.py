"""Strategy of Services.

Upstream: pkg/registry/core/service/strategy.go, pkg/registry/core/service/storage/storage.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import (
    check_ip,
    cidr_warnings,
    ip_warnings,
    parse_ip_sloppily,
)
from kubesched.cluster.apiserver.kinds.service_allocation import ServiceAllocator, ServiceRanges
from kubesched.cluster.apiserver.kinds.service_rules import (
    check_service,
    check_service_change,
    is_externally_accessible,
    needs_health_check,
)
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_HINTS = "service.kubernetes.io/topology-aware-hints"


class ServiceStrategy(Strategy):
    """Strategy of services."""

    bumps_generation = False
    allows_create_on_update = True
    returns_deleted_object = True

    def __init__(self, ranges: ServiceRanges | None = None) -> None:
        self._allocator = ServiceAllocator(ranges or ServiceRanges())

    def default(self, document: Document) -> None:
        """Set the defaults of a service."""
        spec = document.setdefault("spec", {})
        _default_affinity(spec)
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port") or 0
        _default_traffic(document, spec)

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Validate a name; return the errors."""
        return label_problems(name, is_prefix=is_prefix)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Allocate the addresses and ports of the service."""
        document["status"] = {"loadBalancer": {}}
        if document["spec"].get("type") == "ExternalName":
            document["spec"].pop("internalTrafficPolicy", None)
        self._allocator.begin_create(document, request)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Keep, allocate and release cluster IPs and node ports."""
        self._allocator.begin_update(new, old, request)
        _drop_for_type(new, old)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a service; return the errors."""
        out: list[Problem] = []
        check_service(document, None, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a service."""
        out: list[Problem] = []
        check_service_change(new["spec"], old["spec"], out)
        check_service(new, old, out)
        return out

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        return _status_problems(new, old)

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a service."""
        return _warnings(document)

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        spec = document.get("spec") or {}
        return {
            "metadata.name": name_of(document),
            "metadata.namespace": namespace_of(document),
            "spec.clusterIP": spec.get("clusterIP") or "",
            "spec.type": spec.get("type") or "",
        }


def _default_traffic(document: Document, spec: Document) -> None:
    if is_externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] in _WITH_ADDRESS:
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        for ingress in _ingresses(document):
            if ingress.get("ip") and ingress.get("ipMode") is None:
                ingress["ipMode"] = "VIP"


def _ingresses(service: Document) -> list[Document]:
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    return balancer.get("ingress") or []


def _default_affinity(spec: Document) -> None:
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}


def _drop_for_type(new: Document, old: Document) -> None:
    spec, before = new["spec"], old["spec"]
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        for names in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if all(spec.get(name) == before.get(name) for name in names):
                for name in names:
                    spec.pop(name, None)
    _drop_node_ports(spec, before)
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_if_same(spec, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_if_same(spec, before, "allocateLoadBalancerNodePorts")
        _drop_if_same(spec, before, "loadBalancerClass")
    if is_externally_accessible(before) and not is_externally_accessible(spec):
        _drop_if_same(spec, before, "externalTrafficPolicy")
    if spec.get("type") == "ExternalName":
        # Parity: storage.go defaultOnReadInternalTrafficPolicy, v1.36
        spec.pop("internalTrafficPolicy", None)
    if spec.get("type") != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}


def _drop_node_ports(spec: Document, before: Document) -> None:
    has_ports = {"NodePort", "LoadBalancer"}
    if before.get("type") not in has_ports or spec.get("type") in has_ports:
        return
    now = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    were = {port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")}
    if were >= now:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)


def _drop_if_same(spec: Document, before: Document, name: str) -> None:
    if spec.get(name) == before.get(name):
        spec.pop(name, None)


def _status_problems(new: Document, old: Document) -> list[Problem]:
    out: list[Problem] = []
    path = "status.loadBalancer.ingress"
    ingresses = _ingresses(new)
    if new["spec"].get("type") != "LoadBalancer":
        if ingresses:
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            out.append(forbidden_field(path, text))
        return out
    known = tuple(ingress["ip"] for ingress in _ingresses(old) if ingress.get("ip"))
    for index, ingress in enumerate(ingresses):
        _check_ingress(ingress, known, f"{path}[{index}]", out)
    return out


def _check_ingress(
    ingress: Document, known: tuple[str, ...], child: str, out: list[Problem]
) -> None:
    address, mode = ingress.get("ip"), ingress.get("ipMode")
    if address:
        check_ip(address, f"{child}.ip", out, known)
    if mode is None:
        if address:
            out.append(required(f"{child}.ipMode", "must be specified when `ip` is set"))
    elif not address:
        text = "may not be specified when `ip` is not set"
        out.append(forbidden_field(f"{child}.ipMode", text))
    elif mode not in {"VIP", "Proxy"}:
        out.append(not_supported(f"{child}.ipMode", mode, ["Proxy", "VIP"]))
    name = ingress.get("hostname")
    if name:
        texts = subdomain_problems(name)
        out.extend(invalid(f"{child}.hostname", name, text) for text in texts)
        if parse_ip_sloppily(name) is not None:
            text = "must be a DNS name, not an IP address"
            out.append(invalid(f"{child}.hostname", name, text))


def _warnings(service: Document) -> list[str]:
    spec = service["spec"]
    found: list[str] = []
    if _HINTS in (service["metadata"].get("annotations") or {}):
        found.append(
            f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode "
            "instead"
        )
    kind, is_headless = spec.get("type"), spec.get("clusterIP") == "None"
    is_headless = is_headless and kind == "ClusterIP"
    if spec.get("clusterIP") not in {None, "", "None"}:
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            found += ip_warnings(address, f"spec.clusterIPs[{index}]")
    if is_headless:
        found += [
            f"spec.{field} is ignored for headless services"
            for field, is_suspicious in (
                ("loadBalancerIP", bool(spec.get("loadBalancerIP"))),
                ("externalIPs", bool(spec.get("externalIPs"))),
                ("SessionAffinity", spec.get("sessionAffinity") != "None"),
            )
            if is_suspicious
        ]
    found += _outside_warnings(spec, is_headless=is_headless)
    if kind == "ExternalName" and spec.get("externalIPs"):
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def _outside_warnings(spec: Document, *, is_headless: bool) -> list[str]:
    found: list[str] = []
    kind = spec.get("type")
    for index, address in enumerate(spec.get("externalIPs") or ()):
        found += ip_warnings(address, f"spec.externalIPs[{index}]")
    if spec.get("externalIPs") and not is_headless and kind != "ExternalName":
        text = "is deprecated and may no longer be implemented in some clusters"
        found.append(f"spec.externalIPs {text}")
    if spec.get("loadBalancerIP"):
        found += ip_warnings(spec["loadBalancerIP"], "spec.loadBalancerIP")
    for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        found += cidr_warnings(value, f"spec.loadBalancerSourceRanges[{index}]")
    return found
