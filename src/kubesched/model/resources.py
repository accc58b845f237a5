"""What a pod asks for and what it takes, as integers per resource name.

Owns the arithmetic over containers, sidecars, init containers, pod-level resources, overhead and
resize statuses. Never looks at a node.
Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go, pkg/scheduler/framework/types.go
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kubesched.objects.pod import Container, Pod
from kubesched.objects.quantity import Quantity, parse_quantity

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# A container that asks for nothing still takes something: without these, any number of
# best-effort pods would look free to a scoring plugin.
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

Quantities = Mapping[str, str | int | float]
QuantityMap = dict[str, Quantity]

_NON_MISSING: QuantityMap = {
    CPU: parse_quantity(f"{DEFAULT_CPU_MILLI}m"),
    MEMORY: parse_quantity(str(DEFAULT_MEMORY_BYTES)),
}
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """Return whether the name belongs to a vendor's domain, as upstream decides it."""
    # Parity: pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName, v1.36.
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    prefix, _, rest = f"requests.{name}".partition("/")
    if "/" in rest:
        return False
    named = len(rest) <= 63 and _QUALIFIED_NAME.fullmatch(rest) is not None
    return named and len(prefix) <= 253 and _DNS_SUBDOMAIN.fullmatch(prefix) is not None


@lru_cache(maxsize=4096)
def is_scalar_resource(name: str) -> bool:
    """Return whether the scheduler counts the resource beside cpu, memory and ephemeral storage."""
    return (
        is_extended_resource(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def is_counted_resource(name: str) -> bool:
    """Return whether a node's usage of the resource is kept at all."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar_resource(name)


def resource_value(name: str, quantity: Quantity) -> int:
    """Return the integer the scheduler computes with: millicores for cpu, units otherwise."""
    return quantity.milli_value() if name == CPU else quantity.value()


def as_integers(requests: Mapping[str, Quantity]) -> dict[str, int]:
    """Return the counted resources of a list as integers."""
    return {
        name: resource_value(name, quantity)
        for name, quantity in requests.items()
        if is_counted_resource(name)
    }


def parse_quantities(quantities: Quantities | None) -> QuantityMap:
    """Return the wire quantities parsed; the caller checked that they parse."""
    return {name: parse_quantity(text) for name, text in (quantities or {}).items()}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    pod_level: bool = True,
    non_missing: Mapping[str, Quantity] | None = None,
) -> QuantityMap:
    """Return what the pod requests in all, overhead included.

    Args:
        pod: the wire object.
        use_status: count what a resize has already given, as bound pods do.
        pod_level: let `spec.resources` replace the sum over containers.
        non_missing: what a container that names no request for a resource is taken to want.
    """
    # Parity: component-helpers/resource/helpers.go PodRequests, v1.36.
    requests = _container_requests(pod, use_status, non_missing or {})
    if pod_level and has_pod_level_requests(pod):
        _apply_pod_level(pod, requests, use_status)
    _add(requests, parse_quantities(pod.spec.overhead))
    return requests


def pod_limits(pod: Pod) -> QuantityMap:
    """Return what the pod may take in all; overhead is added to what is limited."""
    # Parity: component-helpers/resource/helpers.go PodLimits, v1.36.
    limits = _over_containers(pod, _own_limits)
    if pod.spec.resources is not None:
        for name, quantity in parse_quantities(pod.spec.resources.limits).items():
            if _is_pod_level(name):
                limits[name] = quantity
    for name, quantity in parse_quantities(pod.spec.overhead).items():
        known = limits.get(name)
        if known is not None and not known.is_zero():
            limits[name] = known + quantity
    return limits


def non_zero_requests(pod: Pod) -> tuple[int, int]:
    """Return the millicores and bytes a bound pod weighs in scoring, never nothing."""
    # Parity: pkg/scheduler/framework/types.go CalculateResource, v1.36.
    requests = pod_requests(pod, use_status=True)
    substitutes: Mapping[str, Quantity] = _NON_MISSING
    if has_pod_level_requests(pod):
        substitutes = {name: q for name, q in _NON_MISSING.items() if name not in requests}
    if substitutes:
        requests = pod_requests(pod, use_status=True, non_missing=substitutes)
    cpu, memory = requests.get(CPU), requests.get(MEMORY)
    return (cpu.milli_value() if cpu else 0, memory.value() if memory else 0)


def scoring_requests(pod: Pod) -> QuantityMap:
    """Return what NodeResourcesFit scores the pod by: containers only, never nothing."""
    # Parity: noderesources/resource_allocation.go calculatePodResourceRequest, v1.36. The scorer
    # of Fit is built without the pod-level and in-place flags.
    return pod_requests(pod, pod_level=False, non_missing=_NON_MISSING)


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether `spec.resources.requests` names a resource that counts for the whole pod."""
    resources = pod.spec.resources
    return resources is not None and any(map(_is_pod_level, resources.requests or {}))


def is_sidecar(container: Container) -> bool:
    """Return whether an init container goes on running beside the others."""
    return container.restart_policy == "Always"


def _container_requests(
    pod: Pod, use_status: bool, non_missing: Mapping[str, Quantity]
) -> QuantityMap:
    def requests(container: Container, can_resize: bool) -> QuantityMap:
        return _effective_requests(pod, container, use_status and can_resize, non_missing)

    return _over_containers(pod, requests)


def _over_containers(pod: Pod, own: Callable[[Container, bool], QuantityMap]) -> QuantityMap:
    """Return what containers need together: those that run side by side, or a peak before."""
    total: QuantityMap = {}
    for container in pod.spec.containers or ():
        _add(total, own(container, True))
    sidecars: QuantityMap = {}
    init_peak: QuantityMap = {}
    for container in pod.spec.init_containers or ():
        restarts = is_sidecar(container)
        needed = own(container, restarts)
        if restarts:
            _add(total, needed)
            _add(sidecars, needed)
            _raise_to(init_peak, sidecars)
        else:
            _add(needed, sidecars)
            _raise_to(init_peak, needed)
    _raise_to(total, init_peak)
    return total


def _own_limits(container: Container, _: bool) -> QuantityMap:
    resources = container.resources
    return parse_quantities(resources.limits if resources is not None else None)


def _effective_requests(
    pod: Pod, container: Container, use_status: bool, non_missing: Mapping[str, Quantity]
) -> QuantityMap:
    resources = container.resources
    requests = parse_quantities(resources.requests if resources is not None else None)
    if use_status:
        # Init containers come last, and the last status of a name counts.
        statuses = [
            *(pod.status.container_statuses or ()),
            *(pod.status.init_container_statuses or ()),
        ]
        status = next((s for s in reversed(statuses) if s.name == container.name), None)
        if status is not None and status.resources is not None:
            actuated = parse_quantities(status.resources.requests)
            allocated = parse_quantities(status.allocated_resources)
            requests = _largest(pod, requests, actuated, allocated)
    for name, quantity in non_missing.items():
        requests.setdefault(name, quantity)
    return requests


def _apply_pod_level(pod: Pod, requests: QuantityMap, use_status: bool) -> None:
    assert pod.spec.resources is not None
    spec = parse_quantities(pod.spec.resources.requests)
    effective = spec
    if use_status and pod.status.resources is not None:
        actuated = parse_quantities(pod.status.resources.requests)
        allocated = parse_quantities(pod.status.allocated_resources)
        effective = _largest(pod, spec, actuated, allocated)
    for name in spec:
        if _is_pod_level(name):
            # A resource that neither status list names is worth nothing while a resize that
            # cannot be met hides the spec.
            requests[name] = effective.get(name, _ZERO)


_ZERO = parse_quantity("0")


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _largest(
    pod: Pod, spec: QuantityMap, actuated: QuantityMap, allocated: QuantityMap
) -> QuantityMap:
    lists: Iterable[QuantityMap] = (spec, actuated, allocated)
    if _resize_is_infeasible(pod):
        lists = (actuated, allocated)
    result: QuantityMap = {}
    for quantities in lists:
        _raise_to(result, quantities)
    return result


def _resize_is_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _add(total: QuantityMap, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        known = total.get(name)
        total[name] = quantity if known is None else known + quantity


def _raise_to(total: QuantityMap, floor: Mapping[str, Quantity]) -> None:
    for name, quantity in floor.items():
        known = total.get(name)
        if known is None or quantity > known:
            total[name] = quantity
