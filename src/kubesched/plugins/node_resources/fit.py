"""Keeps pods off nodes without room for their requests, and scores the room that is left.

Owns NodeResourcesFit: the filter over all resources, the choice of a scoring strategy and the
events after which there may be room. Never sums up requests: `model.resources` does.
Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import NodeTable
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
from kubesched.plugins.node_resources.least_allocated import least_allocated
from kubesched.plugins.node_resources.most_allocated import most_allocated
from kubesched.plugins.node_resources.requested_to_capacity_ratio import (
    requested_to_capacity_ratio,
)
from kubesched.plugins.node_resources.resource_allocation import (
    RESOURCES_KEY,
    Allocation,
    Scorer,
    allocations,
    sign_requests,
)

_PRE_FILTER_KEY = "PreFilterNodeResourcesFit"
_PRE_SCORE_KEY = "PreScoreNodeResourcesFit"


class Placement(Protocol):
    """A set of nodes proposed for a group of pods."""

    @property
    def nodes(self) -> NodeTable: ...
    @property
    def proposed_pods(self) -> Sequence[PodInfo]: ...


class NodeResourcesFit:
    """Refuses nodes that lack any requested resource, and scores by the configured strategy."""

    name = "NodeResourcesFit"

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
        self._resources = strategy.resources
        self._scorer = _scorer_of(strategy)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Room depends on the node and the pods there."""
        return Reads(nodes=True, usage=True)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep what the pod asks for."""
        state.write(_PRE_FILTER_KEY, pod.requests)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes with too many pods or too little of a resource, naming all that is short."""
        requests: Resources | None = state.get(_PRE_FILTER_KEY)
        if requests is None:
            text = f'error reading "{_PRE_FILTER_KEY}" from cycleState: not found'
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), error(text))]
        full = nodes.pod_count + 1 > nodes.allowed_pods
        rejections = [Rejected(full, unschedulable("Too many pods"))] if full.any() else []
        for resource in self._filtered_resources(requests):
            rejections += _insufficient(nodes, resource, requests[resource])
        return AllReasons(rejections)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep what the pod is scored by."""
        state.write(_PRE_SCORE_KEY, self._requests_of(pod))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Score by the configured strategy."""
        known: tuple[int, ...] | None = state.get(_PRE_SCORE_KEY)
        requests = self._requests_of(pod) if known is None else known
        counted = allocations(nodes, self._resources, requests, use_requested=False)
        return self._scorer(counted, len(nodes))

    def score_placement(self, state: CycleState, group: Any, placement: Placement) -> int:
        """Score a set of nodes as if it were one: the fuller, the better (alpha)."""
        # Parity: resource_allocation.go scorePlacement, v1.36.
        requests = [0] * len(self._resources)
        for pod in placement.proposed_pods:
            requests = [sum(pair) for pair in zip(requests, self._requests_of(pod), strict=True)]
        counted = allocations(placement.nodes, self._resources, requests, use_requested=False)
        summed = [_as_one_node(one) for one in counted]
        return int(most_allocated(summed, 1)[0])

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which there may be room."""
        pod_event = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        node_event = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        class_event = ActionType.ADD | ActionType.UPDATE
        return [
            EventRegistration(ClusterEvent(EventResource.POD, pod_event), after_pod_event),
            EventRegistration(ClusterEvent(EventResource.NODE, node_event), after_node_change),
            EventRegistration(
                ClusterEvent(EventResource.DEVICE_CLASS, class_event), after_device_class_event
            ),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the requests."""
        return [SignFragment(RESOURCES_KEY, sign_requests(pod))]

    def _requests_of(self, pod: PodInfo) -> tuple[int, ...]:
        return tuple(pod.shape.scoring_requests[resource.name] for resource in self._resources)

    def _filtered_resources(self, requests: Resources) -> list[str]:
        """Return the requested resources in upstream's order; scalars, unordered there, by name."""
        native = [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if requests[name] > 0]
        scalars = sorted(
            name
            for name, request in requests.items()
            if request != 0 and name not in (CPU, MEMORY, EPHEMERAL_STORAGE)
        )
        return [*native, *(name for name in scalars if not self._is_ignored(name))]

    def _is_ignored(self, resource: str) -> bool:
        if not is_extended_resource(resource):
            return False
        group = resource.partition("/")[0]
        return resource in self._ignored_resources or group in self._ignored_groups


def _scorer_of(strategy: ScoringStrategy) -> Scorer:
    if strategy.type == "LeastAllocated":
        return least_allocated
    if strategy.type == "MostAllocated":
        return most_allocated
    ratio = strategy.requested_to_capacity_ratio
    assert ratio is not None, "validation demands a shape"
    return requested_to_capacity_ratio(ratio.shape)


def _insufficient(nodes: NodeTable, resource: str, request: int) -> list[Rejected]:
    allocatable = nodes.allocatable[resource]
    short = request > allocatable - nodes.requested[resource]
    if not short.any():
        return []
    reason = f"Insufficient {resource}"
    # Where the whole node is too small, no preemption helps.
    too_small = short & (request > allocatable)
    return [
        Rejected(short & ~too_small, unschedulable(reason)),
        Rejected(too_small, unresolvable(reason)),
    ]


def _as_one_node(one: Allocation) -> Allocation:
    allocated = np.where(one.counted, one.allocated, 0).sum(keepdims=True)
    return Allocation(one.weight, one.request, allocated, one.allocatable.sum(keepdims=True))
