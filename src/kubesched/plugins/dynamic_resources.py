"""DynamicResources: rejects pods with resource claims, and lets all others through.

Has all extension points of upstream's plugin, so that configurations have the same effect.
Differs: resource claims and device classes are not supported yet, ADR 8; a pod that has claims
waits with a message that says so.
Upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kubesched.config.types import DynamicResourcesArgs
from kubesched.config.validate_args import validate_dynamic_resources_args
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    READS_NOTHING,
    EventRegistration,
    FilterVerdict,
    NodeStatuses,
    PostFilterResult,
    PreBindPreFlightResult,
    Reads,
    Rejected,
)
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import SKIP, Status, StatusError, error, unresolvable, unschedulable
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin, checked_args
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

_STATE_KEY = "DynamicResources"
_NO_CLAIMS = "no claims"
_NOT_FOUND = error("not found")


class DynamicResources:
    """Lets pods without claims through, and rejects those with claims."""

    name = "DynamicResources"
    reserves_if_skipped = False
    normalizes_by_scaling = True

    def __init__(self, args: object) -> None:
        wrong_type = "got args of type {1}, want *{0}"
        checked_args(args, DynamicResourcesArgs, validate_dynamic_resources_args, wrong_type)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Verdicts are the same for all nodes."""
        return READS_NOTHING

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the part of the pod that verdicts depend on: nothing."""
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod with claims, so that it is not queued."""
        return _rejection(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Record that there are no claims; reject a pod with claims."""
        # Written before anything else, since PostFilter reads it even after a rejection.
        state.write(_STATE_KEY, _NO_CLAIMS)
        return _rejection(pod) or SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Fail on every node if PreFilter did not run, as upstream does."""
        if state.get(_STATE_KEY) is not None:
            return []
        return [Rejected(np.ones(len(nodes), dtype=np.bool_), _NOT_FOUND)]

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Find no claim to deallocate; fail if PreFilter did not run."""
        if state.get(_STATE_KEY) is None:
            return None, _NOT_FOUND
        return None, unschedulable("no new claims to deallocate")

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return zeros: without claims, all nodes are equal."""
        if state.get(_STATE_KEY) is None:
            raise StatusError(_NOT_FOUND)
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Scale the highest score to 100; zeros stay."""
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve nothing; fail if PreFilter did not run."""
        return _NOT_FOUND if state.get(_STATE_KEY) is None else None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Do nothing, since nothing was reserved."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | PreBindPreFlightResult | None:
        """Skip PreBind."""
        return _NOT_FOUND if state.get(_STATE_KEY) is None else SKIP

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind no claim; fail if PreFilter did not run."""
        return _NOT_FOUND if state.get(_STATE_KEY) is None else None

    def events_to_register(self) -> Sequence[EventRegistration]:
        node_change = (
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        )
        changed = ActionType.ADD | ActionType.UPDATE
        generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return [
            on(EventResource.NODE, node_change),
            on(EventResource.RESOURCE_CLAIM, changed, _after_claim_change, reads="nothing"),
            on(EventResource.POD, generated, _after_pod_change, reads="nothing"),
            on(EventResource.DEVICE_CLASS, changed),
            on(EventResource.RESOURCE_SLICE, changed),
        ]


def _rejection(pod: PodInfo) -> Status | None:
    if not pod.shape.has_resource_claims:
        return None
    names = ", ".join(f'"{claim.name}"' for claim in pod.spec.resource_claims)
    return unresolvable(f"resource claims are not supported yet, pod has {names}")


def _after_claim_change(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    # Only pods with claims are rejected here, and no change of a claim makes them fit.
    return QueueingHint.QUEUE_SKIP


def _after_pod_change(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    return queue_if(pod.uid == new.uid and not new.shape.has_resource_claims)


PLUGIN = InTreePlugin(plugin=DynamicResources)
