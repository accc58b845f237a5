"""Resource requests and limits of every pod, for /metrics/resources.

Owns the two metrics that have a series for each pod and resource. They are not kept but computed
from the pods for each request.
Upstream: pkg/scheduler/metrics/resources/resources.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from kubesched.api.resource_requests import CPU
from kubesched.metrics.exposition import go_number
from kubesched.snapshot.pod_info import PodShape, Resources

_HELP = (
    "[STABLE] Resources {} workloads on the cluster, broken down by pod. This shows the resource"
    " usage the scheduler and kubelet expect per pod for resources along with the unit for the"
    " resource if any."
)
_BYTES = ("memory", "storage", "ephemeral-storage")
_PODS_PER_CHUNK = 1000


class CountedPod(Protocol):
    """The fields of a pod that the metrics show."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def shape(self) -> PodShape: ...


def resource_metrics(pods: Iterable[CountedPod]) -> Iterator[str]:
    """Yield the text format for pods that are not terminal, in parts of some thousand lines."""
    ordered = sorted(pods, key=_order)
    limit_help, request_help = _HELP.format("limit for"), _HELP.format("requested by")
    yield from _family("kube_pod_resource_limit", limit_help, ordered, is_limit=True)
    yield from _family("kube_pod_resource_request", request_help, ordered, is_limit=False)


def _order(pod: CountedPod) -> tuple[str, str, str, str]:
    return pod.namespace, pod.node_name, pod.name, str(pod.priority)


def _family(name: str, help_text: str, pods: list[CountedPod], *, is_limit: bool) -> Iterator[str]:
    head = f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"
    # Pods share shapes: the text that depends on the shape only is formatted once.
    tails: dict[int, list[str]] = {}
    for start in range(0, len(pods), _PODS_PER_CHUNK):
        lines: list[str] = []
        for pod in pods[start : start + _PODS_PER_CHUNK]:
            shape = pod.shape
            own = tails.get(id(shape))
            if own is None:
                own = tails[id(shape)] = _tails(shape, shape.limits if is_limit else shape.requests)
            if own:
                first = (
                    f'{name}{{namespace="{pod.namespace}",node="{pod.node_name}",pod="{pod.name}"'
                    f',priority="{pod.priority}",'
                )
                lines += [f"{first}{tail}" for tail in own]
        if lines:
            yield head + "".join(lines)
            head = ""


def _tails(shape: PodShape, resources: Resources) -> list[str]:
    scheduler = shape.scheduler_name
    return [
        f'resource="{resource}",scheduler="{scheduler}",unit="{_unit(resource)}"}}'
        f" {go_number(_shown(resource, value))}\n"
        for resource, value in sorted(resources.items())
        if value
    ]


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _shown(resource: str, value: int) -> float:
    if resource != CPU:
        return value
    # Parity: apimachinery/pkg/api/resource/quantity.go AsApproximateFloat64, v1.36: multiplied, so
    # that 700m is 0.7000000000000001.
    return value // 1000 if value % 1000 == 0 else value * 0.001
