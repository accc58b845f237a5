"""Kinds of which only defaults and a few rules matter here.

Owns those of networking, discovery, autoscaling, admission registration and certificates.
Upstream: pkg/apis/{networking,discovery,autoscaling,admissionregistration}/v1/defaults.go,
pkg/registry/certificates/certificates/strategy.go
"""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.documents import Document, copy_of, dig
from kubesched.apiserver.errors import (
    Problem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.apiserver.kinds.checks import check_dns_label, check_ip, port_number_problems
from kubesched.apiserver.kinds.workload_rules import check_immutable, part_of, set_default
from kubesched.apiserver.strategy import Request, Strategy

_ADMISSION = "admissionregistration.k8s.io"
_SIGNERS = "certificates.k8s.io"
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def other_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of these groups."""
    return {
        ("networking.k8s.io", "networkpolicies"): NetworkPolicyStrategy(),
        ("networking.k8s.io", "ingressclasses"): IngressClassStrategy(),
        ("networking.k8s.io", "ingresses"): Strategy(),
        ("discovery.k8s.io", "endpointslices"): EndpointSliceStrategy(),
        ("autoscaling", "horizontalpodautoscalers"): AutoscalerStrategy(),
        (_ADMISSION, "validatingwebhookconfigurations"): WebhooksStrategy(),
        (_ADMISSION, "mutatingwebhookconfigurations"): WebhooksStrategy(reinvocation="Never"),
        (_ADMISSION, "validatingadmissionpolicies"): AdmissionPolicyStrategy(),
        (_ADMISSION, "validatingadmissionpolicybindings"): AdmissionPolicyStrategy(),
        (_ADMISSION, "mutatingadmissionpolicies"): AdmissionPolicyStrategy(),
        (_ADMISSION, "mutatingadmissionpolicybindings"): AdmissionPolicyStrategy(),
        (_SIGNERS, "certificatesigningrequests"): SigningRequestStrategy(),
    }


class NetworkPolicyStrategy(Strategy):
    """Network policies."""

    has_status = False

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        for direction in ("ingress", "egress"):
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    set_default(port, "protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


class IngressClassStrategy(Strategy):
    """Ingress classes."""

    has_status = False

    def default(self, document: Document) -> None:
        parameters = dig(document, "spec", "parameters")
        if parameters is not None:
            set_default(parameters, "scope", "Cluster")


class EndpointSliceStrategy(Strategy):
    """Endpoint slices."""

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


class AutoscalerStrategy(Strategy):
    """Horizontal pod autoscalers."""

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        set_default(spec, "minReplicas", 1)
        if document.get("apiVersion") != "autoscaling/v2":
            return
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        behavior = spec.get("behavior")
        if behavior is not None:
            percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
            pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
            up = {"stabilizationWindowSeconds": 0, "policies": [pods, percent]}
            _default_scaling(behavior, "scaleUp", up)
            _default_scaling(behavior, "scaleDown", {"policies": [copy_of(percent)]})


def _default_scaling(behavior: Document, field: str, wanted: Document) -> None:
    rules = part_of(behavior, field)
    set_default(rules, "selectPolicy", "Max")
    for key, value in wanted.items():
        set_default(rules, key, value)


class WebhooksStrategy(Strategy):
    """Webhook configurations; they are kept, and never called."""

    has_status = False

    def __init__(self, reinvocation: str = "") -> None:
        self._reinvocation = reinvocation

    def default(self, document: Document) -> None:
        for webhook in document.get("webhooks") or ():
            set_default(webhook, "failurePolicy", "Fail")
            _default_match(webhook)
            set_default(webhook, "timeoutSeconds", 10)
            if self._reinvocation:
                set_default(webhook, "reinvocationPolicy", self._reinvocation)
            service = dig(webhook, "clientConfig", "service")
            if service is not None:
                set_default(service, "port", 443)
            for rule in webhook.get("rules") or ():
                set_default(rule, "scope", "*")


class AdmissionPolicyStrategy(Strategy):
    """Admission policies and their bindings; they are kept, and never asked."""

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        if not str(document.get("kind", "")).endswith("Binding"):
            set_default(spec, "failurePolicy", "Fail")
        for field in ("matchConstraints", "matchResources"):
            match: Any = spec.get(field)
            if match is not None:
                _default_match(match)
                for rules in ("resourceRules", "excludeResourceRules"):
                    for rule in match.get(rules) or ():
                        set_default(rule, "scope", "*")


def _default_match(target: Document) -> None:
    set_default(target, "matchPolicy", "Equivalent")
    set_default(target, "namespaceSelector", {})
    set_default(target, "objectSelector", {})


class SigningRequestStrategy(Strategy):
    """Certificate signing requests."""

    def prepare_for_create(self, document: Document, request: Request) -> None:
        spec = part_of(document, "spec")
        user = request.user
        spec["username"] = user.name
        for field, value in (("uid", user.uid), ("groups", list(user.groups))):
            spec.pop(field, None)
            if value:
                spec[field] = value
        spec.pop("extra", None)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        new["spec"] = copy_of(old.get("spec") or {})

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        spec = document.get("spec") or {}
        if not spec.get("request"):
            out.append(invalid("spec.request", None, "PEM block type must be CERTIFICATE REQUEST"))
        if not spec.get("usages"):
            out.append(required("spec.usages"))
        if not spec.get("signerName"):
            out.append(required("spec.signerName"))
        return out

    def fields(self, document: Document) -> dict[str, str]:
        found = super().fields(document)
        found["spec.signerName"] = dig(document, "spec", "signerName") or ""
        return found
