"""Prefers nodes on which the pod brings the resources closer to being used alike.

Owns NodeResourcesBalancedAllocation. Never refuses a node.
Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
_EVEN = NODE_SCORE_MAX + _HALF
# More rows than these are cheaper worked out with all others.
CHANGES_MAX = 12
# A few nodes are scored in half the time if numbers do not have to be made arrays first.
_ONE, _TWO, _HALF_OF_MAX = np.array(1.0), np.array(2.0), np.array(float(_HALF))
_Evenness: TypeAlias = "NDArray[np.int16]"


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
        self._unevenness = _UnevennessBefore()

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

    def _of_two(self, nodes: NodeTable, counted: Counted) -> _Evenness:
        """Score nodes all of which have both resources."""
        # Half of (50 and the change) and 50, in two steps. No fraction is negative, so that a
        # change is less than a hundred either way.
        requests = [[float(one.request)] for one in counted.resources]
        scores = _evenness(nodes, counted.names, requests)
        scores += self._unevenness.of(nodes, counted.names)
        scores >>= 1
        return scores

    def scores_by_cells(self, state: CycleState, pod: PodInfo) -> CellsScorer | None:
        """Return the same rule for plain numbers, with what the pod asks for bound to it."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        return None if counted is None or not counted.is_small else _cells_scorer(counted)

    def scores_by_lines(self, state: CycleState, pod: PodInfo) -> LinesScorer | None:
        """Return the same rule for a few nodes, with what the pod asks for bound to it."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        return None if counted is None else _lines_scorer(counted)

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the requests."""
        return [SignFragment(RESOURCES_KEY, sign_requests(pod))]

    def _asks_for_any(self, pod: PodInfo) -> bool:
        # What the pod takes, a resize under way included: upstream reads the status here.
        usage = pod.shape.usage
        return any(usage[name] for name in self._names)


class _UnevennessBefore:
    """How unevenly each node is used without the pod, which no pod has a say in: 150 less evenness.

    Kept for all nodes of a cluster, and worked out again for those that have changed.
    """

    def __init__(self) -> None:
        self._key: tuple[object, int, tuple[str, ...]] | None = None
        self._seen = 0
        self._column: _Evenness = np.zeros(0, dtype=np.int16)

    def of(self, nodes: NodeTable, names: tuple[str, ...]) -> _Evenness:
        """Return it for some nodes; not to be written."""
        if not nodes.is_whole:
            return _EVEN - _evenness(nodes, names)
        view = nodes.view
        key = (view.identity, view.node_epoch, names)
        changes = view.changes_since(self._seen) if key == self._key else None
        if changes is None or len(changes) > CHANGES_MAX:
            self._column = _EVEN - _evenness(nodes, names)
        else:
            for change in changes:
                if change.row < len(self._column):
                    row = view.row(change.row)
                    self._column[change.row] = _EVEN - _evenness_of_row(row, names)
        self._key, self._seen = key, view.stamp
        return self._column


def _evenness(
    nodes: NodeTable, names: tuple[str, ...], requests: Sequence[Sequence[float]] = ()
) -> _Evenness:
    """Return how alike two resources are used with a pod of such requests, from 50 to 100."""
    allocated = nodes.lines("requested", names, np.float64)
    used = SCRATCH.lines(*allocated.shape)
    np.add(allocated, requests or 0.0, out=used)
    return _likeness(used, nodes.lines("allocatable", names, np.float64)).astype(np.int16)


def _likeness(used: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same before it is cut off; what is used is used up."""
    # The steps of `_balance`, in the same order. It halves the difference first: twice the likeness
    # by half the maximum is the same to the last bit.
    used /= whole
    if used.item(used.argmax()) > 1.0:
        np.minimum(used, _ONE, out=used)
    difference: NDArray[np.float64] = used[0]
    difference -= used[1]
    np.absolute(difference, out=difference)
    np.subtract(_TWO, difference, out=difference)
    difference *= _HALF_OF_MAX
    return difference


def _lines_scorer(counted: Counted) -> LinesScorer | None:
    if not is_by_lines(counted) or counted.kind != "requested":
        return None
    requests = [[float(one.request)] for one in counted.resources]
    # Without and with the pod in one array: half as many steps.
    added = np.array([[[0.0], request] for request in requests])

    def score(lines: NodeLines) -> _Evenness:
        used = lines.requested[:, np.newaxis] + added
        likeness = _likeness(used, lines.allocatable[:, np.newaxis])
        without_pod, with_pod = likeness.astype(np.int16)
        with_pod -= without_pod
        with_pod += _EVEN
        with_pod >>= 1
        return with_pod

    return score


def _evenness_of_row(row: NodeRow, names: tuple[str, ...]) -> int:
    """Return the same of one row without the pod."""
    offered, taken = row.allocatable, row.requested
    return int(_balance([min(taken[name] / offered[name], 1.0) for name in names]))


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
    if len(counted.resources) != 2:
        return None
    (first, _, first_request, _), (second, _, second_request, _) = counted.resources

    def score(cells: NodeCells) -> int:
        offered, taken = cells.allocatable, cells.taken
        whole, other_whole = offered[first], offered[second]
        if not whole or not other_whole:
            return _HALF + _HALF // 2  # One resource is always as even as before.
        allocated, other_allocated = taken[first], taken[second]
        requested, other_requested = allocated + first_request, other_allocated + second_request
        # The steps of `_balance`, in the same order.
        before = allocated / whole if allocated < whole else 1.0
        before -= other_allocated / other_whole if other_allocated < other_whole else 1.0
        after = requested / whole if requested < whole else 1.0
        after -= other_requested / other_whole if other_requested < other_whole else 1.0
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
