"""Requested, allocated and allocatable of the resources a profile scores by.

Owns which resources count on which node, over a table (arrays) or over a row (plain integers), and
division as Go divides. Never knows a strategy.
Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.rules import Values, full
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.config.types import ResourceSpec
from kubesched.framework.normalize import truncated_divide
from kubesched.framework.status import StatusError, error
from kubesched.model.pod_info import PodInfo, Resources
from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar_resource

RESOURCES_KEY = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
_EXACT_BITS = 46
"""Numbers of so many bits (70 TB) stay exact in floats, a hundred times over."""
_EXACT_END = 2**53
_NOT_FOUND = error("resources not found")


class ScoredResource(NamedTuple):
    """A resource that counts for one pod."""

    name: str
    weight: int
    request: int
    is_nonzero: bool
    """Whether pods that ask for nothing are counted as something."""


Allocation: TypeAlias = "tuple[int, Values, Values, Values]"
"""Weight, allocated, requested (allocated and what the pod would add) and allocatable.

Where the allocatable is zero the resource is left out of the score. A plain tuple, because rows are
judged one by one and often."""
Scorer: TypeAlias = "Callable[[NodeTable | NodeRow, Sequence[Allocation]], Values]"


class ScoredResources:
    """The resources a profile scores by."""

    def __init__(self, resources: Sequence[ResourceSpec], *, use_requested: bool) -> None:
        """Choose real requests, or cpu and memory that are never nothing."""
        self._specs = [
            (
                one.name,
                one.weight,
                is_scalar_resource(one.name),
                not use_requested and one.name in (CPU, MEMORY),
            )
            for one in resources
        ]

    def of_pod(self, requests: Resources) -> tuple[ScoredResource, ...]:
        """Return those that count for a pod of these requests."""
        # An extended resource the pod does not want says nothing about where it should go.
        return tuple(
            ScoredResource(name, weight, requests[name], is_nonzero)
            for name, weight, is_scalar, is_nonzero in self._specs
            if not is_scalar or requests[name] != 0
        )

    def allocations(
        self, nodes: NodeTable | NodeRow, counted: Sequence[ScoredResource]
    ) -> list[Allocation] | None:
        """Return what nodes have of the resources that count; None if a row has to be a table."""
        # Parity: resource_allocation.go calculateNodeAllocatableRequest, v1.36.
        if not self._specs:
            raise StatusError(_NOT_FOUND)
        is_row = isinstance(nodes, NodeRow)
        offered, taken = nodes.allocatable, nodes.requested
        nonzero = nodes.nonzero_requested
        found = []
        for name, weight, request, is_nonzero in counted:
            allocated = nonzero[name] if is_nonzero else taken[name]
            requested, allocatable = allocated + request, offered[name]
            if is_row and (allocated | requested | allocatable) >> _EXACT_BITS:
                return None
            found.append((weight, allocated, requested, allocatable))
        return found


def as_table(row: NodeTable | NodeRow) -> NodeTable:
    """Return a row as a table of one, where numbers overflow as Go's do."""
    return row.view.nodes_at(np.array([row.rows], dtype=np.int64))


def is_there(allocatable: Values) -> Values:
    """Return which nodes have the resource at all; plain true if all do."""
    if isinstance(allocatable, np.ndarray) and np.minimum.reduce(allocatable, initial=1) > 0:
        return True
    return allocatable != 0


def percent_of(part: Values, whole: Values) -> Values:
    """Return `100 * part / whole` as Go divides integers; the part's array is used up."""
    part *= 100
    if not isinstance(part, np.ndarray):
        return part // whole
    if _is_exact(part) and _is_exact(whole):
        # Through floats division is several times faster, and exact in this range.
        np.copyto(part, part / whole, casting="unsafe")
        return part
    return truncated_divide(part, whole)


def weighted_mean(
    nodes: NodeTable | NodeRow,
    allocations: Sequence[Allocation],
    score: Callable[[Values, Values], Values],
) -> Values:
    """Return the mean score of the resources a node has, cut off towards zero."""
    total: Values = None
    weights: Values = 0
    for weight, _, requested, allocatable in allocations:
        there = is_there(allocatable)
        if there is True:
            scores = score(requested, allocatable)
        elif there is False:
            continue
        else:
            scores = there * score(requested, np.where(there, allocatable, 1))
        if weight != 1:
            scores *= weight
        total = scores if total is None else total + scores
        weights = weights + weight * there
    if total is None:
        return full(nodes, 0)
    return _divided(total, weights)


def _is_exact(column: IntColumn) -> bool:
    # All bits that are set anywhere: a negative number has the highest.
    return bool(0 <= np.bitwise_or.reduce(column) < _EXACT_END)


def _divided(total: Values, weights: Values) -> Values:
    if not isinstance(total, np.ndarray):
        return total // weights
    if isinstance(weights, np.ndarray):
        weights = np.maximum(weights, 1)
    if np.minimum.reduce(total, initial=0) < 0:
        return truncated_divide(total, weights)
    total //= weights
    return total


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
