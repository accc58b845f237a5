"""Requested, allocated and allocatable of the resources a profile scores by.

Owns which resources count on which node, as columns, and exact division. Never knows a strategy.
Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import NodeTable
from kubesched.config.types import ResourceSpec
from kubesched.framework.normalize import truncated_divide
from kubesched.framework.status import StatusError, error
from kubesched.model.pod_info import PodInfo
from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar_resource

RESOURCES_KEY = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
_EXACT_FLOAT_MAX = 2**53


@dataclass(frozen=True, slots=True)
class Allocation:
    """One resource over some nodes; a node whose allocatable is zero is left out of its score."""

    weight: int
    request: int
    allocated: IntColumn
    allocatable: IntColumn

    @property
    def requested(self) -> IntColumn:
        """Return what is allocated and what the pod would add."""
        return self.allocated + self.request

    @property
    def counted(self) -> BoolColumn:
        """Return the nodes that have the resource at all."""
        counted: BoolColumn = self.allocatable != 0
        return counted


Scorer: TypeAlias = "Callable[[Sequence[Allocation], int], IntColumn]"
"""`(allocations, node_count)`: the scores of that many nodes."""


def allocations(
    nodes: NodeTable,
    resources: Sequence[ResourceSpec],
    pod_requests: Sequence[int],
    *,
    use_requested: bool,
) -> list[Allocation]:
    """Return the resources that count for a pod.

    Args:
        nodes: the nodes to be scored.
        resources: what the profile scores by.
        pod_requests: what the pod asks for of each of them.
        use_requested: count real requests; otherwise cpu and memory that are never nothing.
    """
    # Parity: resource_allocation.go calculateNodeAllocatableRequest, v1.36.
    if not resources:
        raise StatusError(error("resources not found"))
    counted = []
    for resource, request in zip(resources, pod_requests, strict=True):
        # An extended resource the pod does not want says nothing about where it should go.
        if request == 0 and is_scalar_resource(resource.name):
            continue
        substituted = resource.name in (CPU, MEMORY) and not use_requested
        used = nodes.nonzero_requested if substituted else nodes.requested
        allocatable = nodes.allocatable[resource.name]
        counted.append(Allocation(resource.weight, request, used[resource.name], allocatable))
    return counted


def percent_of(part: IntColumn, whole: IntColumn) -> IntColumn:
    """Return `100 * part / whole` in integers, as Go divides; a zero whole gives nonsense."""
    scaled = 100 * part
    divisor = np.where(whole == 0, 1, whole)
    # Through floats division is several times faster, and exact below 2**53.
    if scaled.size == 0 or (scaled.min() >= 0 and scaled.max() < _EXACT_FLOAT_MAX):
        quotient: IntColumn = (scaled / divisor).astype(np.int64)
        return quotient
    return truncated_divide(scaled, divisor)


def weighted_mean(
    scored: Sequence[tuple[IntColumn, BoolColumn, int]], node_count: int
) -> tuple[IntColumn, IntColumn]:
    """Return the sums of weighted scores and of weights over the resources that count on a node."""
    total = np.zeros(node_count, dtype=np.int64)
    weights = np.zeros(node_count, dtype=np.int64)
    for scores, counted, weight in scored:
        total += np.where(counted, scores * weight, 0)
        weights += weight * counted
    return total, weights


def sign_requests(pod: PodInfo) -> dict[str, object]:
    """Return the pod's requests as a part of its signature."""
    scalars = {name: value for name, value in pod.requests.items() if is_scalar_resource(name)}
    return {
        "MilliCPU": pod.requests[CPU],
        "Memory": pod.requests[MEMORY],
        "EphemeralStorage": pod.requests[EPHEMERAL_STORAGE],
        "AllowedPodNumber": 0,
        "ScalarResources": scalars or None,
    }
