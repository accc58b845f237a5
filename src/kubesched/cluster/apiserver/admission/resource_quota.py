"""ResourceQuota: limits the total resources of a namespace.

Charges an object to the quota's status before it is stored. The resource quota controller releases
the usage of deleted objects.
Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go,
pkg/quota/v1/evaluator/core
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.admission.rejections import Plugin, rejection
from kubesched.cluster.apiserver.documents import Document, name_of
from kubesched.cluster.apiserver.kinds.qos import qos_class
from kubesched.cluster.apiserver.kinds.quantities import (
    POD_LEVEL,
    add_lists,
    aggregate,
    is_extended,
    is_huge_page,
)
from kubesched.cluster.apiserver.strategy import Request

_OLD_COUNTS = frozenset({
    "configmaps", "resourcequotas", "replicationcontrollers", "secrets", "services",
    "persistentvolumeclaims", "pods",
})  # fmt: skip
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
Amounts = dict[str, str]


class ResourceQuota(Plugin):
    """Rejects objects that would exceed a quota, and charges the others."""

    def __init__(self) -> None:
        self.charge: Callable[[Document, Request], None] | None = None
        """Stores a quota with its new status; set during assembly."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject a creation, or an update that increases usage, that would exceed a quota."""
        if new is None or request.subresource not in {"", "resize"} or not request.namespace:
            return
        quotas = [
            (quota, hard)
            for quota in request.reader.list("", "resourcequotas", request.namespace)
            if (hard := (quota.get("status") or {}).get("hard"))
            and _is_covered(quota, new, request)
        ]
        if old is None:
            for quota, hard in quotas:
                _check_specified(quota, hard, new, request)
        charged = [
            {**quota, "status": {**quota["status"], "used": used}}
            for quota, hard in quotas
            if (used := _charged(quota, hard, new, old, request)) is not None
        ]
        if self.charge is not None and not request.is_dry_run:
            for quota in charged:
                self.charge(quota, request)


def _charged(
    quota: Document, hard: Amounts, new: Document, old: Document | None, request: Request
) -> Amounts | None:
    """Return the usage with a new object; None if it does not increase."""
    after = _usage(new, request, hard)
    # An object that the quota did not cover before is charged in full.
    was_covered = old is not None and _is_covered(quota, old, request)
    before = _usage(old, request, hard) if old is not None and was_covered else {}
    delta = {
        name: str(parse_quantity(text) - parse_quantity(before.get(name, "0")))
        for name, text in after.items()
        if name in hard
    }
    delta = {name: text for name, text in delta.items() if parse_quantity(text).unscaled > 0}
    if not delta:
        return None
    used: Amounts = quota["status"].get("used") or {}
    unknown = sorted(name for name in delta if name not in used)
    if unknown:
        why = f"status unknown for quota: {name_of(quota)}, resources: {','.join(unknown)}"
        raise rejection(new, request, why)
    over = sorted(
        name
        for name, text in delta.items()
        if parse_quantity(used.get(name, "0")) + parse_quantity(text) > parse_quantity(hard[name])
    )
    if over:
        why = (
            f"exceeded quota: {name_of(quota)}, requested: {_listed(over, delta)}, used: "
            f"{_listed(over, used)}, limited: {_listed(over, hard)}"
        )
        raise rejection(new, request, why)
    return {**used, **add_lists({name: used[name] for name in delta}, delta)}


def _listed(names: list[str], amounts: Amounts) -> str:
    return ",".join(f"{name}={amounts.get(name, '0')}" for name in names)


def _check_specified(quota: Document, hard: Amounts, pod: Document, request: Request) -> None:
    if request.group or request.resource != "pods":
        return
    missing: dict[str, list[str]] = {}
    spec = pod["spec"]
    whole = spec.get("resources") or {}
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            for name in hard:
                prefix, _, resource = name.rpartition(".")
                which = prefix or "requests"
                if resource not in _COMPUTE[:2] or which not in {"requests", "limits"}:
                    continue
                if resource in (whole.get(which) or {}):
                    continue
                if resource not in (resources.get(which) or {}):
                    missing.setdefault(name, []).append(container.get("name") or "")
    if missing:
        listed = "; ".join(
            f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)
        )
        raise rejection(pod, request, f"failed quota: {name_of(quota)}: must specify {listed}")


def _is_covered(quota: Document, document: Document, request: Request) -> bool:
    spec = quota.get("spec") or {}
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not terms:
        return True
    if request.group or request.resource != "pods":
        return False
    return all(_in_scope(term, document["spec"]) for term in terms)


def _in_scope(term: Document, spec: Document) -> bool:
    scope: str = term.get("scopeName") or ""
    if scope in {"Terminating", "NotTerminating"}:
        has_deadline = spec.get("activeDeadlineSeconds") is not None
        return bool(has_deadline == (scope == "Terminating"))
    if scope in {"BestEffort", "NotBestEffort"}:
        return (qos_class(spec) == "BestEffort") == (scope == "BestEffort")
    if scope == "PriorityClass":
        name, values = spec.get("priorityClassName") or "", term.get("values") or []
        return {
            "In": name in values,
            "NotIn": name not in values,
            "Exists": bool(name),
            "DoesNotExist": not name,
        }.get(term.get("operator") or "", False)
    return False


def _usage(document: Document, request: Request, hard: Amounts) -> Amounts:
    resource = request.resource
    counted = f"count/{resource}.{request.group}" if request.group else f"count/{resource}"
    usage: Amounts = {counted: "1"}
    if request.group:
        return usage
    if resource in _OLD_COUNTS:
        usage[resource] = "1"
    if resource == "pods":
        usage |= _pod_usage(document["spec"])
    elif resource == "services":
        usage |= _service_usage(document.get("spec") or {})
    elif resource == "persistentvolumeclaims":
        usage |= _claim_usage(document)
    return {name: text for name, text in usage.items() if name in hard}


def _pod_usage(spec: Document) -> Amounts:
    usage: Amounts = {}
    whole = spec.get("resources") or {}
    for which in ("requests", "limits"):
        amounts = aggregate(spec, which)
        for name, text in (whole.get(which) or {}).items():
            if name in POD_LEVEL:
                amounts[name] = text
        amounts = add_lists(amounts, spec.get("overhead") or {}) if amounts else amounts
        for name, text in amounts.items():
            usage[f"{which}.{name}"] = text
            if which == "requests" and (name in _COMPUTE or is_huge_page(name)):
                usage[name] = text
            if is_extended(name) and which == "limits":
                del usage[f"{which}.{name}"]
    return usage


def _service_usage(spec: Document) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports") or []
    usage = {"services.nodeports": "0", "services.loadbalancers": "0"}
    if kind == "NodePort":
        usage["services.nodeports"] = str(len(ports))
    elif kind == "LoadBalancer":
        usage["services.loadbalancers"] = "1"
        allocates = spec.get("allocateLoadBalancerNodePorts") is not False
        chosen = sum(bool(port.get("nodePort")) for port in ports)
        usage["services.nodeports"] = str(len(ports) if allocates else chosen)
    return usage


def _claim_usage(claim: Document) -> Amounts:
    spec = claim.get("spec") or {}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage") or "0"
    usage = {"requests.storage": size}
    name = spec.get("storageClassName")
    if name:
        suffix = f"{name}.storageclass.storage.k8s.io"
        usage[f"{suffix}/requests.storage"] = size
        usage[f"{suffix}/persistentvolumeclaims"] = "1"
    return usage
