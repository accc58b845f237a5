"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod brings closer to even use.

Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kubesched.config.types import NodeResourcesBalancedAllocationArgs
from kubesched.config.validate_args import validate_node_resources_balanced_allocation_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX, Reads
from kubesched.framework.normalize import truncated_divide
from kubesched.framework.status import SKIP, Status
from kubesched.plugins.node_resources.resource_allocation import (
    ONE_BIT,
    SCRATCH,
    Allocations,
    MatrixScorer,
    RowScorer,
    ScoredRequests,
    ScoredResources,
    allocations,
    as_table,
    is_by_floats,
    is_by_integers,
    widened,
)
from kubesched.plugins.record import InTreePlugin, checked_args
from kubesched.snapshot.balance import UNEVENNESS_MAX, Evenness, evenness, evenness_of
from kubesched.snapshot.expressions import Values, full, square_root
from kubesched.snapshot.node_columns import IntColumn, NodeCounters, ResourceMatrix
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

_PRE_SCORE_KEY = "PreScoreNodeResourcesBalancedAllocation"
_READS = Reads(nodes=True, usage=True)
_HALF = NODE_SCORE_MAX // 2


class NodeResourcesBalancedAllocation:
    """Scores nodes by how much the pod evens out what is used of each resource."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: object) -> None:
        resources = checked_args(
            args,
            NodeResourcesBalancedAllocationArgs,
            validate_node_resources_balanced_allocation_args,
        ).resources
        self._names = [resource.name for resource in resources]
        self._resources = ScoredResources(resources, use_requested=True)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Balance depends on the node and the pods there."""
        return _READS

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the pod's requests; skip the score for a pod that requests nothing."""
        if not self._requests_any(pod):
            # Scored by balance alone, any number of such pods would go to one node.
            return SKIP
        state.write(_PRE_SCORE_KEY, self._resources.of_pod(pod.shape.usage))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Return about 75 where nothing changes, more where the pod evens out."""
        return widened(self.compact_scores(state, pod, nodes))

    def compact_scores(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Return the same scores as integers of any width."""
        counted: ScoredRequests | None = state.get(_PRE_SCORE_KEY)
        if counted is None:
            if not self._requests_any(pod):
                return full(nodes, 0)
            counted = self._resources.of_pod(pod.shape.usage)
        if not isinstance(nodes, NodeRow):
            if len(counted.names) == 2 and is_by_floats(nodes, counted):
                return self._of_two(nodes, counted)
            return _scores(nodes, counted)
        if not is_by_integers(nodes, counted):
            return _scores(as_table(nodes), counted).item()
        return _row_score(nodes, counted)

    def _of_two(self, nodes: NodeTable, counted: ScoredRequests) -> Evenness:
        """Score nodes all of which have both resources."""
        scores = _evenness(nodes, counted.names, [[request] for request in counted.requests])
        scores += UNEVENNESS_MAX - _evenness(nodes, counted.names, 0.0)
        scores >>= ONE_BIT
        return scores

    def row_score(self, state: CycleState, pod: PodInfo) -> RowScorer | None:
        """Return the score of a row as a function of its counters."""
        counted: ScoredRequests | None = state.get(_PRE_SCORE_KEY)
        return None if counted is None else _cells_scorer(counted)

    def matrix_score(self, state: CycleState, pod: PodInfo) -> MatrixScorer | None:
        """Return the score of a few nodes as a function of their matrix."""
        counted: ScoredRequests | None = state.get(_PRE_SCORE_KEY)
        return None if counted is None else _lines_scorer(counted)

    def _requests_any(self, pod: PodInfo) -> bool:
        # What the pod takes, a resize under way included: upstream reads the status here.
        return any(map(pod.shape.usage.get, self._names))


def _evenness(nodes: NodeTable, names: tuple[str, ...], requests: Any) -> Evenness:
    """Return how alike two resources are used with a pod of such requests, from 50 to 100."""
    allocated = nodes.lines("requested", names, np.float64)
    used = SCRATCH.lines(*allocated.shape)
    np.add(allocated, requests, out=used)
    used /= nodes.lines("allocatable", names, np.float64)
    return evenness(used)


def _lines_scorer(counted: ScoredRequests) -> MatrixScorer | None:
    if not counted.is_by_matrix or counted.is_nonzero:
        return None
    cpu, memory = counted.requests
    requests = np.array([[float(cpu)], [float(memory)]])

    def score(lines: ResourceMatrix) -> Evenness:
        used = np.add(lines.requested, requests, out=lines.scratch)
        used /= lines.allocatable
        lowest = lines.lowest_left
        may_exceed = lowest[0] < cpu or lowest[1] < memory
        scores = evenness(used, may_exceed=may_exceed)
        # Half of (50 and the change) and 50, in two steps. No fraction is negative, so that a
        # change is less than a hundred either way.
        scores += lines.unevenness
        scores >>= ONE_BIT
        return scores

    return score


def _scores(nodes: NodeTable, counted: ScoredRequests) -> IntColumn:
    amounts = allocations(nodes, counted)
    if amounts.offered is None:
        return _table_scores(amounts, len(nodes))
    # Nodes that have the same resources are scored together.
    kinds = np.zeros(len(nodes), dtype=np.int64)
    for place, line in enumerate(amounts.offered):
        kinds |= line.astype(np.int64) << place
    scores = np.zeros(len(nodes), dtype=np.int64)
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        lines = [place for place in range(len(counted.names)) if kind >> place & 1]
        allocated, requested, allocatable = (part[lines][:, rows] for part in amounts[:3])
        part = Allocations(allocated, requested, allocatable, offered=None)
        scores[rows] = _table_scores(part, len(rows))
    return scores


def _row_score(row: NodeRow, counted: ScoredRequests) -> int:
    without_pod, with_pod = [], []
    offered, taken = row.allocatable, row.requested
    for name, _, _, request in counted.resources:
        whole = offered[name]
        if whole:
            allocated = taken[name]
            without_pod.append(allocated / whole if allocated < whole else 1.0)
            requested = allocated + request
            with_pod.append(requested / whole if requested < whole else 1.0)
    change = int(_balance(with_pod)) - int(_balance(without_pod))
    return _HALF + (_HALF + change >> 1)


def _cells_scorer(counted: ScoredRequests) -> RowScorer | None:
    if not counted.is_by_matrix or counted.is_nonzero:
        return None
    cpu, memory = counted.requests

    def score(cells: NodeCounters) -> int:
        cpu_whole, memory_whole = cells.cpu_allocatable, cells.memory_allocatable
        if not cpu_whole or not memory_whole:
            return _HALF + _HALF // 2  # One resource is always as even as before.
        cpu_requested, memory_requested = cells.cpu_requested, cells.memory_requested
        change = evenness_of(
            cpu_requested + cpu, cpu_whole, memory_requested + memory, memory_whole
        )
        change -= evenness_of(cpu_requested, cpu_whole, memory_requested, memory_whole)
        return _HALF + (_HALF + change >> 1)

    return score


def _table_scores(amounts: Allocations, count: int) -> IntColumn:
    """Score nodes that have all the resources."""
    # Without and with the pod in one array: half as many steps.
    fractions = np.empty((len(amounts.allocated), 2, count))
    np.divide(amounts.allocated, amounts.allocatable, out=fractions[:, 0])
    np.divide(amounts.requested, amounts.allocatable, out=fractions[:, 1])
    if np.maximum.reduce(fractions, axis=None, initial=0.0) > 1.0:
        np.minimum(fractions, 1.0, out=fractions)
    balance = _balance(list(fractions))
    if not isinstance(balance, np.ndarray):
        return np.full(count, _HALF + _HALF // 2)
    without_pod, with_pod = balance.astype(np.int64)
    return _HALF + truncated_divide(_HALF + with_pod - without_pod, 2)


def _balance(fractions: Sequence[Values]) -> Values:
    """Return 100 where all resources are used alike, less the more they differ; to be cut off."""
    # Parity: balanced_allocation.go balancedResourceScore, v1.36; floats in the same order.
    likeness = 1 - _deviation(fractions)
    likeness *= float(NODE_SCORE_MAX)
    return likeness


def _deviation(fractions: Sequence[Values]) -> Values:
    count = len(fractions)
    if count == 2:
        difference = fractions[0] - fractions[1]
        difference *= 0.5
        return abs(difference)
    if count < 2:
        return 0.0
    mean = sum(fractions) / float(count)
    squares = sum((fraction - mean) * (fraction - mean) for fraction in fractions)
    return square_root(squares / float(count))


PLUGIN = InTreePlugin(plugin=NodeResourcesBalancedAllocation)
