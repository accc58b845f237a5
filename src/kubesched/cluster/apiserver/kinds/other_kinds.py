"""Strategies of the groups autoscaling, admissionregistration.k8s.io and certificates.k8s.io.

Upstream: pkg/apis/{autoscaling,admissionregistration}/v1/defaults.go,
pkg/registry/certificates/certificates/strategy.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document, copy_of, dig
from kubesched.cluster.apiserver.errors import Problem, invalid, not_supported, required
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector
from kubesched.cluster.apiserver.kinds.workload_rules import part_of, set_default
from kubesched.cluster.apiserver.names import path_segment_problems, subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_ADMISSION = "admissionregistration.k8s.io"
_SIGNERS = "certificates.k8s.io"


def other_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of these groups."""
    return {
        ("autoscaling", "horizontalpodautoscalers"): AutoscalerStrategy(),
        (_ADMISSION, "validatingwebhookconfigurations"): WebhooksStrategy(),
        (_ADMISSION, "mutatingwebhookconfigurations"): WebhooksStrategy(reinvocation="Never"),
        (_ADMISSION, "validatingadmissionpolicies"): AdmissionPolicyStrategy(),
        (_ADMISSION, "validatingadmissionpolicybindings"): AdmissionPolicyStrategy(),
        (_ADMISSION, "mutatingadmissionpolicies"): AdmissionPolicyStrategy(),
        (_ADMISSION, "mutatingadmissionpolicybindings"): AdmissionPolicyStrategy(),
        (_SIGNERS, "certificatesigningrequests"): SigningRequestStrategy(),
    }


class AutoscalerStrategy(Strategy):
    """Strategy of horizontal pod autoscalers."""

    bumps_generation = False

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

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        _check_autoscaler(document.get("spec") or {}, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)


def _check_autoscaler(spec: Document, out: list[Problem]) -> None:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        out.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        out.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        out.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        text = "must be greater than or equal to `minReplicas`"
        out.append(invalid("spec.maxReplicas", most, text))
    target, path = spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef"
    for field in ("kind", "name"):
        value = target.get(field) or ""
        if not value:
            out.append(required(f"{path}.{field}"))
        out.extend(invalid(f"{path}.{field}", value, text) for text in path_segment_problems(value))
    version = target.get("apiVersion") or ""
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        out.append(invalid(f"{path}.apiVersion", version, text))
    elif not version.rpartition("/")[0] and version != "v1":
        out.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _default_scaling(behavior: Document, field: str, defaults: Document) -> None:
    rules = part_of(behavior, field)
    set_default(rules, "selectPolicy", "Max")
    for key, value in defaults.items():
        set_default(rules, key, value)


class WebhooksStrategy(Strategy):
    """Strategy of webhook configurations, which are stored and never called."""

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

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        for index, webhook in enumerate(document.get("webhooks") or ()):
            _check_webhook(webhook, f"webhooks[{index}]", out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)


def _check_webhook(webhook: Document, path: str, out: list[Problem]) -> None:
    name = webhook.get("name") or ""
    problems = subdomain_problems(name)
    if not name:
        out.append(required(f"{path}.name"))
    elif problems:
        out.append(invalid(f"{path}.name", name, ",".join(problems)))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        out.append(invalid(f"{path}.name", name, text))
    policies = {"failurePolicy": ["Fail", "Ignore"], "matchPolicy": ["Equivalent", "Exact"]}
    out.extend(
        not_supported(f"{path}.{field}", webhook[field], known)
        for field, known in policies.items()
        if webhook.get(field) is not None and webhook[field] not in known
    )
    effects, harmless = webhook.get("sideEffects"), ["None", "NoneOnDryRun"]
    if effects is None:
        text = f"must specify one of {', '.join(harmless)}"
        out.append(required(f"{path}.sideEffects", text))
    elif effects not in harmless:
        out.append(not_supported(f"{path}.sideEffects", effects, harmless))
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        out.append(invalid(f"{path}.timeoutSeconds", timeout, text))
    for field in ("namespaceSelector", "objectSelector"):
        check_label_selector(webhook.get(field), f"{path}.{field}", out)
    client = webhook.get("clientConfig") or {}
    if (client.get("url") is None) == (client.get("service") is None):
        text = "exactly one of url or service is required"
        out.append(required(f"{path}.clientConfig", text))


class AdmissionPolicyStrategy(Strategy):
    """Strategy of admission policies and bindings, which are stored and never evaluated."""

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
    """Strategy of certificate signing requests."""

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
