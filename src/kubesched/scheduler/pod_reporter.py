"""Reports the state of a pod in a running scheduler, and the last decision on it.

Builds a report from cache, queue and decision history. Never changes anything, and never calls the
API server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.times import time_text
from kubesched.cache.cache import Cache, UnassignedPods
from kubesched.explanation.report import Hold, PodReport, ReportedEvent, State, Wake, foreign_text
from kubesched.framework.cluster_event import ActionType, ClusterEvent
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.runtime.enqueue import EXTENDER, enqueue_registrations, pre_enqueue_calls
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.waiting_pods import PodsInPreBind, WaitingPod, WaitingPodsMap
from kubesched.kit.clock import Clock
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.decision_history import DecisionHistory, PodRecord
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

VICTIMS_MAX: Final = 100
_UPDATES: Final = tuple(
    action for name, action in ActionType.__members__.items() if name.startswith("UPDATE_")
)
_NOT_LEADING: Final = "; this scheduler places no pods now: it is not the leader"


@dataclass(slots=True)
class PodReporter:
    """Builds reports from the state of a scheduler."""

    history: DecisionHistory
    profiles: Mapping[str, Profile]
    cache: Cache
    queue: SchedulingQueue
    pods: UnassignedPods
    waiting_pods: WaitingPodsMap
    in_pre_bind: PodsInPreBind
    is_preempting: Callable[[str], bool]
    is_scheduling: Callable[[], bool]
    max_in_unschedulable_s: float
    clock: Clock

    def report(self, key: str) -> PodReport | None:
        """Return the report of `namespace/name`; None for an unknown pod."""
        pod = self.pods.get(key)
        if pod is not None:
            return self._unassigned(pod)
        bound = self._bound_pod(key)
        return None if bound is None else self._bound(bound)

    def is_there(self, key: str, uid: str) -> bool:
        """Return whether a pod is known."""
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid:
            return True
        return self.cache.bound_pod(uid) is not None

    # -- pods that have a node --------------------------------------------------------------------

    def _bound_pod(self, key: str) -> BoundPod | None:
        record = self.history.get(key)
        bound = None if record is None else self.cache.bound_pod(record.uid)
        if bound is not None:
            return bound
        namespace, _, name = key.partition("/")
        pods = self.cache.bound_pods()
        return next((pod for pod in pods if pod.name == name and pod.namespace == namespace), None)

    def _bound(self, pod: BoundPod) -> PodReport:
        record = self._record_of(pod.key, pod.uid)
        bound_s = None if record is None else record.bound_s
        bound_at = "" if bound_s is None else time_text(bound_s)
        since = f" since {bound_at}" if bound_at else "; the time of the binding is not known"
        leaving = ", and is being deleted" if pod.terminating else ""
        return self._report(
            pod,
            state="bound",
            text=f"{pod.key} is bound to {pod.node_name}{since}{leaving}",
            node=pod.node_name,
            bound_at=bound_at,
        )

    # -- pods that have none ----------------------------------------------------------------------

    def _unassigned(self, pod: PodInfo) -> PodReport:
        if self.cache.is_assumed(pod):  # Its profile may have been removed.
            return self._assumed(pod)
        if pod.scheduler_name not in self.profiles:
            return self._report(pod, state="foreign", text=foreign_text(pod, self.profiles))
        queued = self.queue.get(pod.key)
        if queued is not None and queued.pod.uid == pod.uid:
            return self._queued(queued)
        if any(other.uid == pod.uid for other in self.queue.in_flight_pods()):
            text = f"{pod.key} is being scheduled right now"
            return self._report(pod, state="scheduling", text=text)
        text = f"{pod.key} is not in the queue"
        if pod.terminating:
            text = f"{pod.key} is being deleted; the scheduler skips it"
            return self._report(pod, state="deleting", text=text)
        return self._report(pod, state="pending", text=text + self._leading_note())

    def _assumed(self, pod: PodInfo) -> PodReport:
        """Return the report of a pod between the decision and its binding."""
        assumed = self.cache.bound_pod(pod.uid)
        node = "" if assumed is None else assumed.node_name
        waiting = self.waiting_pods.get(pod.uid)
        if waiting is not None:
            return self._waiting(waiting, node)
        if self.in_pre_bind.get(pod.uid) is not None:
            text = f"{pod.key} is assumed on {node}; its PreBind plugins are running"
            return self._report(pod, state="preBinding", text=text, node=node)
        text = f"{pod.key} is being bound to {node}"
        return self._report(pod, state="binding", text=text, node=node)

    def _waiting(self, waiting: WaitingPod, node: str) -> PodReport:
        left_s = waiting.next_deadline_s - self.clock.monotonic_s()
        until = "" if math.isinf(left_s) else time_text(self.clock.now_s() + left_s)
        plugins = ", ".join(waiting.pending_plugins)
        text = f"{waiting.pod.key} is assumed on {node} and waits for permission from {plugins}"
        return self._report(
            waiting.pod,
            state="waitingOnPermit",
            text=f"{text}, until {until} at most" if until else text,
            until=until,
            node=node,
            holds=tuple(Hold(plugin=plugin) for plugin in waiting.pending_plugins),
        )

    def _queued(self, queued: QueuedPodInfo) -> PodReport:
        pod, key = queued.pod, queued.key
        rejected_by = tuple(sorted(queued.rejector_plugins))
        fields = {"attempts": queued.attempts, "rejected_by": rejected_by}
        if self.is_preempting(pod.uid):
            return self._preempting(queued, fields)
        if queued.is_gated:
            return self._gated(queued, fields)
        state = self.queue.where(key)
        if state == "Active":
            text = f"{key} waits for its turn in the active queue{self._leading_note()}"
            return self._report(pod, state="active", text=text, **fields)
        why = f"rejected by {', '.join(rejected_by)}" if rejected_by else "after an error"
        if state == "Backoff":
            until = time_text(self.queue.backoff_expiration_s(queued))
            text = f"{key} is backing off until {until}, {why}{self._leading_note()}"
            return self._report(pod, state="backoff", text=text, until=until, **fields)
        until = time_text(queued.timestamp_s + self.max_in_unschedulable_s)
        text = (
            f"{key} is unschedulable, {why}; it is tried again after an event that may help, "
            f"or soon after {until}{self._leading_note()}"
        )
        return self._report(
            pod,
            state="unschedulable",
            text=text,
            until=until,
            wakes=self._wakes(pod.scheduler_name, rejected_by),
            **fields,
        )

    def _preempting(self, queued: QueuedPodInfo, fields: Mapping[str, Any]) -> PodReport:
        node = self.queue.nominator.node_of(queued.pod.uid)
        where = f" on {node}" if node else ""
        left = len(self._victims_left(queued.pod))
        text = f"{queued.key} waits while pods are evicted to make room for it{where}"
        text += f"; {left} of them {'is' if left == 1 else 'are'} still there" if left else ""
        return self._report(queued.pod, state="preempting", text=text, **fields)

    def _gated(self, queued: QueuedPodInfo, fields: Mapping[str, Any]) -> PodReport:
        pod, plugin = queued.pod, queued.gating_plugin
        pre_enqueue = pre_enqueue_calls(self.profiles[pod.scheduler_name]).get(plugin)
        status = None if pre_enqueue is None else pre_enqueue(pod)
        message = "" if status is None else status.message
        return self._report(
            pod,
            state="gated",
            text=f"{pod.key} is gated by {plugin}: {message}",
            holds=(Hold(plugin=plugin, message=message),),
            wakes=self._wakes(pod.scheduler_name, (plugin,)),
            **fields,
        )

    # -- fields of a report -----------------------------------------------------------------------

    def _report(
        self, pod: PodInfo | BoundPod, *, state: State, text: str, **fields: Any
    ) -> PodReport:
        record = self._record_of(pod.key, pod.uid)
        if record is not None:
            fields.setdefault("attempts", record.attempts)
            fields["victims_left"] = tuple(self._victims_left(pod)[:VICTIMS_MAX])
            if record.summary is not None:
                fields["decided_at"] = time_text(record.decided_s)
                fields["explanation"] = record.summary.explanation()
            event = record.last_event
            if event is not None:
                fields["last_event"] = ReportedEvent(
                    type=event.kind,
                    reason=event.reason,
                    message=event.note,
                    time=time_text(event.at_s),
                )
        is_bound = isinstance(pod, BoundPod)
        nominated = "" if is_bound else self.queue.nominator.node_of(pod.uid)
        return PodReport(
            pod=pod.key,
            uid=pod.uid,
            scheduler_name=pod.scheduler_name,
            profiles=tuple(self.profiles),
            state=state,
            text=text,
            nominated_node=nominated or pod.nominated_node_name,
            **fields,
        )

    def _record_of(self, key: str, uid: str) -> PodRecord | None:
        record = self.history.get(key)
        return record if record is not None and record.uid == uid else None

    def _victims_left(self, pod: PodInfo | BoundPod) -> list[str]:
        record = self._record_of(pod.key, pod.uid)
        victims = () if record is None else record.victims
        bound = (self.cache.bound_pod(uid) for uid in victims)
        return [victim.key for victim in bound if victim is not None]

    def _wakes(self, profile: str, plugins: Sequence[str]) -> tuple[Wake, ...]:
        has_extenders = EXTENDER in plugins
        registered = enqueue_registrations(self.profiles[profile], has_extenders=has_extenders)
        return tuple(
            Wake(
                plugin=plugin,
                events=tuple(
                    dict.fromkeys(
                        name
                        for registration in registered.get(plugin, ())
                        for name in event_names(registration.event)
                    )
                ),
            )
            for plugin in plugins
        )

    def _leading_note(self) -> str:
        return "" if self.is_scheduling() else _NOT_LEADING


def event_names(event: ClusterEvent) -> list[str]:
    """Return the events that a registration covers, by their labels in logs and metrics."""
    if event.is_wildcard:
        return [event.label]
    actions = [action for action in (ActionType.ADD, ActionType.DELETE) if action & event.action]
    if event.action & ActionType.UPDATE == ActionType.UPDATE:
        actions.append(ActionType.UPDATE)
    else:
        actions += [action for action in _UPDATES if action & event.action]
    return [ClusterEvent(event.resource, action).label for action in actions]
