"""Validates services.

Upstream: pkg/apis/core/validation/validation.go validateService, ValidateServiceUpdate
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import (
    check_cidr,
    check_dns_label,
    check_ip,
    check_port_or_name,
    check_qualified_name,
    check_subdomain,
    parse_ip_sloppily,
    port_number_problems,
)
from kubesched.cluster.apiserver.kinds.containers import check_protocol
from kubesched.cluster.apiserver.kinds.endpoints import check_endpoint_ip
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.kinds.selectors import check_labels

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_MAX_AFFINITY_S = 86400


def is_headless(spec: Document) -> bool:
    """Return whether a service is headless."""
    return (spec.get("clusterIPs") or []) == ["None"]


def is_externally_accessible(spec: Document) -> bool:
    """Return whether a service can be reached from outside."""
    kind = spec.get("type")
    return kind in {"LoadBalancer", "NodePort"} or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def needs_health_check(spec: Document) -> bool:
    """Return whether a service gets a health check node port."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def needs_node_port(spec: Document) -> bool:
    """Return whether a service gets node ports."""
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def is_matching_prefer_dual_stack(spec: Document, before: Document) -> bool:
    """Return whether an update leaves the addresses of a PreferDualStack service unchanged."""
    return (
        spec.get("ipFamilyPolicy") == "PreferDualStack"
        and before.get("ipFamilyPolicy") in {None, "PreferDualStack"}
        and spec.get("type") == before.get("type")
        and (spec.get("clusterIPs") or []) == (before.get("clusterIPs") or [])
        and (spec.get("ipFamilies") or []) == (before.get("ipFamilies") or [])
    )


def check_service(service: Document, old: Document | None, out: list[Problem]) -> None:
    """Validate a service, in upstream's order, adding errors."""
    spec = service["spec"]
    before = (old or {}).get("spec") or {}
    annotations = service["metadata"].get("annotations") or {}
    hints, mode = annotations.get(_HINTS), annotations.get(_MODE)
    if hints is not None and mode is not None and hints != mode:
        text = f"must match annotations[{_HINTS}] when both are specified"
        out.append(invalid(f"metadata.annotations[{_MODE}]", mode, text))
    kind = spec.get("type") or ""
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        out.append(required("spec.ports"))
    _check_for_type(spec, kind, out)
    _check_ports(spec, out)
    check_labels(spec.get("selector"), "spec.selector", out)
    _check_affinity(spec, out)
    if kind != "ExternalName":
        check_cluster_ips(spec, tuple(before.get("clusterIPs") or ()), out)
    known = tuple(before.get("externalIPs") or ())
    for index, address in enumerate(spec.get("externalIPs") or ()):
        if check_ip(address, f"spec.externalIPs[{index}]", out, known):
            check_endpoint_ip(address, f"spec.externalIPs[{index}]", out)
    if kind not in _TYPES:
        out.append(not_supported("spec.type", kind, _TYPES) if kind else required("spec.type"))
    _check_port_pairs(spec, kind, out)
    _check_source_ranges(service, old, annotations, out)
    _check_load_balancer(spec, kind, out)
    _check_traffic(spec, kind, out)


def _check_for_type(spec: Document, kind: str, out: list[Problem]) -> None:
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        out.append(invalid("spec.clusterIPs[0]", "None", text))
    if kind != "ExternalName":
        return
    text = "may not be set for ExternalName services"
    out.extend(
        forbidden_field(f"spec.{name}", text)
        for name in ("clusterIPs", "ipFamilies")
        if spec.get(name)
    )
    if spec.get("ipFamilyPolicy") is not None:
        out.append(forbidden_field("spec.ipFamilyPolicy", text))
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        check_subdomain(name, "spec.externalName", out)
    else:
        out.append(required("spec.externalName"))


def _check_ports(spec: Document, out: list[Problem]) -> None:
    ports = spec.get("ports") or []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            check_dns_label(name, f"{path}.name", out)
            if name in seen:
                out.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            out.append(required(f"{path}.name"))
        number = port.get("port") or 0
        texts = port_number_problems(number)
        out.extend(invalid(f"{path}.port", number, text) for text in texts)
        check_protocol(port.get("protocol") or "", f"{path}.protocol", out)
        check_port_or_name(port.get("targetPort"), f"{path}.targetPort", out)
        if port.get("appProtocol") is not None:
            check_qualified_name(port["appProtocol"], f"{path}.appProtocol", out)


def _check_affinity(spec: Document, out: list[Problem]) -> None:
    affinity, path = spec.get("sessionAffinity") or "", "spec.sessionAffinity"
    if affinity not in {"ClientIP", "None"}:
        known = ["ClientIP", "None"]
        out.append(not_supported(path, affinity, known) if affinity else required(path))
    config, path = spec.get("sessionAffinityConfig"), "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        text = "must not be set when session affinity is None"
        out.append(forbidden_field(path, text))
    if affinity != "ClientIP":
        return
    client = (config or {}).get("clientIP")
    timeout = (client or {}).get("timeoutSeconds")
    text = "when session affinity type is ClientIP"
    if config is None:
        out.append(required(path, text))
    elif client is None:
        out.append(required(f"{path}.clientIP", text))
    elif timeout is None:
        out.append(required(f"{path}.clientIP.timeoutSeconds", text))
    elif not 0 < timeout <= _MAX_AFFINITY_S:
        text = f"must be greater than 0 and less than {_MAX_AFFINITY_S}"
        out.append(invalid(f"{path}.clientIP.timeoutSeconds", timeout, text))


def check_cluster_ips(spec: Document, known: tuple[str, ...], out: list[Problem]) -> None:
    """Validate a service's addresses and families, adding errors."""
    path = "spec.clusterIPs"
    address, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    families = spec.get("ipFamilies") or []
    if address and not listed:
        out.append(required(path))
    elif address and listed[0] != address:
        out.append(invalid(path, listed, "first value must match `clusterIP`"))
    elif not address and listed:
        out.append(invalid(path, listed, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in {"IPv4", "IPv6"}:
            here = f"spec.ipFamilies[{index}]"
            out.append(not_supported(here, family, ["IPv4", "IPv6"]))
        if family in seen:
            out.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if policy is not None and policy not in policies:
        out.append(not_supported("spec.ipFamilyPolicy", policy, policies))
    _check_addresses(listed, families, known, path, out)


def _check_addresses(
    listed: list[str],
    families: list[str],
    known: tuple[str, ...],
    path: str,
    out: list[Problem],
) -> None:
    is_wrong = False
    for index, address in enumerate(listed):
        if index == 0 and address == "None":
            if len(listed) > 1:
                is_wrong = True
                out.append(invalid(path, listed, "'None' must be the first and only value"))
            continue
        is_wrong = not check_ip(address, f"{path}[{index}]", out, known) or is_wrong
    if len(listed) > 2:
        out.append(invalid(path, listed, "may only hold up to 2 values"))
    if is_wrong:
        return
    versions = [found.version for one in listed if (found := parse_ip_sloppily(one))]
    if len(listed) > 1 and len(set(versions)) < 2:
        text = "may specify no more than one IP for each IP family"
        out.append(invalid(path, listed, text))
    if listed == ["None"]:
        return
    for index, (version, family) in enumerate(zip(versions, families, strict=False)):
        if family in {"IPv4", "IPv6"} and f"IPv{version}" != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            out.append(invalid(f"{path}[{index}]", listed[index], text))


def _check_port_pairs(spec: Document, kind: str, out: list[Problem]) -> None:
    ports = spec.get("ports") or []
    for index, port in enumerate(ports):
        if kind == "ClusterIP" and port.get("nodePort"):
            text = "may not be used when `type` is 'ClusterIP'"
            out.append(forbidden_field(f"spec.ports[{index}].nodePort", text))
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        number = port.get("nodePort")
        if number:
            key = (port.get("protocol") or "", number)
            if key in seen:
                out.append(duplicate(f"spec.ports[{index}].nodePort", number))
            seen.add(key)
    seen = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port") or 0)
        if key in seen:
            internal = internal_form("ServicePort", {"protocol": key[0], "port": key[1]})
            out.append(duplicate(f"spec.ports[{index}]", internal))
        seen.add(key)


def _check_source_ranges(
    service: Document, old: Document | None, annotations: dict[str, str], out: list[Problem]
) -> None:
    spec = service["spec"]
    listed = spec.get("loadBalancerSourceRanges") or []
    is_balanced = spec.get("type") == "LoadBalancer"
    if listed:
        path = "spec.LoadBalancerSourceRanges"
        if not is_balanced:
            out.append(forbidden_field(path, _ONLY_LOAD_BALANCER))
        before = ((old or {}).get("spec") or {}).get("loadBalancerSourceRanges") or ()
        known = tuple(one.strip() for one in before)
        for index, value in enumerate(listed):
            check_cidr(value.strip(), f"{path}[{index}]", out, known)
        return
    text = annotations.get(_SOURCE_RANGES)
    if text is None:
        return
    path = f"metadata.annotations[{_SOURCE_RANGES}]"
    if not is_balanced:
        out.append(forbidden_field(path, _ONLY_LOAD_BALANCER))
    old_text = (((old or {}).get("metadata") or {}).get("annotations") or {}).get(_SOURCE_RANGES)
    if old_text != text and text.strip():
        for value in text.strip().split(","):
            check_cidr(value.strip(), path, out)


def _check_load_balancer(spec: Document, kind: str, out: list[Problem]) -> None:
    allocates = spec.get("allocateLoadBalancerNodePorts")
    if allocates is not None and kind != "LoadBalancer":
        path = "spec.allocateLoadBalancerNodePorts"
        out.append(forbidden_field(path, _ONLY_LOAD_BALANCER))
    if allocates is None and kind == "LoadBalancer":
        out.append(required("allocateLoadBalancerNodePorts"))
    check_load_balancer_class(spec, None, out)


def check_load_balancer_class(spec: Document, before: Document | None, out: list[Problem]) -> None:
    """Validate the class of a load balancer, adding errors."""
    path, name = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    is_balanced = spec.get("type") == "LoadBalancer"
    was_balanced = before is not None and before.get("type") == "LoadBalancer"
    old_name = (before or {}).get("loadBalancerClass")
    if is_balanced and was_balanced and name != old_name:
        out.append(invalid(path, name, "may not change once set"))
    if name is None:
        return
    if is_balanced:
        check_qualified_name(name, path, out)
    else:
        out.append(forbidden_field(path, _ONLY_LOAD_BALANCER))


def _check_traffic(spec: Document, kind: str, out: list[Problem]) -> None:
    policy, path = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    if not is_externally_accessible(spec):
        if policy:
            text = "may only be set for externally-accessible services"
            out.append(invalid(path, policy, text))
    elif policy not in {"Cluster", "Local"}:
        known = ["Cluster", "Local"]
        out.append(not_supported(path, policy, known) if policy else required(path))
    port, path = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if needs_health_check(spec):
        if not port:
            out.append(required(path))
        else:
            out.extend(invalid(path, port, text) for text in port_number_problems(port))
    elif port:
        text = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        out.append(invalid(path, port, text))
    _check_inner_traffic(spec, kind, out)


def _check_inner_traffic(spec: Document, kind: str, out: list[Problem]) -> None:
    policy, path = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if policy is None:
        if kind in {"NodePort", "LoadBalancer", "ClusterIP"}:
            out.append(required(path))
    elif policy not in {"Cluster", "Local"}:
        out.append(not_supported(path, policy, ["Cluster", "Local"]))
    distribution = spec.get("trafficDistribution")
    known = ["PreferClose", "PreferSameZone", "PreferSameNode"]
    if distribution is not None and distribution not in known:
        out.append(not_supported("spec.trafficDistribution", distribution, known))


def check_service_change(spec: Document, before: Document, out: list[Problem]) -> None:
    """Validate immutable fields of a service."""
    if "ExternalName" not in {spec.get("type"), before.get("type")}:
        _check_address_change(spec, before, out)
        _check_family_change(spec, before, out)
    check_load_balancer_class(spec, before, out)
    name = "healthCheckNodePort"
    keeps_check = needs_health_check(before) and needs_health_check(spec)
    if keeps_check and spec.get(name) != before.get(name):
        out.append(forbidden_field(f"spec.{name}", "field is immutable"))


def _check_address_change(spec: Document, before: Document, out: list[Problem]) -> None:
    if is_headless(spec) and is_headless(before):
        return
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if len(new) == len(old):
        for index, address in enumerate(old):
            if address != new[index]:
                out.append(invalid(f"{path}[{index}]", new, "may not change once set"))
        return
    if not new:
        out.append(invalid(f"{path}[0]", None, "primary clusterIP can not be unset"))
    if new and old and new[0] != old[0]:
        out.append(invalid(f"{path}[0]", new, "may not change once set"))
    policy = spec.get("ipFamilyPolicy")
    if len(old) > len(new) == 1 and policy != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        out.append(invalid("spec.ipFamilyPolicy", policy, text))


def _check_family_change(spec: Document, before: Document, out: list[Problem]) -> None:
    if is_headless(spec) or is_headless(before):
        return
    new, old = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    path = "spec.ipFamilies[0]"
    if len(new) == len(old):
        changed = sum(one != other for one, other in zip(new, old, strict=True))
        out.extend(invalid(path, new, "may not change once set") for _ in range(changed))
        return
    if new and old and new[0] != old[0]:
        out.append(invalid(path, spec.get("clusterIPs"), "may not change once set"))
    policy = spec.get("ipFamilyPolicy")
    if len(old) > len(new) == 1 and policy != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        out.append(invalid("spec.ipFamilyPolicy", policy, text))
