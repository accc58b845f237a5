"""Strategies of LimitRange and ResourceQuota.

Upstream: pkg/registry/core/{limitrange,resourcequota}/strategy.go,
pkg/apis/core/validation/validation.go ValidateLimitRange, ValidateResourceQuota
"""

from __future__ import annotations

from kubesched.api.quantity import INT64_MAX, parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, key_problems
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.kinds.quantities import (
    allows_overcommit,
    check_amount,
    check_container_resource_name,
    check_quota_resource_name,
    check_resource_name,
    is_standard_quota_resource,
    round_list,
)
from kubesched.cluster.apiserver.strategy import Request, Strategy

_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_ONE = parse_quantity("1")
_MAX_MILLI = INT64_MAX // 1000
_PODS = {"pods"}
_COMPUTE = {
    "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
}  # fmt: skip
_SCOPES = {
    "Terminating": _PODS | _COMPUTE,
    "NotTerminating": _PODS | _COMPUTE,
    "NotBestEffort": _PODS | _COMPUTE,
    "PriorityClass": _PODS | _COMPUTE,
    "CrossNamespacePodAffinity": _PODS | _COMPUTE,
    "BestEffort": _PODS,
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
_PAIRS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = (
    "BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity",
)  # fmt: skip


class LimitRangeStrategy(Strategy):
    """Strategy of LimitRanges."""

    bumps_generation = False
    has_status = False
    allows_create_on_update = True

    def default(self, document: Document) -> None:
        """Default the defaults and requests of containers."""
        for limit in (document.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container":
                default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
                request = {
                    **(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {}),
                }  # fmt: skip
                for name, amounts in (("default", default), ("defaultRequest", request)):
                    if amounts:
                        limit[name] = amounts
            for name in _LISTS:
                round_list(limit.get(name))

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Name an unnamed object after its UID."""
        metadata = document["metadata"]
        if not metadata.get("name"):
            metadata["name"] = metadata.get("uid") or ""

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate limits; return the errors."""
        out: list[Problem] = []
        seen: set[str] = set()
        for index, limit in enumerate((document.get("spec") or {}).get("limits") or ()):
            path, kind = f"spec.limits[{index}]", limit.get("type") or ""
            _check_type(kind, f"{path}.type", out)
            if kind in seen:
                out.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            _check_limit(limit, kind, path, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of limits."""
        return self.validate_create(new, request)


def _check_type(kind: str, path: str, out: list[Problem]) -> None:
    texts = key_problems(kind)
    out.extend(invalid(path, kind, text) for text in texts)
    if not texts and "/" not in kind and kind not in _TYPES:
        out.append(invalid(path, kind, "must be a standard limit type or fully qualified"))


def _check_limit(limit: Document, kind: str, path: str, out: list[Problem]) -> None:
    check = check_container_resource_name if kind in {"Pod", "Container"} else check_resource_name
    for name in ("max", "min", "default", "defaultRequest"):
        if kind == "Pod" and name.startswith("default"):
            if limit.get(name):
                text = "may not be specified when `type` is 'Pod'"
                out.append(forbidden_field(f"{path}.{name}", text))
            continue
        for resource in limit.get(name) or {}:
            check(resource, f"{path}.{name}[{resource}]", out)
    has_size = any("storage" in (limit.get(name) or {}) for name in ("min", "max"))
    if kind == "PersistentVolumeClaim" and not has_size:
        text = "either minimum or maximum storage value is required, but neither was provided"
        out.append(required(f"{path}.limits", text))
    for resource in limit.get("maxLimitRequestRatio") or {}:
        check(resource, f"{path}.maxLimitRequestRatio[{resource}]", out)
    lists = [limit.get(name) or {} for name in _LISTS]
    if kind == "Pod":
        lists[2], lists[3] = {}, {}
    for resource in dict.fromkeys(name for amounts in lists for name in amounts):
        _check_order(resource, [amounts.get(resource) for amounts in lists], path, out)


def _check_order(name: str, amounts: list[str | None], path: str, out: list[Problem]) -> None:
    largest, least, default, request, ratio = amounts
    for low, high, value, field, low_text, high_text in (
        (least, largest, least, "min", "min value", "max value"),
        (least, request, request, "defaultRequest", "min value", "default request value"),
        (request, largest, request, "defaultRequest", "default request value", "max value"),
        (request, default, request, "defaultRequest", "default request value",
         "default limit value"),
        (least, default, least, "default", "min value", "default value"),
        (default, largest, largest, "default", "default value", "max value"),
    ):  # fmt: skip
        if low is not None and high is not None and parse_quantity(low) > parse_quantity(high):
            text = f"{low_text} {low} is greater than {high_text} {high}"
            out.append(invalid(f"{path}.{field}[{name}]", value, text))
    if ratio is not None:
        _check_ratio(ratio, least, largest, f"{path}.maxLimitRequestRatio[{name}]", out)
    if default is None or request is None or allows_overcommit(name):
        return
    if parse_quantity(default) != parse_quantity(request):
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        out.append(invalid(f"{path}.defaultRequest[{name}]", request, text))


def _check_ratio(
    ratio: str, least: str | None, largest: str | None, path: str, out: list[Problem]
) -> None:
    amount = parse_quantity(ratio)
    if amount < _ONE:
        out.append(invalid(path, ratio, f"ratio {ratio} is less than 1"))
    if least is None or largest is None:
        return
    low, high = parse_quantity(least), parse_quantity(largest)
    if all(one.value() < _MAX_MILLI for one in (amount, low, high)):
        value, bounds = amount.milli_value() / 1000, (low.milli_value(), high.milli_value())
    else:
        value, bounds = float(amount.value()), (low.value(), high.value())
    limit = bounds[1] / bounds[0] if bounds[0] else float("inf")
    if value > limit:
        text = f"ratio {ratio} is greater than max/min = {limit:f}"
        out.append(invalid(path, ratio, text))


class ResourceQuotaStrategy(Strategy):
    """Strategy of ResourceQuotas."""

    bumps_generation = False
    returns_deleted_object = True

    def default(self, document: Document) -> None:
        """Round amounts up to thousandths."""
        status = document.get("status") or {}
        for amounts in (
            (document.get("spec") or {}).get("hard"),
            status.get("hard"),
            status.get("used"),
        ):
            round_list(amounts)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a quota; return the errors."""
        out: list[Problem] = []
        _check_spec(document.get("spec") or {}, out)
        _check_status(document, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a quota."""
        out: list[Problem] = []
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        _check_spec(spec, out)
        scopes = spec.get("scopes") or []
        if set(scopes) != set(before.get("scopes") or ()):
            out.append(invalid("spec.scopes", scopes or None, IMMUTABLE))
        return out

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        out: list[Problem] = []
        _check_status(new, out)
        return out

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a new quota."""
        if old is not None:
            return []
        hard = (document.get("spec") or {}).get("hard") or {}
        found = []
        for name in ("cpu", "memory", "ephemeral-storage"):
            key = f"requests.{name}"
            if key not in hard and name in {"cpu", "memory"} and name in hard:
                key = name
            limit = f"limits.{name}"
            request, most = hard.get(key), hard.get(limit)
            if request is None or most is None:
                continue
            if parse_quantity(request) > parse_quantity(most):
                text = f"ResourceQuota {key} ({request}) should be less than"
                found.append(f"{text} {limit} ({most})")
        return found


def _check_hard(amounts: dict[str, str], path: str, out: list[Problem]) -> None:
    for name, text in amounts.items():
        check_quota_resource_name(name, f"{path}[{name}]", out)
        check_amount(name, text, f"{path}[{name}]", out)


def _check_status(quota: Document, out: list[Problem]) -> None:
    status = quota.get("status") or {}
    for which in ("hard", "used"):
        _check_hard(status.get(which) or {}, f"status.{which}", out)


def _check_spec(spec: Document, out: list[Problem]) -> None:
    hard = spec.get("hard") or {}
    _check_hard(hard, "spec.hard", out)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            out.append(invalid("spec.scopes", scopes, "unsupported scope"))
        text = "unsupported scope applied to resource"
        out.extend(invalid("spec.scopes", scopes, text) for _ in _misfits(scope, hard))
    text = "conflicting scopes"
    out.extend(invalid("spec.scopes", scopes, text) for pair in _PAIRS if pair <= set(scopes))
    if spec.get("scopeSelector") is not None:
        _check_selector(spec, hard, out)


def _misfits(scope: str, hard: dict[str, str]) -> list[str]:
    fitting = _SCOPES.get(scope)
    if fitting is None:
        return []
    return [
        name for name in sorted(hard) if is_standard_quota_resource(name) and name not in fitting
    ]


def _check_selector(spec: Document, hard: dict[str, str], out: list[Problem]) -> None:
    path = "spec.scopeSelector.matchExpressions"
    selector = spec["scopeSelector"]
    seen: set[str] = set()
    for term in selector.get("matchExpressions") or ():
        scope, operator = term.get("scopeName") or "", term.get("operator") or ""
        values = term.get("values") or []
        if scope not in _SCOPES:
            out.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        for _ in _misfits(scope, hard):
            internal = internal_form("ScopeSelector", selector)
            out.append(invalid(path, internal, "unsupported scope applied to resource"))
        if scope in _EXISTS_ONLY and operator != "Exists":
            text = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            out.append(invalid(f"{path}.operator", operator, text))
        _check_operator(operator, values, path, out)
        seen.add(scope)
    text = "conflicting scopes"
    out.extend(invalid(path, spec.get("scopes"), text) for pair in _PAIRS if pair <= seen)


def _check_operator(operator: str, values: list[str], path: str, out: list[Problem]) -> None:
    if operator in {"In", "NotIn"}:
        if not values:
            text = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            out.append(required(f"{path}.values", text))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = (
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )
            out.append(invalid(f"{path}.values", values, text))
    else:
        out.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
