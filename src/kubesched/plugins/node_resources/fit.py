"""Keeps pods off nodes without room for their requests, and scores the room that is left.

Owns NodeResourcesFit: the filter over all resources, the choice of a scoring strategy and the
events after which there may be room. Never sums up requests: `model.resources` does.
Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kubesched.columns.node_columns import LEFT, SMALL_BITS, NodeCells, Room
from kubesched.columns.rules import Values, full, is_any, negate, overflowing
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.config.types import NodeResourcesFitArgs, ScoringStrategy
from kubesched.config.validate_args import validate_node_resources_fit_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    AllReasons,
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import Status, error, unresolvable, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.model.pod_info import PodInfo, Resources
from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended_resource
from kubesched.objects.field_errors import aggregate_text
from kubesched.plugins.node_resources.fit_hints import (
    after_device_class_event,
    after_node_change,
    after_pod_event,
)
from kubesched.plugins.node_resources.least_allocated import (
    least_allocated,
    least_allocated_by_cells,
    least_allocated_by_lines,
)
from kubesched.plugins.node_resources.most_allocated import most_allocated, taken_percent
from kubesched.plugins.node_resources.requested_to_capacity_ratio import (
    requested_to_capacity_ratio,
)
from kubesched.plugins.node_resources.resource_allocation import (
    RESOURCES_KEY,
    Allocations,
    CellsScorer,
    Counted,
    LinesScorer,
    ScoredResources,
    Scorer,
    allocations,
    mean_of,
    not_found,
    sign_requests,
    widened,
)

_PRE_FILTER_KEY = "PreFilterNodeResourcesFit"
_PRE_SCORE_KEY = "PreScoreNodeResourcesFit"
_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_FIRST = (CPU, MEMORY)
_NATIVE_NAMES = frozenset(_NATIVE)
_CPU_AND_MEMORY = frozenset((CPU, MEMORY))
_TOO_MANY_PODS = unschedulable("Too many pods")
_ROOM = AllReasons(())
_INT64_MAX = 2**63 - 1
_READS = Reads(nodes=True, usage=True)


class _Wanted(NamedTuple):
    """What a pod asks for."""

    requests: Sequence[tuple[str, int]]
    names: tuple[str, ...]
    is_small: bool
    """Whether floats hold the requests."""


class Placement(Protocol):
    """A set of nodes proposed for a group of pods."""

    @property
    def nodes(self) -> NodeTable: ...
    @property
    def proposed_pods(self) -> Sequence[PodInfo]: ...


class NodeResourcesFit:
    """Refuses nodes that lack any requested resource, and scores by the configured strategy."""

    name = "NodeResourcesFit"
    takes_rows = True

    def __init__(self, args: object, handle: Handle) -> None:
        if not isinstance(args, NodeResourcesFitArgs):
            got = "<nil>" if args is None else "*runtime.Unknown"
            raise ValueError(f"want args to be of type NodeResourcesFitArgs, got {got}")
        problems = validate_node_resources_fit_args(args)
        if problems:
            raise ValueError(aggregate_text(problems))
        strategy = args.scoring_strategy
        assert strategy is not None, "validation demands a strategy"
        self._ignored_resources = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = ScoredResources(strategy.resources, use_requested=False)
        self._scorer = _scorer_of(strategy)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Room depends on the node and the pods there."""
        return _READS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep what the pod asks for."""
        state.write(_PRE_FILTER_KEY, self._wanted(pod.requests))
        return None

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Refuse nodes with too many pods or too little of a resource, naming all that is short."""
        wanted: _Wanted | None = state.get(_PRE_FILTER_KEY)
        if wanted is None:
            text = f'error reading "{_PRE_FILTER_KEY}" from cycleState: not found'
            return [Rejected(full(nodes, True), error(text))]
        if isinstance(nodes, NodeRow):
            return _row_verdict(nodes, wanted)
        if _have_all_room(nodes, wanted):
            return _ROOM
        rejections: list[Rejected] = []
        crowded: Values = nodes.pod_count >= nodes.allowed_pods
        if is_any(crowded):
            rejections.append(Rejected(crowded, _TOO_MANY_PODS))
        if wanted.requests:
            rejections += _short_columns(nodes, wanted)
        return AllReasons(rejections) if rejections else _ROOM

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep what the pod is scored by."""
        state.write(_PRE_SCORE_KEY, self._resources.of_pod(pod.shape.scoring_requests))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Score by the configured strategy."""
        return widened(self.narrow_scores(state, pod, nodes))

    def narrow_scores(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Return the same scores as integers of any width."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        if counted is None:
            counted = self._resources.of_pod(pod.shape.scoring_requests)
        return self._scorer(nodes, counted)

    def refuses_by_cells(
        self, state: CycleState, pod: PodInfo
    ) -> Callable[[NodeCells], bool] | None:
        """Return what tells by plain numbers that a node has room: False if it certainly has."""
        wanted: _Wanted | None = state.get(_PRE_FILTER_KEY)
        if wanted is None:
            return None
        requests = dict(wanted.requests)
        # What is not asked for may be overdrawn.
        cpu, memory = (requests.pop(name, -_INT64_MAX) for name in _FIRST)
        others = tuple(requests.items())

        def refuses(cells: NodeCells) -> bool:
            if (
                cells.pod_count >= cells.allowed_pods
                or cells.cpu_offered - cells.cpu_taken < cpu
                or cells.memory_offered - cells.memory_taken < memory
            ):
                return True
            for name, request in others:
                if cells.allocatable[name] - cells.others_taken[name] < request:
                    return True
            return False

        return refuses

    def refuses_by_lines(self, state: CycleState, pod: PodInfo) -> Callable[[Room], bool] | None:
        """Return what tells by columns that all of some nodes have room: False if they have."""
        wanted: _Wanted | None = state.get(_PRE_FILTER_KEY)
        if wanted is None or not wanted.is_small or not _CPU_AND_MEMORY.issuperset(wanted.names):
            return None
        requests = dict(wanted.requests)
        # What is not asked for may be overdrawn; whoever comes is one pod.
        cpu, memory = requests.get(CPU, -np.inf), requests.get(MEMORY, -np.inf)
        needed = np.array([[cpu], [memory], [1.0]])

        def refuses(room: Room) -> bool:
            lowest = room.lowest_left
            may = lowest[0] < cpu or lowest[1] < memory or lowest[2] < 1
            return may and is_any(room.left < needed)

        return refuses

    def scores_by_cells(self, state: CycleState, pod: PodInfo) -> CellsScorer | None:
        """Return the same score for plain numbers, with what the pod asks for bound to it."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        if counted is None or self._scorer is not least_allocated:
            return None
        return least_allocated_by_cells(counted)

    def scores_by_lines(self, state: CycleState, pod: PodInfo) -> LinesScorer | None:
        """Return the same score for a few nodes, with what the pod asks for bound to it."""
        counted: Counted | None = state.get(_PRE_SCORE_KEY)
        if counted is None or self._scorer is not least_allocated:
            return None
        return least_allocated_by_lines(counted)

    def score_placement(self, state: CycleState, group: Any, placement: Placement) -> int:
        """Score a set of nodes as if it were one: the fuller, the better (alpha)."""
        # Parity: resource_allocation.go scorePlacement, v1.36.
        requests: Counter[str] = Counter()
        for pod in placement.proposed_pods:
            requests.update(pod.shape.scoring_requests)
        counted = self._resources.of_pod(requests)
        if not counted.names:
            return 0
        summed = _as_one_node(allocations(placement.nodes, counted), counted)
        return int(mean_of(summed, counted, taken_percent)[0])

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which there may be room."""
        pod_event = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        node_event = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        class_event = ActionType.ADD | ActionType.UPDATE
        return [
            EventRegistration(
                ClusterEvent(EventResource.POD, pod_event), after_pod_event, reads="shape"
            ),
            EventRegistration(
                ClusterEvent(EventResource.NODE, node_event), after_node_change, reads="shape"
            ),
            EventRegistration(
                ClusterEvent(EventResource.DEVICE_CLASS, class_event),
                after_device_class_event,
                reads="shape",
            ),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the requests."""
        return [SignFragment(RESOURCES_KEY, sign_requests(pod))]

    def _wanted(self, requests: Resources) -> _Wanted:
        """Return what to look at in upstream's order; scalars, unordered there, by name."""
        found = [(name, request) for name in _NATIVE if (request := requests.get(name, 0)) > 0]
        if not _NATIVE_NAMES.issuperset(requests):
            found += sorted(
                (name, request)
                for name, request in requests.items()
                if request != 0 and name not in _NATIVE_NAMES and not self._is_ignored(name)
            )
        bits = 0
        for _, request in found:
            bits |= request
        return _Wanted(found, tuple([name for name, _ in found]), not bits >> SMALL_BITS)

    def _is_ignored(self, resource: str) -> bool:
        if not is_extended_resource(resource):
            return False
        group = resource.partition("/")[0]
        return resource in self._ignored_resources or group in self._ignored_groups


def _scorer_of(strategy: ScoringStrategy) -> Scorer:
    if not strategy.resources:
        return not_found
    if strategy.type == "LeastAllocated":
        return least_allocated
    if strategy.type == "MostAllocated":
        return most_allocated
    ratio = strategy.requested_to_capacity_ratio
    assert ratio is not None, "validation demands a shape"
    return requested_to_capacity_ratio(ratio.shape)


def _row_verdict(row: NodeRow, wanted: _Wanted) -> FilterVerdict:
    """Return what one node lacks."""
    rejections: list[Rejected] = []
    crowded: Values = row.pod_count >= row.allowed_pods
    if crowded:
        rejections.append(Rejected(crowded, _TOO_MANY_PODS))
    allocatable, requested = row.allocatable, row.requested
    for resource, request in wanted.requests:
        offered = allocatable[resource]
        # Most often there is room; only large numbers overflow.
        if not request <= offered - requested[resource] <= _INT64_MAX and (
            overflowing(offered - requested[resource]) < request
        ):
            rejections += _insufficient(resource, True, request > offered)
    return AllReasons(rejections) if rejections else _ROOM


def _have_all_room(nodes: NodeTable, wanted: _Wanted) -> bool:
    """Return true if certainly no node refuses the pod, all that is wanted looked at together."""
    if not wanted.is_small or wanted.names != _FIRST:
        return False
    room = nodes.room()
    if room is None:
        return False
    (_, cpu), (_, memory) = wanted.requests
    return not is_any(room < [[float(cpu)], [float(memory)], [1.0]])


def _short_columns(nodes: NodeTable, wanted: _Wanted) -> list[Rejected]:
    """Return where something is short, all resources looked at together."""
    # The same numbers as in scoring, which are then at hand; differences are exact, too.
    dtype: type = np.float64 if wanted.is_small and nodes.has_small_numbers else np.int64
    left = nodes.lines(LEFT, wanted.names, dtype)
    rejections: list[Rejected] = []
    for place, (resource, request) in enumerate(wanted.requests):
        short = left[place] < request
        if is_any(short):
            offered = nodes.lines("allocatable", wanted.names, dtype)
            rejections += _insufficient(resource, short, offered[place] < request)
    return rejections


def _insufficient(resource: str, short: Values, too_small: Values) -> list[Rejected]:
    reason = f"Insufficient {resource}"
    if not is_any(too_small):
        return [Rejected(short, unschedulable(reason))]
    # Where the whole node is too small, no preemption helps.
    return [
        Rejected(short & negate(too_small), unschedulable(reason)),
        Rejected(short & too_small, unresolvable(reason)),
    ]


def _as_one_node(found: Allocations, counted: Counted) -> Allocations:
    allocated = np.where(found.allocatable != 0, found.allocated, 0).sum(axis=1, keepdims=True)
    requests = np.array([[one] for one in counted.requests], dtype=allocated.dtype)
    allocatable = found.allocatable.sum(axis=1, keepdims=True)
    there = None if allocatable.all() else allocatable != 0
    return Allocations(allocated, allocated + requests, allocatable, there)
