"""Prefers nodes on which the pod brings the resources closer to being used alike.

Owns NodeResourcesBalancedAllocation. Never refuses a node.
Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kubesched.columns.evenness import UNEVENNESS_MAX, Evenness, evenness
from kubesched.columns.node_columns import IntColumn, NodeCells, NodeLines
from kubesched.columns.rules import Values, full, square_root
from kubesched.columns.view import NodeRow, NodeTable
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
    ONE_BIT,
    RESOURCES_KEY,
    SCRATCH,
    Allocations,
    CellsScorer,
    Counted,
    LinesScorer,
    ScoredResources,
    allocations,
    as_table,
    is_by_floats,
    is_by_integers,
    is_by_lines,
    sign_requests,
    widened,
)

_PRE_SCORE_KEY = "PreScoreNodeResourcesBalancedAllocation"
_READS = Reads(nodes=True, usage=True)
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
        self._names = [resource.name for resource in args.resources]
        self._resources = ScoredResources(args.resources, use_requested=True)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Balance depends on the node and the pods there."""
        return _READS

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the pod's requests; have the score skipped for a pod that asks for nothing."""
        if not self._asks_for_any(pod):
            # Scored by balance alone, any number of such pods would go to one node.
            return SKIP
        state.write(_PRE_SCORE_KEY, self._resources.of_pod(pod.shape.usage))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Return about 75 where nothing changes, more where the pod evens out."""
        return widened(self.narrow_scores(state, pod, nodes))

    def narrow_scores(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Return the same scores as integers of any width."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        if counted is None:
            if not self._asks_for_any(pod):
                return full(nodes, 0)
            counted = self._resources.of_pod(pod.shape.usage)
        if not isinstance(nodes, NodeRow):
            if len(counted.names) == 2 and is_by_floats(nodes, counted):
                return self._of_two(nodes, counted)
            return _scores(nodes, counted)
        if not is_by_integers(nodes, counted):
            return _scores(as_table(nodes), counted).item()
        return _row_score(nodes, counted)

    def _of_two(self, nodes: NodeTable, counted: Counted) -> Evenness:
        """Score nodes all of which have both resources."""
        scores = _evenness(nodes, counted.names, [[one] for one in counted.requests])
        scores += UNEVENNESS_MAX - _evenness(nodes, counted.names, 0.0)
        scores >>= ONE_BIT
        return scores

    def scores_by_cells(self, state: CycleState, pod: PodInfo) -> CellsScorer | None:
        """Return the same rule for plain numbers, with what the pod asks for bound to it."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        return None if counted is None else _cells_scorer(counted)

    def scores_by_lines(self, state: CycleState, pod: PodInfo) -> LinesScorer | None:
        """Return the same rule for a few nodes, with what the pod asks for bound to it."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        return None if counted is None else _lines_scorer(counted)

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the requests."""
        return [SignFragment(RESOURCES_KEY, sign_requests(pod))]

    def _asks_for_any(self, pod: PodInfo) -> bool:
        # What the pod takes, a resize under way included: upstream reads the status here.
        return any(map(pod.shape.usage.get, self._names))


def _evenness(nodes: NodeTable, names: tuple[str, ...], requests: Any) -> Evenness:
    """Return how alike two resources are used with a pod of such requests, from 50 to 100."""
    allocated = nodes.lines("requested", names, np.float64)
    used = SCRATCH.lines(*allocated.shape)
    np.add(allocated, requests, out=used)
    used /= nodes.lines("allocatable", names, np.float64)
    return evenness(used)


def _lines_scorer(counted: Counted) -> LinesScorer | None:
    if not is_by_lines(counted) or counted.kind != "requested":
        return None
    cpu, memory = counted.requests
    requests = np.array([[float(cpu)], [float(memory)]])

    def score(lines: NodeLines) -> Evenness:
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


def _scores(nodes: NodeTable, counted: Counted) -> IntColumn:
    found = allocations(nodes, counted)
    if found.there is None:
        return _table_scores(found, len(nodes))
    # Nodes that have the same resources are scored together.
    kinds = np.zeros(len(nodes), dtype=np.int64)
    for place, line in enumerate(found.there):
        kinds |= line.astype(np.int64) << place
    scores = np.zeros(len(nodes), dtype=np.int64)
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        lines = [place for place in range(len(counted.names)) if kind >> place & 1]
        allocated, requested, allocatable = (part[lines][:, rows] for part in found[:3])
        part = Allocations(allocated, requested, allocatable, there=None)
        scores[rows] = _table_scores(part, len(rows))
    return scores


def _row_score(row: NodeRow, counted: Counted) -> int:
    without_pod, with_pod = [], []
    offered, taken = row.allocatable, row.requested
    for name, _, request, _ in counted.resources:
        whole = offered[name]
        if whole:
            allocated = taken[name]
            without_pod.append(allocated / whole if allocated < whole else 1.0)
            requested = allocated + request
            with_pod.append(requested / whole if requested < whole else 1.0)
    change = int(_balance(with_pod)) - int(_balance(without_pod))
    return _HALF + (_HALF + change >> 1)


def _cells_scorer(counted: Counted) -> CellsScorer | None:
    if not is_by_lines(counted) or counted.kind != "requested":
        return None
    cpu, memory = counted.requests

    def score(cells: NodeCells) -> int:
        cpu_whole, memory_whole = cells.cpu_offered, cells.memory_offered
        if not cpu_whole or not memory_whole:
            return _HALF + _HALF // 2  # One resource is always as even as before.
        cpu_before, memory_before = cells.cpu_taken, cells.memory_taken
        cpu_after, memory_after = cpu_before + cpu, memory_before + memory
        # The steps of `_balance`, in the same order.
        before = cpu_before / cpu_whole if cpu_before < cpu_whole else 1.0
        before -= memory_before / memory_whole if memory_before < memory_whole else 1.0
        after = cpu_after / cpu_whole if cpu_after < cpu_whole else 1.0
        after -= memory_after / memory_whole if memory_after < memory_whole else 1.0
        change = int((1 - abs(after * 0.5)) * 100.0) - int((1 - abs(before * 0.5)) * 100.0)
        return _HALF + (_HALF + change >> 1)

    return score


def _table_scores(found: Allocations, count: int) -> IntColumn:
    """Score nodes that have all the resources."""
    # Without and with the pod in one array: half as many steps.
    fractions = np.empty((len(found.allocated), 2, count))
    np.divide(found.allocated, found.allocatable, out=fractions[:, 0])
    np.divide(found.requested, found.allocatable, out=fractions[:, 1])
    if np.maximum.reduce(fractions, axis=None, initial=0.0) > 1.0:
        np.minimum(fractions, 1.0, out=fractions)
    balance = _balance(list(fractions))
    if not isinstance(balance, np.ndarray):
        return np.full(count, _HALF + _HALF // 2)
    if found.allocated.dtype == np.float64:
        # No fraction is negative, so that a change is less than a hundred either way.
        without_pod, with_pod = balance.astype(np.int16)
        change = with_pod - without_pod
        change += _HALF
        change >>= 1
        change += _HALF
        return change.astype(np.int64)
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
