"""Prefers nodes on which the pod brings the resources closer to being used alike.

Owns NodeResourcesBalancedAllocation. Never refuses a node.
Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import NodeTable
from kubesched.config.types import NodeResourcesBalancedAllocationArgs
from kubesched.config.validate_args import validate_node_resources_balanced_allocation_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import NODE_SCORE_MAX, Reads, SignFragment
from kubesched.framework.normalize import truncated_divide
from kubesched.framework.status import SKIP, Status
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text
from kubesched.plugins.node_resources.resource_allocation import (
    RESOURCES_KEY,
    Allocation,
    allocations,
    sign_requests,
)

FloatColumn = NDArray[np.float64]

_PRE_SCORE_KEY = "PreScoreNodeResourcesBalancedAllocation"
_HALF = NODE_SCORE_MAX // 2


class NodeResourcesBalancedAllocation:
    """Scores nodes by how much the pod evens out what is used of each resource."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: object, handle: Handle) -> None:
        if not isinstance(args, NodeResourcesBalancedAllocationArgs):
            got = "<nil>" if args is None else "*runtime.Unknown"
            wanted = "NodeResourcesBalancedAllocationArgs"
            raise ValueError(f"want args to be of type {wanted}, got {got}")
        problems = validate_node_resources_balanced_allocation_args(args)
        if problems:
            raise ValueError(aggregate_text(problems))
        self._resources = args.resources

    def reads(self, pod: PodInfo) -> Reads | None:
        """Balance depends on the node and the pods there."""
        return Reads(nodes=True, usage=True)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the pod's requests; have the score skipped for a pod that asks for nothing."""
        requests = self._requests_of(pod)
        if not any(requests):
            # Scored by balance alone, any number of such pods would go to one node.
            return SKIP
        state.write(_PRE_SCORE_KEY, requests)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return about 75 where nothing changes, more where the pod evens out."""
        requests: tuple[int, ...] | None = state.get(_PRE_SCORE_KEY)
        if requests is None:
            requests = self._requests_of(pod)
            if not any(requests):
                return np.zeros(len(nodes), dtype=np.int64)
        counted = allocations(nodes, self._resources, requests, use_requested=True)
        with_pod = _balance([a.requested for a in counted], counted, len(nodes))
        without_pod = _balance([a.allocated for a in counted], counted, len(nodes))
        return _HALF + truncated_divide(_HALF + with_pod - without_pod, 2)

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the requests."""
        return [SignFragment(RESOURCES_KEY, sign_requests(pod))]

    def _requests_of(self, pod: PodInfo) -> tuple[int, ...]:
        # What the pod takes, a resize under way included: upstream reads the status here.
        return tuple(pod.shape.usage[resource.name] for resource in self._resources)


def _balance(
    used: Sequence[IntColumn], counted: Sequence[Allocation], node_count: int
) -> IntColumn:
    """Return 100 where all resources are used alike, less the more they differ."""
    # Parity: balanced_allocation.go balancedResourceScore, v1.36; floats in the same order.
    fractions = [
        (_fraction(column, one.allocatable), one.counted)
        for column, one in zip(used, counted, strict=True)
    ]
    resource_count = np.zeros(node_count, dtype=np.int64)
    for _, there in fractions:
        resource_count += there
    deviation = np.where(resource_count == 2, _half_difference(fractions, node_count), 0.0)
    if len(fractions) > 2:
        spread = _standard_deviation(fractions, resource_count)
        deviation = np.where(resource_count > 2, spread, deviation)
    balance: IntColumn = ((1 - deviation) * float(NODE_SCORE_MAX)).astype(np.int64)
    return balance


def _fraction(used: IntColumn, allocatable: IntColumn) -> FloatColumn:
    divisor = np.where(allocatable == 0, 1, allocatable).astype(np.float64)
    return np.minimum(used.astype(np.float64) / divisor, 1.0)


def _half_difference(
    fractions: Sequence[tuple[FloatColumn, BoolColumn]], node_count: int
) -> FloatColumn:
    difference = np.zeros(node_count)
    seen = np.zeros(node_count, dtype=np.bool_)
    for fraction, there in fractions:
        difference = np.where(there, np.where(seen, difference - fraction, fraction), difference)
        seen = seen | there
    return np.abs(difference / 2)


def _standard_deviation(
    fractions: Sequence[tuple[FloatColumn, BoolColumn]], resource_count: IntColumn
) -> FloatColumn:
    count = np.maximum(resource_count, 1).astype(np.float64)
    total = np.zeros(len(count))
    for fraction, there in fractions:
        total = total + np.where(there, fraction, 0.0)
    mean = total / count
    squares = np.zeros(len(count))
    for fraction, there in fractions:
        squares = squares + np.where(there, (fraction - mean) * (fraction - mean), 0.0)
    deviation: FloatColumn = np.sqrt(squares / count)
    return deviation
