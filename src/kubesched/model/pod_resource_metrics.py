"""What every pod requests and may take, as /metrics/resources shows it.

Owns the two metrics that have a series for each pod and resource. Never keeps them: they are
written anew from the pods whenever somebody asks.
Upstream: pkg/scheduler/metrics/resources/resources.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from kubesched.kit.exposition import go_number
from kubesched.model.pod_info import PodShape, Resources
from kubesched.model.resources import CPU

_HELP = (
    "[STABLE] Resources {} workloads on the cluster, broken down by pod. This shows the resource"
    " usage the scheduler and kubelet expect per pod for resources along with the unit for the"
    " resource if any."
)
_BYTES = ("memory", "storage", "ephemeral-storage")
_PODS_PER_CHUNK = 1000


class CountedPod(Protocol):
    """What is shown of a pod."""

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


def resource_metrics(pods: Iterable[CountedPod]) -> str:
    """Return the text format for pods that are not terminal, with a node and without."""
    return "".join(resource_metrics_parts(pods))


def resource_metrics_parts(pods: Iterable[CountedPod]) -> Iterator[str]:
    """Yield the text format in parts of some thousand lines, so that others can run between."""
    ordered = sorted(pods, key=_order)
    limit_help, request_help = _HELP.format("limit for"), _HELP.format("requested by")
    yield from _family("kube_pod_resource_limit", limit_help, ordered, is_limit=True)
    yield from _family("kube_pod_resource_request", request_help, ordered, is_limit=False)


def _order(pod: CountedPod) -> tuple[str, str, str, str]:
    return pod.namespace, pod.node_name, pod.name, str(pod.priority)


def _family(name: str, help_text: str, pods: list[CountedPod], *, is_limit: bool) -> Iterator[str]:
    head = f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"
    # Pods share shapes: what is the same for all pods of one is written once.
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
