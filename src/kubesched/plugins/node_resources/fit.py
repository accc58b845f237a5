"""NodeResourcesFit: rejects nodes without room for a pod's requests, scores what would be left.

`api.resource_requests` sums up the requests.
Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kubesched.api.resource_requests import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended_resource
from kubesched.config.types import NodeResourcesFitArgs
from kubesched.config.validate_args import validate_node_resources_fit_args
from kubesched.framework.cluster_event import ActionType, EventResource
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    AllReasons,
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
)
from kubesched.framework.status import Status, StatusError, error, unresolvable, unschedulable
from kubesched.plugins.node_resources.fit_hints import (
    after_device_class_event,
    after_node_change,
    after_pod_event,
)
from kubesched.plugins.node_resources.resource_allocation import (
    MatrixScorer,
    RowScorer,
    ScoredRequests,
    ScoredResources,
    are_small,
    widened,
)
from kubesched.plugins.node_resources.shortfall import (
    request_changes,
    requests_larger_than_any_node,
)
from kubesched.plugins.node_resources.strategies import strategy_of
from kubesched.plugins.queueing_hints import on
from kubesched.plugins.record import InTreePlugin, checked_args
from kubesched.snapshot.expressions import Values, full, is_any, negate, overflowing
from kubesched.snapshot.node_columns import LEFT, NodeCounters, Room
from kubesched.snapshot.pod_info import PodInfo, Resources
from kubesched.snapshot.view import NodeRow, NodeTable

_PRE_FILTER_KEY = "PreFilterNodeResourcesFit"
_PRE_SCORE_KEY = "PreScoreNodeResourcesFit"
_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NATIVE_NAMES = frozenset(_NATIVE)
_CPU_AND_MEMORY = frozenset((CPU, MEMORY))
_TOO_MANY_PODS = unschedulable("Too many pods")
_NO_RESOURCES = error("resources not found")
_NO_REJECTION = AllReasons(())
_READS = Reads(nodes=True, usage=True)


def is_short(left: Values, amount: int) -> Values:
    """Return where too little is left: the rule that gives the reasons.

    `shortage_rules` repeats it for speed; the laws compare both.
    """
    return left < amount


def shortage_rules(
    requests: Sequence[tuple[str, int]],
) -> tuple[Callable[[NodeCounters], bool], Callable[[Room], bool]]:
    """Return the rules whether a row, and whether any of some rows, lacks room for a pod.

    Cpu, memory and the number of pods, which every pod needs, are written out: one row is judged in
    a tenth of a microsecond.
    """
    first = dict(requests)
    # A resource that is not requested may be overdrawn.
    cpu, memory = first.pop(CPU, -np.inf), first.pop(MEMORY, -np.inf)
    others = list(first.items())

    def lacks(cpu_left: Values, memory_left: Values, pods_left: Values) -> Values:
        return (cpu_left < cpu) | (memory_left < memory) | (pods_left < 1)

    def by_row(counters: NodeCounters) -> bool:
        lacking: bool = lacks(
            counters.cpu_allocatable - counters.cpu_requested,
            counters.memory_allocatable - counters.memory_requested,
            counters.allowed_pods - counters.pod_count,
        )
        return lacking

    def by_row_with_others(counters: NodeCounters) -> bool:
        offered, taken = counters.allocatable, counters.others_requested
        return by_row(counters) or any(
            is_short(offered[name] - taken[name], request) for name, request in others
        )

    def by_matrix(room: Room) -> bool:
        lowest = room.lowest_left
        # The minimum over all rows usually settles it.
        return lacks(lowest[0], lowest[1], lowest[2]) and is_any(lacks(*room.left))

    return by_row_with_others if others else by_row, by_matrix


class _PodRequest(NamedTuple):
    """The requests of a pod, and the rules of room for them."""

    requests: Sequence[tuple[str, int]]
    names: tuple[str, ...]
    is_small: bool
    """Whether floats hold the requests."""
    by_row: Callable[[NodeCounters], bool]
    """Whether a row lacks room, where its numbers are small."""
    by_matrix: Callable[[Room], bool] | None
    """Whether any of some rows lacks room; None if a matrix lacks a requested resource."""


class NodeResourcesFit:
    """Rejects nodes that lack a requested resource, and scores by the configured strategy."""

    name = "NodeResourcesFit"
    takes_rows = True

    def __init__(self, args: object) -> None:
        own_args = checked_args(args, NodeResourcesFitArgs, validate_node_resources_fit_args)
        strategy = own_args.scoring_strategy
        assert strategy is not None, "validation demands a strategy"
        self._ignored_resources = frozenset(own_args.ignored_resources)
        self._ignored_groups = frozenset(own_args.ignored_resource_groups)
        self._resources = ScoredResources(strategy.resources, use_requested=False)
        self._strategy = strategy_of(strategy) if strategy.resources else None

    def reads(self, pod: PodInfo) -> Reads | None:
        """Room depends on the node and the pods there."""
        return _READS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the requests of the pod."""
        state.write(_PRE_FILTER_KEY, self._pod_request(pod.requests))
        return None

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Reject nodes with too many pods or too little of a resource, with every reason."""
        pod_request: _PodRequest | None = state.get(_PRE_FILTER_KEY)
        if pod_request is None:
            text = f'error reading "{_PRE_FILTER_KEY}" from cycleState: not found'
            return [Rejected(full(nodes, True), error(text))]
        if _has_room(nodes, pod_request):
            return _NO_REJECTION
        rejections: list[Rejected] = []
        crowded: Values = is_short(nodes.allowed_pods - nodes.pod_count, 1)
        if is_any(crowded):
            rejections.append(Rejected(crowded, _TOO_MANY_PODS))
        for (resource, request), left in zip(
            pod_request.requests, _left(nodes, pod_request), strict=True
        ):
            short = is_short(left, request)
            if is_any(short):
                too_small = is_short(nodes.allocatable[resource], request)
                rejections += _insufficient(resource, short, too_small)
        return AllReasons(rejections) if rejections else _NO_REJECTION

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the resources that the pod is scored by."""
        state.write(_PRE_SCORE_KEY, self._resources.of_pod(pod.shape.scoring_requests))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Score by the configured strategy."""
        return widened(self.compact_scores(state, pod, nodes))

    def compact_scores(self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow) -> Values:
        """Return the same scores as integers of any width."""
        counted: ScoredRequests | None = state.get(_PRE_SCORE_KEY)
        if counted is None:
            counted = self._resources.of_pod(pod.shape.scoring_requests)
        if self._strategy is None:
            raise StatusError(_NO_RESOURCES)
        return self._strategy.scores(nodes, counted)

    def row_rejects(self, state: CycleState, pod: PodInfo) -> Callable[[NodeCounters], bool] | None:
        """Return the rule for plain numbers: False if a node certainly has room."""
        pod_request: _PodRequest | None = state.get(_PRE_FILTER_KEY)
        return None if pod_request is None else pod_request.by_row

    def any_row_rejected(self, state: CycleState, pod: PodInfo) -> Callable[[Room], bool] | None:
        """Return the rule for columns: False if all of some nodes have room."""
        pod_request: _PodRequest | None = state.get(_PRE_FILTER_KEY)
        return None if pod_request is None else pod_request.by_matrix

    def row_score(self, state: CycleState, pod: PodInfo) -> RowScorer | None:
        """Return the score of a row as a function of its counters."""
        counted: ScoredRequests | None = state.get(_PRE_SCORE_KEY)
        strategy = self._strategy
        return None if counted is None or strategy is None else strategy.row_rule(counted)

    def matrix_score(self, state: CycleState, pod: PodInfo) -> MatrixScorer | None:
        """Return the score of a few nodes as a function of their matrix."""
        counted: ScoredRequests | None = state.get(_PRE_SCORE_KEY)
        strategy = self._strategy
        return None if counted is None or strategy is None else strategy.matrix_rule(counted)

    def score_placement(self, state: CycleState, group: Any, placement: Any) -> int:
        """Fail: without pod groups, nothing proposes a placement (alpha, off by default)."""
        raise StatusError(error("pod groups are not supported yet"))

    def events_to_register(self) -> Sequence[EventRegistration]:
        pod_event = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        node_event = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        class_event = ActionType.ADD | ActionType.UPDATE
        return [
            on(EventResource.POD, pod_event, after_pod_event, reads="shape"),
            on(EventResource.NODE, node_event, after_node_change, reads="shape"),
            on(EventResource.DEVICE_CLASS, class_event, after_device_class_event, reads="shape"),
        ]

    def _pod_request(self, requests: Resources) -> _PodRequest:
        """Return the requests to check, in upstream's order; scalars, unordered there, by name."""
        requested = [(name, request) for name in _NATIVE if (request := requests.get(name, 0)) > 0]
        if not _NATIVE_NAMES.issuperset(requests):
            requested += sorted(
                (name, request)
                for name, request in requests.items()
                if request != 0 and name not in _NATIVE_NAMES and not self.ignores(name)
            )
        names, is_small = tuple([name for name, _ in requested]), are_small(r for _, r in requested)
        by_row, by_matrix = shortage_rules(requested)
        has_all = is_small and _CPU_AND_MEMORY.issuperset(names)
        return _PodRequest(requested, names, is_small, by_row, by_matrix if has_all else None)

    def ignores(self, resource: str) -> bool:
        """Return whether the arguments exempt a resource from the filter."""
        if not is_extended_resource(resource):
            return False
        group = resource.partition("/")[0]
        return resource in self._ignored_resources or group in self._ignored_groups


def _has_room(nodes: NodeTable | NodeRow, pod_request: _PodRequest) -> bool:
    """Return whether every node certainly has room for all requests."""
    if isinstance(nodes, NodeRow):
        counters = nodes.view.node_counters(nodes.rows)
        return counters is not None and not pod_request.by_row(counters)
    if pod_request.by_matrix is None or not nodes.is_whole:
        return False
    matrix = nodes.view.resource_matrix(None)
    return matrix is not None and not pod_request.by_matrix(matrix)


def _left(nodes: NodeTable | NodeRow, pod_request: _PodRequest) -> Iterable[Values]:
    """Return what is left of each requested resource."""
    if isinstance(nodes, NodeRow):
        allocatable, requested = nodes.allocatable, nodes.requested
        return [overflowing(allocatable[name] - requested[name]) for name in pod_request.names]
    # Scoring reads the same floats; differences of small numbers are exact.
    dtype: type = np.float64 if pod_request.is_small and nodes.has_small_numbers else np.int64
    return nodes.lines(LEFT, pod_request.names, dtype) if pod_request.names else ()


def _insufficient(resource: str, short: Values, too_small: Values) -> list[Rejected]:
    reason = f"Insufficient {resource}"
    if not is_any(too_small):
        return [Rejected(short, unschedulable(reason))]
    # Where the whole node is too small, no preemption helps.
    return [
        Rejected(short & negate(too_small), unschedulable(reason)),
        Rejected(short & too_small, unresolvable(reason)),
    ]


PLUGIN = InTreePlugin(
    plugin=NodeResourcesFit,
    pod_changes=request_changes,
    unmet_demands=requests_larger_than_any_node,
)
