"""DefaultPreemption: evicts less important pods to make room.

The search is `framework.preemption`; the live scheduler carries out the plan.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kubesched.api.policy import PodDisruptionBudget
from kubesched.config.types import DefaultPreemptionArgs
from kubesched.config.validate_args import validate_default_preemption_args
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration, NodeStatuses, PostFilterReturn
from kubesched.framework.preemption.evaluator import Evaluator
from kubesched.framework.status import Status, unresolvable
from kubesched.plugins.queueing_hints import on
from kubesched.plugins.record import InTreePlugin, Write, checked_args
from kubesched.snapshot.pod_info import PodInfo

_PREEMPTING = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption:
    """PostFilter plugin that finds victims, and gates a pod until they have terminated."""

    name = "DefaultPreemption"

    def __init__(self, args: object, handle: Handle) -> None:
        self._args = checked_args(
            args,
            DefaultPreemptionArgs,
            validate_default_preemption_args,
            "got args of type {1}, want *{0}",
        )
        self._handle = handle
        self._evaluator = Evaluator(handle, self.candidate_count)

    def candidate_count(self, node_count: int) -> int:
        """Return the number of candidates to find for a number of nodes."""
        # Parity: default_preemption.go calculateNumCandidates, v1.36.
        share = node_count * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), node_count)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate the pod until its victims have terminated."""
        if self._handle.is_preempting(pod.uid):
            return _PREEMPTING
        return None

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> PostFilterReturn | Awaitable[PostFilterReturn]:
        """Return an eviction plan, or the reason why there is none; the scheduler executes it."""
        # Metrics exist in a running scheduler only.
        metrics = getattr(self._handle, "metrics", None)
        if metrics is not None:
            metrics.preemption_attempts_total.inc()
        outcome = self._evaluator.preempt(state, pod, statuses)
        return _result(outcome) if isinstance(outcome, tuple) else _result_later(outcome)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Register for the events that end its gate; other plugins register their own."""
        return [on(EventResource.POD, ActionType.DELETE, _after_pod_deleted, reads="nothing")]


async def _result_later(outcome: Awaitable[PostFilterReturn]) -> PostFilterReturn:
    return _result(await outcome)


def _result(outcome: PostFilterReturn) -> PostFilterReturn:
    result, status = outcome
    if status.message:
        status = Status(status.code, (f"preemption: {status.message}",))
    return result, status


def _after_pod_deleted(_pod: PodInfo, _old: object, _new: object) -> QueueingHint:
    return QueueingHint.QUEUE_SKIP


PLUGIN = InTreePlugin(
    plugin=DefaultPreemption,
    watches=(PodDisruptionBudget,),
    writes=(Write("", "pods", ("delete",), "evicting pods for others (DefaultPreemption)"),),
)
