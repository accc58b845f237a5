"""Resource requests and limits of pods, as integers by resource name.

The arithmetic over containers, sidecars, init containers, pod-level resources, overhead and resize
statuses.
Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go, pkg/scheduler/framework/types.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from kubesched.api.field_errors import label_key_errors
from kubesched.api.pod import Container, Pod
from kubesched.api.quantity import Quantity, parse_quantity

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# A container without requests still uses resources: without these, any number of best-effort pods
# would look free to a scoring plugin.
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

Quantities = Mapping[str, str | int | float]
QuantityMap = dict[str, Quantity]

_NON_MISSING: QuantityMap = {
    CPU: parse_quantity(f"{DEFAULT_CPU_MILLI}m"),
    MEMORY: parse_quantity(str(DEFAULT_MEMORY_BYTES)),
}


@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """Return whether the name belongs to a vendor's domain, as upstream decides it."""
    # Parity: pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName, v1.36.
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key_errors(f"requests.{name}")


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


def parse_quantities(quantities: Quantities) -> QuantityMap:
    """Return the wire quantities parsed; the caller checked that they parse."""
    return {name: parse_quantity(text) for name, text in quantities.items()}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    pod_level: bool = True,
    non_missing: Mapping[str, Quantity] | None = None,
) -> QuantityMap:
    """Return the requests of the whole pod, overhead included.

    Args:
        pod: the wire object.
        use_status: include resources that a resize has already allocated, as for bound pods.
        pod_level: let `spec.resources` replace the sum over containers.
        non_missing: the assumed requests of containers that have none for a resource.
    """
    # Parity: component-helpers/resource/helpers.go PodRequests, v1.36.
    requests = _over_containers(
        pod,
        lambda container, can_resize: _effective_requests(
            pod, container, use_status and can_resize, non_missing or {}
        ),
    )
    if pod_level and has_pod_level_requests(pod):
        _apply_pod_level(pod, requests, use_status)
    _add(requests, parse_quantities(pod.spec.overhead))
    return requests


def pod_limits(pod: Pod) -> QuantityMap:
    """Return the limits of the whole pod; overhead is added to limited resources."""
    # Parity: component-helpers/resource/helpers.go PodLimits, v1.36.
    limits = _over_containers(
        pod, lambda container, _: parse_quantities(container.resources.limits)
    )
    if pod.spec.resources is not None:
        for name, quantity in parse_quantities(pod.spec.resources.limits).items():
            if _is_pod_level(name):
                limits[name] = quantity
    for name, quantity in parse_quantities(pod.spec.overhead).items():
        limit = limits.get(name)
        if limit is not None and not limit.is_zero():
            limits[name] = limit + quantity
    return limits


def non_zero_requests(pod: Pod) -> tuple[int, int]:
    """Return the millicores and bytes of a bound pod in scoring, never zero."""
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
    """Return the requests that NodeResourcesFit scores by: containers only, never zero."""
    # Parity: noderesources/resource_allocation.go calculatePodResourceRequest, v1.36. The scorer
    # of Fit is built without the pod-level and in-place flags.
    return pod_requests(pod, pod_level=False, non_missing=_NON_MISSING)


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether `spec.resources.requests` names a resource that counts for the whole pod."""
    resources = pod.spec.resources
    return resources is not None and any(map(_is_pod_level, resources.requests))


def is_sidecar(container: Container) -> bool:
    """Return whether an init container is a sidecar."""
    return container.restart_policy == "Always"


def _over_containers(pod: Pod, own: Callable[[Container, bool], QuantityMap]) -> QuantityMap:
    """Return the requests of all containers: the running ones, or the peak during init."""
    total: QuantityMap = {}
    for container in pod.spec.containers:
        _add(total, own(container, True))
    sidecars: QuantityMap = {}
    init_peak: QuantityMap = {}
    for container in pod.spec.init_containers:
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


def _effective_requests(
    pod: Pod, container: Container, use_status: bool, non_missing: Mapping[str, Quantity]
) -> QuantityMap:
    requests = parse_quantities(container.resources.requests)
    if use_status:
        # Init containers come last, and the last status of a name counts.
        statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
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
            # While an infeasible resize hides the spec, a resource in neither status counts as 0.
            requests[name] = effective.get(name, _ZERO)


_ZERO = parse_quantity("0")


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _largest(
    pod: Pod, spec: QuantityMap, actuated: QuantityMap, allocated: QuantityMap
) -> QuantityMap:
    result: QuantityMap = {} if _resize_is_infeasible(pod) else dict(spec)
    _raise_to(result, actuated)
    _raise_to(result, allocated)
    return result


def _resize_is_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _add(total: QuantityMap, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        current = total.get(name)
        total[name] = quantity if current is None else current + quantity


def _raise_to(total: QuantityMap, floor: Mapping[str, Quantity]) -> None:
    for name, quantity in floor.items():
        current = total.get(name)
        if current is None or quantity > current:
            total[name] = quantity
