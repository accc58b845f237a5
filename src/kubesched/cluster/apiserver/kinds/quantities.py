"""Validates resource names, quantities, requests and limits.

Upstream: pkg/apis/core/validation/validation.go validateResourceRequirements and around it,
pkg/apis/core/helper/helpers.go
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    ProblemType,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import (
    NOT_NEGATIVE,
    POSITIVE,
    check_dns_label,
    key_problems,
)

NameCheck = Callable[[str, str, list[Problem]], None]
ZERO = parse_quantity("0")
POD_LEVEL = frozenset({"cpu", "memory"})
_QOS_RESOURCES = frozenset({"cpu", "memory"})
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
})  # fmt: skip
QUOTA_RESOURCES = _COUNTED | frozenset({
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
})  # fmt: skip
_STANDARD = QUOTA_RESOURCES | {"storage"}


def is_huge_page(name: str) -> bool:
    """Return whether a resource is huge pages of some size."""
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    """Return whether a resource is native, i.e. of Kubernetes."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended resource."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not key_problems(f"requests.{name}")


def allows_overcommit(name: str) -> bool:
    """Return whether the limit of a resource may exceed the request."""
    return is_native(name) and not is_huge_page(name)


def is_standard_quota_resource(name: str) -> bool:
    """Return whether a quota may name a resource without a prefix."""
    return name in QUOTA_RESOURCES or name.startswith(("hugepages-", "requests.hugepages-"))


def check_resource_name(name: str, path: str, out: list[Problem]) -> None:
    """Validate the name of a resource, adding errors."""
    if name in _STANDARD:
        return
    texts = key_problems(name)
    out.extend(invalid(path, name, text) for text in texts)
    if texts or "/" in name or name.startswith(("hugepages-", "requests.hugepages-")):
        return
    out.append(invalid(path, name, "must be a standard resource type or fully qualified"))


def check_container_resource_name(name: str, path: str, out: list[Problem]) -> None:
    """Append an error if a container may not request a resource."""
    if name in _CONTAINER:
        return
    check_resource_name(name, path, out)
    if "/" not in name:
        if not is_huge_page(name):
            out.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        out.append(invalid(path, name, "doesn't follow extended resource name standard"))


def check_pod_resource_name(name: str, path: str, out: list[Problem]) -> None:
    """Append an error if a pod may not request a resource at pod level."""
    before = len(out)
    check_resource_name(name, path, out)
    if len(out) == before and name not in POD_LEVEL and not is_huge_page(name):
        out.append(not_supported(path, name, ["cpu", "hugepages-", "memory"]))


def check_quota_resource_name(name: str, path: str, out: list[Problem]) -> None:
    """Append an error if a quota may not limit a resource."""
    check_resource_name(name, path, out)
    if "/" not in name and not is_standard_quota_resource(name):
        out.append(invalid(path, name, "must be a standard resource for quota"))


def check_amount(name: str, text: str, path: str, out: list[Problem]) -> None:
    """Validate an amount of a resource, adding errors."""
    amount = parse_quantity(text)
    if amount.unscaled < 0:
        out.append(invalid(path, text, NOT_NEGATIVE))
    if amount.milli_value() % 1000 and (name in _COUNTED or is_extended(name)):
        out.append(invalid(path, text, "must be an integer"))


def check_positive_amount(text: str, path: str, out: list[Problem]) -> None:
    """Append an error if an amount is not positive."""
    if parse_quantity(text).unscaled <= 0:
        out.append(invalid(path, text, POSITIVE))


def check_basic_amount(text: str, path: str, out: list[Problem]) -> None:
    """Append an error if an amount is negative."""
    value = parse_quantity(text).value()
    if value < 0:
        out.append(invalid(path, value, "must be a valid resource quantity"))


def check_requirements(
    requirements: Document | None,
    path: str,
    out: list[Problem],
    *,
    claim_names: frozenset[str] | None = None,
    name_check: NameCheck = check_container_resource_name,
    allow_indivisible: bool = False,
) -> None:
    """Validate requests, limits and claims, adding errors."""
    if not requirements:
        return
    limits = requirements.get("limits") or {}
    requests = requirements.get("requests") or {}
    for name, text in limits.items():
        key = f"{path}.limits[{name}]"
        name_check(name, key, out)
        check_amount(name, text, key, out)
        _check_huge_pages(name, text, key, out, allow_indivisible=allow_indivisible)
    for name, text in requests.items():
        key = f"{path}.requests[{name}]"
        name_check(name, key, out)
        check_amount(name, text, key, out)
        _check_beside_limit(name, text, limits.get(name), path, out)
        _check_huge_pages(name, text, key, out, allow_indivisible=allow_indivisible)
    named = limits.keys() | requests.keys()
    if not named & _QOS_RESOURCES and any(is_huge_page(name) for name in named):
        out.append(forbidden_field(path, "HugePages require cpu or memory"))
    if requirements.get("claims"):
        _check_claims(requirements["claims"], f"{path}.claims", claim_names or frozenset(), out)


def _check_beside_limit(
    name: str, text: str, limit: str | None, path: str, out: list[Problem]
) -> None:
    if limit is None:
        if not allows_overcommit(name):
            reason = "Limit must be set for non overcommitable resources"
            out.append(required(f"{path}.limits", reason))
        return
    if text == limit:
        return
    amount, most = parse_quantity(text), parse_quantity(limit)
    if amount != most and not allows_overcommit(name):
        out.append(invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}"))
    elif amount > most:
        reason = f"must be less than or equal to {name} limit of {limit}"
        out.append(invalid(f"{path}.requests", text, reason))


def _check_huge_pages(
    name: str, text: str, path: str, out: list[Problem], *, allow_indivisible: bool
) -> None:
    if is_huge_page(name) and not allow_indivisible and not is_divisible(name, text):
        out.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))


def is_divisible(name: str, text: str) -> bool:
    """Return whether an amount of huge pages is a multiple of the page size."""
    try:
        size = parse_quantity(name.removeprefix("hugepages-"))
    except ValueError:
        return False
    if size.unscaled <= 0 or size.milli_value() % 1000:
        return False
    return parse_quantity(text).value() % size.value() == 0


def _check_claims(
    claims: list[Document], path: str, known: frozenset[str], out: list[Problem]
) -> None:
    seen: list[str] = []
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name") or ""
        if not name:
            out.append(required(here))
            continue
        if name in seen:
            out.append(duplicate(here, name))
        else:
            _check_claim_request(claim, name, here, seen, out)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            out.append(Problem(ProblemType.NOT_FOUND, here, name, text))


def _check_claim_request(
    claim: Document, name: str, path: str, seen: list[str], out: list[Problem]
) -> None:
    request = claim.get("request") or ""
    key = f"{name}/{request}" if request else name
    if request:
        check_dns_label(request, f"{path}.request", out)
    if key in seen:
        out.append(duplicate(path, key))
    elif not request:
        out.extend(duplicate(path, name) for other in seen if other.startswith(f"{name}/"))
    seen.append(key)


def rounded_to_milli(text: str) -> str:
    """Return an amount rounded up to thousandths, in canonical form."""
    amount = parse_quantity(text)
    if amount.exponent >= -3:
        return text
    places = 10 ** (-3 - amount.exponent)
    whole, rest = divmod(abs(amount.unscaled), places)
    if not rest:
        return text
    whole += 1
    return str(Quantity(whole if amount.unscaled > 0 else -whole, -3, format=amount.format))


def round_list(amounts: dict[str, str] | None) -> None:
    """Round every amount of a list up to thousandths, in place."""
    for name, text in (amounts or {}).items():
        if text.endswith(("u", "n")) or "." in text or "e" in text or "E" in text:
            amounts[name] = rounded_to_milli(text)  # type: ignore[index]


def add_lists(first: dict[str, str], second: dict[str, str]) -> dict[str, str]:
    """Return the sums of two lists of amounts."""
    total = dict(first)
    for name, text in second.items():
        if name in total:
            total[name] = str(parse_quantity(total[name]) + parse_quantity(text))
        else:
            total[name] = text
    return total


def max_lists(first: dict[str, str], second: dict[str, str]) -> dict[str, str]:
    """Return the larger amount of each resource."""
    largest = dict(first)
    for name, text in second.items():
        if name not in largest or parse_quantity(text) > parse_quantity(largest[name]):
            largest[name] = text
    return largest


def aggregate(spec: Document, which: str) -> dict[str, str]:
    """Return the sum over a pod's containers; `which` is requests or limits.

    Parity: component-helpers/resource/helpers.go AggregateContainerRequests, v1.36
    """
    total: dict[str, str] = {}
    for container in spec.get("containers") or ():
        total = add_lists(total, (container.get("resources") or {}).get(which) or {})
    restartable: dict[str, str] = {}
    started: dict[str, str] = {}
    for container in spec.get("initContainers") or ():
        own = (container.get("resources") or {}).get(which) or {}
        if container.get("restartPolicy") == "Always":
            total = add_lists(total, own)
            restartable = add_lists(restartable, own)
            own = restartable
        else:
            own = add_lists(own, restartable)
        started = max_lists(started, own)
    return max_lists(total, started)
