"""DefaultPreemption: evicts less important pods to make room.

Owns its arguments and messages; the search itself is `framework.preemption`. Never evicts: the
live scheduler does, from the plan, and tells when that is done.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kubesched.config.types import DefaultPreemptionArgs
from kubesched.config.validate_args import validate_default_preemption_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration, NodeStatuses, PostFilterAnswer
from kubesched.framework.preemption.evaluator import Evaluator
from kubesched.framework.status import Status, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text

_PREEMPTING = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption:
    """Post-filter plugin that finds victims, and holds a pod back while they leave."""

    name = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        errors = validate_default_preemption_args(args)
        if errors:
            raise ValueError(aggregate_text(errors))
        self._args = args
        self._handle = handle
        self._evaluator = Evaluator(handle, self.candidate_count)

    def candidate_count(self, node_count: int) -> int:
        """Return how many candidates are enough among so many nodes."""
        # Parity: default_preemption.go calculateNumCandidates, v1.36.
        share = node_count * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), node_count)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold the pod back while its victims leave."""
        if self._handle.is_preempting(pod.uid):
            return _PREEMPTING
        return None

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> PostFilterAnswer | Awaitable[PostFilterAnswer]:
        """Return a plan of eviction, or why there is none; the scheduler carries it out."""
        # Only a running scheduler counts.
        metrics = getattr(self._handle, "metrics", None)
        if metrics is not None:
            metrics.preemption_attempts_total.inc()
        found = self._evaluator.preempt_asking(state, pod, statuses)
        return _told(found) if isinstance(found, tuple) else _told_later(found)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Register so that the plugin may hold pods back; others decide when to try again."""
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [EventRegistration(deleted, _after_pod_deleted, reads="nothing")]


async def _told_later(found: Awaitable[PostFilterAnswer]) -> PostFilterAnswer:
    return _told(await found)


def _told(found: PostFilterAnswer) -> PostFilterAnswer:
    result, status = found
    if status.message:
        status = Status(status.code, (f"preemption: {status.message}",))
    return result, status


def _after_pod_deleted(_pod: PodInfo, _old: object, _new: object) -> QueueingHint:
    return QueueingHint.QUEUE_SKIP
