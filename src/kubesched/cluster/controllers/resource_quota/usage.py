"""Usage of objects under a quota.

Owns the mapping from quota names to resources, the usage of each object, and quota scopes. Pure
functions.
Upstream: pkg/quota/v1/evaluator/core/{pods,services,persistent_volume_claims,resource_claims}.go,
staging/src/k8s.io/apiserver/pkg/quota/v1/{resources.go,generic/evaluator.go}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubesched.api.decode import decode_as
from kubesched.api.documents import Document, seconds_of
from kubesched.api.pod import Pod
from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.api.resource_requests import pod_limits, pod_requests
from kubesched.client.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Resource,
)

Usage = dict[str, Quantity]

ZERO: Final = parse_quantity("0")
ONE: Final = parse_quantity("1")
_COUNT: Final = "count/"
_REQUESTS: Final = "requests."
_HUGE_PAGES: Final = "hugepages-"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
# Parity: api/resource/v1 AllocationResultsMaxSize, v1.36: the count of a request for all devices.
_DEVICES_MAX: Final = 32
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES: Final = frozenset(
    (
        "pods",
        *_COMPUTE,
        *(f"requests.{name}" for name in _COMPUTE),
        *(f"limits.{name}" for name in _COMPUTE),
    )
)
_BY_NAME: Final[Mapping[str, Resource]] = {
    **dict.fromkeys(sorted(_POD_NAMES), PODS),
    **dict.fromkeys(("services", "services.nodeports", "services.loadbalancers"), SERVICES),
    **dict.fromkeys(("persistentvolumeclaims", "requests.storage"), PERSISTENT_VOLUME_CLAIMS),
    "configmaps": CONFIG_MAPS,
    "secrets": SECRETS,
    "resourcequotas": RESOURCE_QUOTAS,
    "replicationcontrollers": REPLICATION_CONTROLLERS,
}
_CLAIM_NAMES: Final = ("persistentvolumeclaims", "requests.storage")
_COUNTED_BY_PLURAL: Final = frozenset(
    one.plural for one in (CONFIG_MAPS, SECRETS, RESOURCE_QUOTAS, REPLICATION_CONTROLLERS)
)


def resource_of_name(name: str) -> Resource | str | None:
    """Return the resource that a quota name limits; plural and group for a `count/` name.

    None if the name limits nothing.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.startswith(_COUNT):
        return name.removeprefix(_COUNT)
    if name.startswith((_HUGE_PAGES, _REQUESTS + _HUGE_PAGES)) or _is_extended_request(name):
        return PODS
    if name.endswith(tuple(_STORAGE_CLASS + one for one in _CLAIM_NAMES)):
        return PERSISTENT_VOLUME_CLAIMS
    return RESOURCE_CLAIMS if name.endswith(_DEVICES) else None


def _is_extended_request(name: str) -> bool:
    is_native = "/" not in name or "kubernetes.io/" in name
    is_implicit = name.startswith(_REQUESTS + _DEVICE_CLASS)
    return (not is_native or is_implicit) and name.startswith(_REQUESTS)


def total_usage(
    resource: Resource,
    objects: Iterable[Document],
    names: Iterable[str],
    quota: Document,
    now_s: float,
) -> Usage:
    """Return the total usage of objects of one resource, for the names of a quota."""
    # Parity: generic/evaluator.go CalculateUsageStats, v1.36.
    total = dict.fromkeys(names, ZERO)
    terms = scope_terms(quota)
    for document in objects:
        if not all(matches_scope(resource, document, term) for term in terms):
            continue
        for name, amount in usage_of(resource, document, now_s).items():
            if name in total:
                total[name] += amount
    return total


def usage_of(resource: Resource, document: Document, now_s: float) -> Usage:
    """Return the usage of one object by quota name."""
    usage = {_COUNT + resource.group_resource: ONE}
    if resource == PODS:
        if is_charged(document, now_s):
            usage |= _pod_usage(decode_as(Pod, document))
    elif resource == SERVICES:
        usage |= _service_usage(document.get("spec") or {})
    elif resource == PERSISTENT_VOLUME_CLAIMS:
        usage |= _claim_usage(document)
    elif resource == RESOURCE_CLAIMS:
        usage |= _device_usage(document.get("spec") or {})
    elif not resource.group and resource.plural in _COUNTED_BY_PLURAL:
        usage[resource.plural] = ONE
    return usage


def is_charged(pod: Document, now_s: float) -> bool:
    """Return whether a pod is charged for compute: not if finished or past its grace period."""
    # Parity: core/pods.go QuotaV1Pod, v1.36.
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod["metadata"]
    deleted, grace_s = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return not (deleted and grace_s is not None and now_s > seconds_of(deleted) + grace_s)


def _pod_usage(pod: Pod) -> Usage:
    # Parity: core/pods.go podComputeUsageHelper, v1.36.
    usage: Usage = {"pods": ONE}
    limits = pod_limits(pod)
    for name, amount in pod_requests(pod, use_status=True).items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES):
            usage[name] = usage[_REQUESTS + name] = amount
        elif "/" in name:
            usage[_REQUESTS + name] = amount
    for name in _COMPUTE:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def _service_usage(spec: Mapping[str, Any]) -> Usage:
    # Parity: core/services.go Usage, v1.36.
    ports = spec.get("ports") or []
    usage = {"services": ONE, "services.nodeports": ZERO, "services.loadbalancers": ZERO}
    kind = spec.get("type")
    if kind == "NodePort":
        usage["services.nodeports"] = Quantity(len(ports))
    elif kind == "LoadBalancer":
        chosen = sum(bool(port.get("nodePort")) for port in ports)
        allocates = spec.get("allocateLoadBalancerNodePorts") is not False
        usage["services.nodeports"] = Quantity(len(ports) if allocates else chosen)
        usage["services.loadbalancers"] = ONE
    return usage


def _claim_usage(claim: Document) -> Usage:
    # Parity: core/persistent_volume_claims.go Usage, v1.36.
    usage = {"persistentvolumeclaims": ONE}
    spec = claim.get("spec") or {}
    annotations = claim["metadata"].get("annotations") or {}
    name = annotations.get("volume.beta.kubernetes.io/storage-class", spec.get("storageClassName"))
    if name:
        usage[f"{name}{_STORAGE_CLASS}persistentvolumeclaims"] = ONE
    size = _claim_size(claim)
    if size is not None:
        usage["requests.storage"] = size
        if name:
            usage[f"{name}{_STORAGE_CLASS}requests.storage"] = size
    return usage


def _claim_size(claim: Document) -> Quantity | None:
    """Return a claim's requested or allocated bytes, whichever is larger."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    requested = requests.get("storage")
    if requested is None:
        return None
    allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    size = parse_quantity(requested)
    if allocated is not None and parse_quantity(allocated) > size:
        size = parse_quantity(allocated)
    return size if size.exponent >= 0 else Quantity(size.value(), format=size.format)


def _device_usage(spec: Mapping[str, Any]) -> Usage:
    """Return the maximum number of devices per class that a claim may get."""
    # Parity: core/resource_claims.go Usage, v1.36.
    counts: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        max_by_class: dict[str, int] = {}
        for one in request.get("firstAvailable") or (request.get("exactly") or {},):
            name = str(one.get("deviceClassName", ""))
            max_by_class[name] = max(max_by_class.get(name, 0), _device_count(one))
        for name, count in max_by_class.items():
            counts[name] = counts.get(name, 0) + count
    return {f"{name}{_DEVICES}": Quantity(count) for name, count in counts.items() if name}


def _device_count(request: Mapping[str, Any]) -> int:
    if request.get("allocationMode") == "All":
        return _DEVICES_MAX
    return int(request.get("count") or 0)


# -- scopes ---------------------------------------------------------------------------------------


def scope_terms(quota: Document) -> list[Mapping[str, Any]]:
    """Return the scopes of a quota as selector terms."""
    spec = quota.get("spec") or {}
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*terms, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def matches_scope(resource: Resource, document: Document, term: Mapping[str, Any]) -> bool:
    """Return whether an object matches a scope; only pods and claims have scopes."""
    if resource == PODS:
        return _pod_matches_scope(document, term)
    if resource == PERSISTENT_VOLUME_CLAIMS and term.get("scopeName") == "VolumeAttributesClass":
        return _matches(_attributes_classes(document), term)
    return False


def _pod_matches_scope(pod: Document, term: Mapping[str, Any]) -> bool:
    # Parity: core/pods.go podMatchesScopeFunc, v1.36.
    spec, scope = pod.get("spec") or {}, str(term.get("scopeName"))
    if scope in ("Terminating", "NotTerminating"):
        deadline_s = spec.get("activeDeadlineSeconds")
        return bool(deadline_s is not None and deadline_s >= 0) == (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        is_best_effort = str((pod.get("status") or {}).get("qosClass")) == "BestEffort"
        return is_best_effort == (scope == "BestEffort")
    if scope == "PriorityClass":
        name = spec.get("priorityClassName")
        return _matches([name] if name else [], term)
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    return False


def _matches(names: list[str], term: Mapping[str, Any]) -> bool:
    """Return whether names match the operator and values of a scope term."""
    values = term.get("values") or ()
    return {
        "Exists": bool(names),
        "DoesNotExist": not names,
        "In": any(name in values for name in names),
        "NotIn": not names or any(name not in values for name in names),
    }.get(str(term.get("operator")), False)


def _attributes_classes(claim: Document) -> list[str]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    modified = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        modified,
    )
    return [name for name in names if name]


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        side = affinity.get(kind) or {}
        terms = list(side.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = side.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
        if any(
            term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms
        ):
            return True
    return False
