"""Refuses pods with resource claims, clearly, and lets all others through.

Owns every extension point upstream's plugin has, so that configurations mean the same. Never
allocates a device.
Differs: resource claims and device classes are not supported yet, ADR 8; a pod that has claims
waits with a text that says so.
Upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import NodeTable
from kubesched.config.types import DynamicResourcesArgs
from kubesched.config.validate_args import validate_dynamic_resources_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    READS_NOTHING,
    EventRegistration,
    FilterVerdict,
    NodeStatuses,
    PostFilterResult,
    PreBindPreFlightResult,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import (
    SKIP,
    Status,
    StatusError,
    error,
    unresolvable,
    unschedulable,
)
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text

_STATE_KEY = "DynamicResources"
_NO_CLAIMS = "no claims"
_NOT_FOUND = error("not found")


class DynamicResources:
    """Has nothing to do for a pod without claims, and refuses one that has some."""

    name = "DynamicResources"
    same_for_family = True
    reserves_if_skipped = False
    normalizes_by_scaling = True

    def __init__(self, args: object, handle: Handle) -> None:
        if not isinstance(args, DynamicResourcesArgs):
            got = "<nil>" if args is None else "*runtime.Unknown"
            raise ValueError(f"got args of type {got}, want *DynamicResourcesArgs")
        problems = validate_dynamic_resources_args(args)
        if problems:
            raise ValueError(aggregate_text(problems))

    def reads(self, pod: PodInfo) -> Reads | None:
        """No node differs from another."""
        return READS_NOTHING

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod verdicts depend on: nothing."""
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold back a pod with claims."""
        return _refusal(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Record that there are no claims; refuse a pod with claims."""
        # Written before anything else, since PostFilter reads it even after a refusal.
        state.write(_STATE_KEY, _NO_CLAIMS)
        return _refusal(pod) or SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Fail on every node if PreFilter did not run, as upstream does."""
        if state.get(_STATE_KEY) is not None:
            return []
        return [Rejected(np.ones(len(nodes), dtype=np.bool_), _NOT_FOUND)]

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Find no claim to deallocate, or fail if PreFilter was never reached."""
        if state.get(_STATE_KEY) is None:
            return None, _NOT_FOUND
        return None, unschedulable("no new claims to deallocate")

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return zeros; without claims no node is better than another."""
        _check_state(state)
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Give the best node 100, if there is a best one."""
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve nothing; fail if PreFilter did not run."""
        return _NOT_FOUND if state.get(_STATE_KEY) is None else None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back nothing, since nothing was reserved."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | PreBindPreFlightResult | None:
        """Have PreBind skipped."""
        return _NOT_FOUND if state.get(_STATE_KEY) is None else SKIP

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind no claim; fail if PreFilter did not run."""
        return _NOT_FOUND if state.get(_STATE_KEY) is None else None

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return upstream's events."""
        node_change = (
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        )
        changed = ActionType.ADD | ActionType.UPDATE
        generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return [
            EventRegistration(ClusterEvent(EventResource.NODE, node_change)),
            EventRegistration(
                ClusterEvent(EventResource.RESOURCE_CLAIM, changed),
                _after_claim_change,
                reads="nothing",
            ),
            EventRegistration(
                ClusterEvent(EventResource.POD, generated), _after_pod_change, reads="nothing"
            ),
            EventRegistration(ClusterEvent(EventResource.DEVICE_CLASS, changed)),
            EventRegistration(ClusterEvent(EventResource.RESOURCE_SLICE, changed)),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name nothing; a pod with claims equals no other."""
        if pod.shape.has_resource_claims:
            return unschedulable("pods with dra resource claims are not signable")
        return []


def _refusal(pod: PodInfo) -> Status | None:
    if not pod.shape.has_resource_claims:
        return None
    names = ", ".join(f'"{claim.name}"' for claim in pod.spec.resource_claims)
    return unresolvable(f"resource claims are not supported yet, pod has {names}")


def _check_state(state: CycleState) -> None:
    if state.get(_STATE_KEY) is None:
        raise StatusError(_NOT_FOUND)


def _after_claim_change(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    # Only pods with claims are refused here, and no change of a claim makes them fit.
    return QueueingHint.QUEUE_SKIP


def _after_pod_change(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    helps = pod.uid == new.uid and not new.shape.has_resource_claims
    return QueueingHint.QUEUE if helps else QueueingHint.QUEUE_SKIP
