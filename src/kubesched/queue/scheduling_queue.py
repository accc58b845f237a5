"""The scheduling queue: every pod that waits for a node.

Owns the states of pods and the moves between them. Never blocks: `pop` returns None when no pod is
ready, and `on_ready` is called when that changes.

                     add ──► gate ──rejected─► unschedulable (gated) ◄──────────────┐
                              │ passes                │ event, hints, timeout       │
                              ▼                       ▼                             │
      backoff ended ──► active ◄──not backing off── gate ──still rejected───────────┘
           ▲                  │ pop                   │ backing off
           │                  ▼                       ▼
        backoff ──pop──► in flight ──failed──► backoff, active or unschedulable
                              │ done
                              ▼ (gone)

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kubesched.framework.cluster_event import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    FORCE_ACTIVATE_EVENT,
    POP_FROM_BACKOFF_QUEUE,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT_EVENT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
)
from kubesched.framework.object_changes import pod_scheduling_property_changes
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.kit.clock import Clock
from kubesched.kit.heap import order_by_less
from kubesched.kit.log import Log
from kubesched.queue.hints import Hints, Strategy
from kubesched.queue.interface import (
    Less,
    Occurrence,
    PreCheck,
    ProfileQueueing,
    QueueSettings,
    Recorder,
    SortKey,
)
from kubesched.queue.nominator import Nominator
from kubesched.queue.pod_states import ACTIVE, BACKOFF, GATED, InFlight, PodStates
from kubesched.queue.queue_rules import RULES_CHANGED_EVENT, Gate, QueueRules
from kubesched.queue.unschedulable_pods import UNSCHEDULABLE, Group
from kubesched.snapshot.pod_info import PodInfo

LEFT_OVER_PERIOD_S: Final = 30.0
_PRESENT_IN: Final = {
    ACTIVE: "the active queue",
    BACKOFF: "the backoff queue",
    UNSCHEDULABLE: "unschedulable queue",
    GATED: "unschedulable queue",
}
_POD_RESOURCES: Final = frozenset((EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD))


class SchedulingQueue:
    """Active, backing off, unschedulable and gated pods, and those in flight.

    Args:
        profiles: By scheduler name.
        less: Compares two pods: the QueueSort plugin's function.
        key: The plugin's sort key, if it has one: several times as fast as `less`.
        settings: Backoff and time limits.
        clock: The source of all times here.
        metrics: The scheduler's metrics, by upstream's names.
        log: Where moves are logged, at upstream's levels.
        nominator: The nominations of pending pods.
    """

    def __init__(  # noqa: PLR0913 - its dependencies, each by name
        self,
        profiles: Mapping[str, ProfileQueueing],
        *,
        less: Less,
        key: SortKey | None = None,
        settings: QueueSettings,
        clock: Clock,
        metrics: Any,
        log: Log,
        nominator: Nominator,
    ) -> None:
        self.on_ready: Callable[[], None] = lambda: None
        """Called when `pop` may return a pod after it returned None."""
        self.scheduling_cycle = 0
        """Number of pods popped so far."""
        self.nominator = nominator
        self._settings = settings
        self._clock = clock
        self._log = log
        self._recorder = Recorder(metrics)
        self._in_flight = InFlight(self._recorder)
        rules = self.rules_of(profiles, less=less, key=key)
        self._hints = rules.hints
        self._states = PodStates(
            rules, settings, nominator=nominator, clock=clock, recorder=self._recorder, log=log
        )
        self._active = self._states.active
        self._backoff = self._states.backoff
        self._unschedulable = self._states.unschedulable
        self._next_left_over_s = clock.now_s() + LEFT_OVER_PERIOD_S
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<SchedulingQueue {self.pending_pods()[1]}; in flight:{len(self._in_flight)}>"

    # -- rules ------------------------------------------------------------------------------------

    def rules_of(
        self, profiles: Mapping[str, ProfileQueueing], *, less: Less, key: SortKey | None
    ) -> QueueRules:
        """Build the rules of some profiles for `swap`; ValueError for an invalid registration."""
        clock, recorder, log = self._clock, self._recorder, self._log
        hints = Hints(profiles, clock=clock, recorder=recorder, log=log)
        gate = Gate(profiles, hints.events_of, clock=clock, recorder=recorder, log=log)
        return QueueRules(frozenset(profiles), key or order_by_less(less), gate, hints)

    def swap(self, rules: QueueRules) -> None:
        """Replace the rules: rejected pods are tried again, pods without a profile are dropped."""
        for waiting in self.pending_pods()[0].values():
            for pod in waiting:
                if pod.scheduler_name not in rules.names:
                    self.delete(pod)
        self._hints = rules.hints
        self._states.swap(rules)
        self._keep_for_in_flight(Occurrence(RULES_CHANGED_EVENT, None, None))
        self.on_ready()

    # -- watch events -----------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Add a new pod."""
        queued = QueuedPodInfo(pod, self._clock.now_s())
        if self._states.move_to_active(queued, UNSCHEDULED_POD_ADD.label):
            self.on_ready()

    def update(self, old: PodInfo | None, new: PodInfo) -> None:
        """Update a pod in any state."""
        # Parity: scheduling_queue.go Update, v1.36.
        events = [] if old is None else pod_scheduling_property_changes(old, new)
        if self._in_flight.add_pod_events(events, old, new):
            self._log.info(
                "The pod doesn't need to be queued for now because it's being scheduled and "
                "will be queued back if necessary",
                level=6,
                pod=new,
            )
            return
        if old is not None and self._update_in_place(old, new):
            return
        queued = self._unschedulable.get(new.key)
        if queued is None:
            queued = QueuedPodInfo(new, self._clock.now_s())
            if self._states.move_to_active(queued, UNSCHEDULED_POD_UPDATE.label):
                self.on_ready()
            return
        queued.pod = new
        if old is not None:
            self.nominator.update_nominated_pod(old, new)
        self._requeue_updated(queued, events, old)

    def _update_in_place(self, old: PodInfo, new: PodInfo) -> bool:
        for holder in (self._active, self._backoff):
            queued = holder.get(old.key)
            if queued is not None:
                queued.pod = new
                holder.resort(queued)
                self.nominator.update_nominated_pod(old, new)
                return True
        return False

    def _requeue_updated(
        self, queued: QueuedPodInfo, events: Iterable[ClusterEvent], old: PodInfo | None
    ) -> None:
        for event in events:
            occurrence = Occurrence(event, old, queued.pod)
            strategy = self._hints.is_pod_worth_requeuing(queued, occurrence)
            state = self._states.requeue(queued, strategy, event.label)
            if state == UNSCHEDULABLE:
                continue
            message = "Pod moved to an internal scheduling queue because the Pod is updated"
            self._log.info(message, level=5, pod=queued.pod, event=event.label, queue=state)
            if self._states.is_poppable(state):
                self.on_ready()
                break

    def delete(self, pod: PodInfo) -> None:
        """Remove a pod that was deleted or has a node; a pod in flight is left to its attempt."""
        # Parity: scheduling_queue.go Delete, v1.36: only a pod that waits for an event is taken off
        # the gauge of rejected pods.
        self.nominator.delete_nominated_pod(pod)
        key = pod.key
        if self._active.remove(key) or self._backoff.remove(key):
            return
        queued = self._unschedulable.get(key)
        if queued is not None:
            self._unschedulable.remove(key)
            self._states.count_rejectors(queued, -1)

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None = None
    ) -> None:
        """Requeue the pods that an event may help; keep the event for pods in flight."""
        # Parity: scheduling_queue.go movePodsToActiveOrBackoffQueue, v1.36.
        if not self._hints.is_of_interest(event):
            return
        occurrence = Occurrence(event, old, new)
        subject = self._subject_of(occurrence)
        subject_group = self._unschedulable.group_of(subject) if subject else None
        is_ready = False
        for group in self._unschedulable.groups:
            if _is_gated_for(group, event):
                continue
            group_subject = subject if group is subject_group else None
            worth = self._hints.worth_requeuing(group, occurrence, group_subject)
            if self._log.enabled(5):
                self._log_not_helped(group, worth, event, pre_check)
            for strategy, pods in worth:
                for queued in pods:
                    if pre_check is None or pre_check(queued.pod):
                        is_ready |= self._wake(queued, strategy, event.label)
        self._keep_for_in_flight(occurrence)
        if is_ready:
            self.on_ready()

    def _wake(self, queued: QueuedPodInfo, strategy: Strategy, event: str) -> bool:
        self._unschedulable.remove(queued.key)
        return self._states.is_poppable(self._states.requeue(queued, strategy, event))

    def _subject_of(self, occurrence: Occurrence) -> QueuedPodInfo | None:
        """Return the waiting pod that the event is about, if any."""
        about = occurrence.old if occurrence.new is None else occurrence.new
        if about is None or occurrence.event.resource not in _POD_RESOURCES:
            return None
        queued = self._unschedulable.get(f"{about.namespace}/{about.name}")
        return queued if queued is not None and queued.pod.uid == about.uid else None

    def _keep_for_in_flight(self, occurrence: Occurrence) -> None:
        if self._in_flight.add_event(occurrence):
            label = occurrence.event.label
            self._log.info("Event received while pods are in flight", level=5, event=label)

    def _log_not_helped(
        self, group: Group, worth: Iterable[Any], event: ClusterEvent, check: PreCheck | None
    ) -> None:
        helped = {queued.key for _, pods in worth for queued in pods}
        for queued in group:
            if queued.key not in helped and (check is None or check(queued.pod)):
                message = "Event is not making pod schedulable"
                self._log.info(message, level=5, pod=queued.pod, event=event.label)

    # -- attempts ---------------------------------------------------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the pod to be tried next; None if none is ready."""
        # Parity: active_queue.go unlockedPop, v1.36.
        while True:
            queued = self._active.pop()
            if queued is None and self._settings.pop_from_backoff_queue:
                queued = self._backoff.pop_rejected()
                if queued is not None:
                    self._recorder.incoming_active[POP_FROM_BACKOFF_QUEUE].inc()
            if queued is None:
                if self._is_closed:
                    self._log.info("Scheduling queue is closed", level=2)
                return None
            queued.attempts += 1
            if self._in_flight.start(queued.pod):
                break
            problem = f"the same pod is tracked in multiple places in the scheduler: {queued.key}"
            self._log.error("Discarding the popped pod", err=problem)
        self.scheduling_cycle += 1
        self._states.count_rejectors(queued, -1)
        return queued

    def done(self, uid: str) -> None:
        """Stop keeping events for a popped pod; must follow every `pop`, once or more."""
        self._in_flight.done(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo) -> bool:
        """Requeue a popped pod that was not placed; return False if it is queued already."""
        # Parity: scheduling_queue.go AddUnschedulableIfNotPresent, v1.36.
        try:
            if (state := self._waiting_state(queued.key)) is not None:
                problem = f"Pod {queued.key} is already present in {_PRESENT_IN[state]}"
                self._log.error("Error occurred", err=problem)
                return False
            if queued.has_rejectors:
                queued.unschedulable_count += 1
                queued.consecutive_errors_count = 0
            else:
                queued.consecutive_errors_count += 1
            queued.timestamp_s = self._clock.now_s()
            queued.backoff_expiration_s = None
            queued.was_flushed_from_unschedulable = False
            queued.flush_timestamp_s = None
            self._states.count_rejectors(queued, +1)
            strategy = self._strategy_for_in_flight(queued)
            state = self._states.requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE)
            if self._log.enabled(3):
                self._log.info(
                    "Pod moved to an internal scheduling queue",
                    level=3,
                    pod=queued.pod,
                    event=SCHEDULE_ATTEMPT_FAILURE,
                    queue=state,
                    schedulingCycle=self.scheduling_cycle,
                    hint=int(strategy),
                    **{"unschedulable plugins": _as_set(queued.rejector_plugins)},
                )
            if self._states.is_poppable(state):
                self.on_ready()
            return True
        finally:
            self._in_flight.done(queued.pod.uid)

    def _strategy_for_in_flight(self, queued: QueuedPodInfo) -> Strategy:
        # Parity: scheduling_queue.go determineSchedulingHintForInFlightPod, v1.36.
        if not queued.has_rejectors:
            return Strategy.AFTER_BACKOFF
        if self._log.enabled(5):
            self._log.info(
                "Checking events for in-flight pod",
                level=5,
                pod=queued.pod,
                unschedulablePlugins=_as_set(queued.unschedulable_plugins),
                inFlightEventsSize=self._in_flight.event_count + len(self._in_flight),
                inFlightPodsSize=len(self._in_flight),
            )
        events = self._in_flight.events_for(queued.pod.uid)
        if events is None:
            self._log.error(
                "Error getting cluster events for pod",
                err="in flight Pod isn't found in the scheduling queue. If you see this error log, "
                "it's likely a bug in the scheduler",
                pod=queued.pod,
            )
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for occurrence in events:
            message, label = "Checking event for in-flight pod", occurrence.event.label
            self._log.info(message, level=5, pod=queued.pod, event=label)
            strategy = max(strategy, self._hints.is_pod_worth_requeuing(queued, occurrence))
            if strategy is Strategy.IMMEDIATELY or (strategy and not queued.pending_plugins):
                break
        return strategy

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Make waiting pods active at once, even if they back off."""
        # Parity: scheduling_queue.go Activate, v1.36.
        is_ready = False
        for pod in pods:
            if self._activate(pod):
                is_ready = True
            else:
                self._in_flight.add_pod_events((FORCE_ACTIVATE_EVENT,), None, pod)
        if is_ready:
            self.on_ready()

    def _activate(self, pod: PodInfo) -> bool:
        queued = self._unschedulable.get(pod.key)
        if queued is not None:
            return self._states.move_to_active(queued, FORCE_ACTIVATE)
        queued = self._backoff.remove(pod.key)
        if queued is None:
            return False
        return self._states.move_to_active(queued, FORCE_ACTIVATE, from_backoff=True)

    # -- timers -----------------------------------------------------------------------------------

    def next_flush_at_s(self) -> float:
        """Return when `flush_due` is to be called next; infinity if no pod waits for a timer."""
        left_over_s = self._next_left_over_s if len(self._unschedulable) else math.inf
        return min(self._backoff.next_completion_s(), left_over_s)

    def flush_due(self) -> None:
        """Flush pods whose backoff ended or that waited too long; may be called at any time."""
        self.flush_backoff_queue_completed()
        now_s = self._clock.now_s()
        if now_s >= self._next_left_over_s:
            periods = math.floor((now_s - self._next_left_over_s) / LEFT_OVER_PERIOD_S) + 1
            self._next_left_over_s += periods * LEFT_OVER_PERIOD_S
            self.flush_unschedulable_pods_left_over()

    def flush_backoff_queue_completed(self) -> None:
        """Make the pods active whose backoff has ended."""
        is_ready = False
        for queued in self._backoff.pop_all_backoff_completed():
            is_ready |= self._states.move_to_active(queued, BACKOFF_COMPLETE, from_backoff=True)
        if is_ready:
            self.on_ready()

    def flush_unschedulable_pods_left_over(self) -> None:
        """Requeue the pods that have waited too long for an event, in case a hint is wrong."""
        # Parity: scheduling_queue.go flushUnschedulablePodsLeftover, v1.36.
        now_s = self._clock.now_s()
        left_over = []
        for queued in self._unschedulable:
            last_s = max(queued.timestamp_s, queued.flush_timestamp_s or 0.0)
            if now_s - last_s > self._settings.max_in_unschedulable_s:
                queued.was_flushed_from_unschedulable = True
                queued.flush_timestamp_s = now_s
                left_over.append(queued)
        if not left_over:
            return
        occurrence = Occurrence(UNSCHEDULABLE_TIMEOUT_EVENT, None, None)
        is_ready = False
        for queued in left_over:
            strategy = self._hints.is_pod_worth_requeuing(queued, occurrence)
            is_ready |= self._wake(queued, strategy, occurrence.event.label)
        self._keep_for_in_flight(occurrence)
        if is_ready:
            self.on_ready()

    def close(self) -> None:
        """Close the queue: no pod is in flight any more, and `on_ready` is called."""
        self._is_closed = True
        self._in_flight.clear()
        self.on_ready()

    # -- inspection -------------------------------------------------------------------------------

    def registered_actions(self) -> dict[str, ActionType]:
        """Return the resources that plugins registered for, with the actions."""
        return self._hints.registered_actions()

    def __len__(self) -> int:
        return len(self._active) + len(self._backoff) + len(self._unschedulable)

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return a waiting pod by `namespace/name`."""
        return self._backoff.get(key) or self._unschedulable.get(key) or self._active.get(key)

    def where(self, key: str) -> str | None:
        """Return Active, Backoff, Unschedulable, Gated or InFlight; None if the pod is not here."""
        if (state := self._waiting_state(key)) is not None:
            return state
        return "InFlight" if any(pod.key == key for pod in self._in_flight.pods) else None

    def _waiting_state(self, key: str) -> str | None:
        if key in self._active:
            return ACTIVE
        if key in self._backoff:
            return BACKOFF
        queued = self._unschedulable.get(key)
        if queued is None:
            return None
        return GATED if queued.is_gated else UNSCHEDULABLE

    def is_gated(self, key: str) -> bool:
        """Return whether a PreEnqueue plugin gates a pod."""
        return self._waiting_state(key) == GATED

    def backoff_expiration_s(self, queued: QueuedPodInfo) -> float:
        """Return when a pod's backoff ends; minus infinity if it never failed."""
        return self._backoff.backoff_time_s(queued)

    def in_flight_pods(self) -> list[PodInfo]:
        """Return the pods that were popped and are not done yet."""
        return self._in_flight.pods

    def pending_pods(self) -> tuple[dict[str, list[PodInfo]], str]:
        """Return the waiting pods by state, and upstream's summary of them."""
        pods = {
            ACTIVE: [queued.pod for queued in self._active],
            BACKOFF: [queued.pod for queued in self._backoff],
            UNSCHEDULABLE: [queued.pod for queued in self._unschedulable],
        }
        return pods, (
            f"activeQ:{len(self._active)}; backoffQ:{len(self._backoff)}; "
            f"unschedulablePods:{len(self._unschedulable)}"
        )


def _is_gated_for(group: Group, event: ClusterEvent) -> bool:
    """Return whether the pods are gated by a plugin that did not register for the event."""
    gating_events = group.gating_events
    if gating_events is None or event.is_wildcard:
        return False
    return not any(registered.covers(event) for registered in gating_events)


def _as_set(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return names as Go's sets are logged."""
    return {name: {} for name in sorted(names)}
