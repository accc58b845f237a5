"""The scheduling queue: every pod that waits for a node.

Owns in which part a pod waits and what moves it. Never blocks: `pop` gives nothing when nothing is
ready, and `on_ready` tells when that changes.

                     add ──► gate ──refused──► unschedulable (gated) ◄──────────────┐
                              │ passes                │ event, hints, timeout       │
                              ▼                       ▼                             │
      backoff ended ──► active ◄──not backing off── gate ──still refused────────────┘
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

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.cluster_event import (
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
from kubesched.model.cluster_event_changes import pod_scheduling_property_changes
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.active_queue import ACTIVE
from kubesched.queue.backoff_queue import BACKOFF
from kubesched.queue.hints import Strategy
from kubesched.queue.in_flight import InFlight, Occurrence
from kubesched.queue.interface import Less, PreCheck, ProfileQueueing, QueueSettings, SortKey
from kubesched.queue.nominator import Nominator
from kubesched.queue.parts import GATED, Parts
from kubesched.queue.recorder import Recorder
from kubesched.queue.rules import RULES_CHANGED_EVENT, QueueRules
from kubesched.queue.unschedulable_pods import UNSCHEDULABLE, Group

LEFT_OVER_PERIOD_S: Final = 30.0
IN_FLIGHT: Final = "InFlight"
_PRESENT_IN: Final = {
    ACTIVE: "the active queue",
    BACKOFF: "the backoff queue",
    UNSCHEDULABLE: "unschedulable queue",
    GATED: "unschedulable queue",
}
_POD_RESOURCES: Final = frozenset((EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD))


class SchedulingQueue:
    """Active, backing off and unschedulable pods, and those under way.

    Args:
        profiles: By scheduler name.
        less: Orders two pods, as the QueueSort plugin says.
        key: What `less` compares by, where the plugin offers it: several times as fast.
        settings: Backoff and time limits.
        clock: What all times here are read from.
        metrics: The scheduler's metrics, by upstream's names.
        log: Where moves are told, at upstream's levels.
        nominator: Who was promised which node.
    """

    def __init__(  # noqa: PLR0913 - what a queue stands on, each by its name
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
        self.on_ready: Callable[[], None] = _do_nothing
        """Called when `pop` may give a pod where it gave none before."""
        self.scheduling_cycle = 0
        """How many pods were popped."""
        self.nominator = nominator
        self._settings = settings
        self._clock = clock
        self._log = log
        self._recorder = Recorder(metrics)
        self._in_flight = InFlight(self._recorder)
        rules = self.rules_of(profiles, less=less, key=key)
        self._hints = rules.hints
        self._parts = Parts(
            rules, settings, nominator=nominator, clock=clock, recorder=self._recorder, log=log
        )
        self._active = self._parts.active
        self._backoff = self._parts.backoff
        self._unschedulable = self._parts.unschedulable
        self._next_left_over_s = clock.now_s() + LEFT_OVER_PERIOD_S
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<SchedulingQueue {self._parts.summary}; in flight:{len(self._in_flight)}>"

    # -- what it goes by --------------------------------------------------------------------------

    def rules_of(
        self, profiles: Mapping[str, ProfileQueueing], *, less: Less, key: SortKey | None
    ) -> QueueRules:
        """Return what profiles mean here, ready for `swap`; ValueError if one is wrong."""
        return QueueRules.of(
            profiles,
            less=less,
            key=key,
            clock=self._clock,
            recorder=self._recorder,
            log=self._log,
        )

    def swap(self, rules: QueueRules) -> None:
        """Go by other rules from now on: refused pods are tried again, those of nobody dropped."""
        for waiting in self.pending_pods()[0].values():
            for pod in waiting:
                if pod.scheduler_name not in rules.names:
                    self.delete(pod)
        self._hints = rules.hints
        self._parts.swap(rules)
        self._note_in_flight(Occurrence(RULES_CHANGED_EVENT, None, None))
        self.on_ready()

    # -- what the watch shows ---------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Take in a pod that is new."""
        queued = QueuedPodInfo(pod, self._clock.now_s())
        if self._parts.move_to_active(queued, UNSCHEDULED_POD_ADD.label):
            self.on_ready()

    def update(self, old: PodInfo | None, new: PodInfo) -> None:
        """Take over a pod's new state, wherever the pod waits."""
        # Parity: scheduling_queue.go Update, v1.36.
        events = [] if old is None else pod_scheduling_property_changes(old, new)
        if self._in_flight.add_pod_events(events, old, new):
            if self._log.enabled(6):
                self._log.info(
                    "The pod doesn't need to be queued for now because it's being scheduled and "
                    "will be queued back if necessary",
                    level=6,
                    pod=_ref(new),
                )
            return
        if old is not None and self._update_in_place(old, new):
            return
        queued = self._unschedulable.get(new.key)
        if queued is None:
            queued = QueuedPodInfo(new, self._clock.now_s())
            if self._parts.move_to_active(queued, UNSCHEDULED_POD_UPDATE.label):
                self.on_ready()
            return
        queued.pod = new
        if old is not None:
            self.nominator.update_nominated_pod(old, new)
        self._requeue_updated(queued, events, old)

    def _update_in_place(self, old: PodInfo, new: PodInfo) -> bool:
        for part in (self._active, self._backoff):
            queued = part.get(old.key)
            if queued is not None:
                queued.pod = new
                part.resort(queued)
                self.nominator.update_nominated_pod(old, new)
                return True
        return False

    def _requeue_updated(
        self, queued: QueuedPodInfo, events: Iterable[ClusterEvent], old: PodInfo | None
    ) -> None:
        for event in events:
            what = Occurrence(event, old, queued.pod)
            strategy = self._hints.is_pod_worth_requeuing(queued, what)
            part = self._parts.requeue(queued, strategy, event.label)
            if part == UNSCHEDULABLE:
                continue
            if self._log.enabled(5):
                self._log.info(
                    "Pod moved to an internal scheduling queue because the Pod is updated",
                    level=5,
                    pod=_ref(queued.pod),
                    event=event.label,
                    queue=part,
                )
            if self._parts.is_poppable(part):
                self.on_ready()
                break

    def delete(self, pod: PodInfo) -> None:
        """Drop a pod that is gone or has a node; one under way is left to its attempt."""
        # Parity: scheduling_queue.go Delete, v1.36: only what waits for a change is taken off the
        # gauge of refused pods.
        self.nominator.delete_nominated_pod(pod)
        key = pod.key
        if self._active.remove(key) or self._backoff.remove(key):
            return
        queued = self._unschedulable.get(key)
        if queued is not None:
            self._unschedulable.remove(key, gated=queued.is_gated)
            self._parts.count_rejectors(queued, -1)

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None = None
    ) -> None:
        """Wake the pods that an event may help; tell those under way about it."""
        # Parity: scheduling_queue.go movePodsToActiveOrBackoffQueue, v1.36.
        if not self._hints.is_of_interest(event):
            return
        what = Occurrence(event, old, new)
        subject = self._subject_of(what)
        its_group = self._unschedulable.group_of(subject) if subject else None
        is_ready = False
        for group in self._unschedulable.groups:
            if _is_out_of_reach(group, event):
                continue
            of_group = subject if group is its_group else None
            worth = self._hints.worth_requeuing(group, what, of_group)
            if self._log.enabled(5):
                self._log_unhelped(group, worth, event, pre_check)
            for strategy, pods in worth:
                for queued in pods:
                    if pre_check is None or pre_check(queued.pod):
                        is_ready |= self._wake(queued, strategy, event.label)
        self._note_in_flight(what)
        if is_ready:
            self.on_ready()

    def _wake(self, queued: QueuedPodInfo, strategy: Strategy, event: str) -> bool:
        self._unschedulable.remove(queued.key, gated=queued.is_gated)
        return self._parts.is_poppable(self._parts.requeue(queued, strategy, event))

    def _subject_of(self, what: Occurrence) -> QueuedPodInfo | None:
        """Return the waiting pod that the event is about, if it is about one."""
        about = what.new if what.new is not None else what.old
        if about is None or what.event.resource not in _POD_RESOURCES:
            return None
        queued = self._unschedulable.get(f"{about.namespace}/{about.name}")
        return queued if queued is not None and queued.pod.uid == about.uid else None

    def _note_in_flight(self, what: Occurrence) -> None:
        if self._in_flight.add_event(what) and self._log.enabled(5):
            label = what.event.label
            self._log.info("Event received while pods are in flight", level=5, event=label)

    def _log_unhelped(
        self, group: Group, worth: Iterable[Any], event: ClusterEvent, check: PreCheck | None
    ) -> None:
        helped = {queued.key for _, pods in worth for queued in pods}
        for queued in group:
            if queued.key not in helped and (check is None or check(queued.pod)):
                self._log.info(
                    "Event is not making pod schedulable",
                    level=5,
                    pod=_ref(queued.pod),
                    event=event.label,
                )

    # -- what the scheduler does ------------------------------------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """Take out the pod to be tried next; None if none is ready."""
        # Parity: active_queue.go unlockedPop, v1.36.
        while True:
            queued = self._active.pop()
            if queued is None and self._settings.pop_from_backoff_queue:
                queued = self._backoff.pop_refused()
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
        self._parts.count_rejectors(queued, -1)
        return queued

    def done(self, uid: str) -> None:
        """Stop keeping events for a popped pod; whoever pops must call this, once or more."""
        self._in_flight.done(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo) -> bool:
        """Take back a popped pod that was not placed; return whether it was not here already."""
        # Parity: scheduling_queue.go AddUnschedulableIfNotPresent, v1.36.
        try:
            if (part := self._parts.where(queued.key)) is not None:
                problem = f"Pod {queued.key} is already present in {_PRESENT_IN[part]}"
                self._log.error("Error occurred", err=problem)
                return False
            self._note_failure(queued)
            self._parts.count_rejectors(queued, +1)
            strategy = self._strategy_for_in_flight(queued)
            part = self._parts.requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE)
            if self._log.enabled(3):
                self._log_requeued(queued, strategy, part)
            if self._parts.is_poppable(part):
                self.on_ready()
            return True
        finally:
            self._in_flight.done(queued.pod.uid)

    def _note_failure(self, queued: QueuedPodInfo) -> None:
        if queued.has_rejectors:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp_s = self._clock.now_s()
        queued.backoff_expiration_s = None
        queued.was_flushed_from_unschedulable = False
        queued.flush_timestamp_s = None

    def _strategy_for_in_flight(self, queued: QueuedPodInfo) -> Strategy:
        # Parity: scheduling_queue.go determineSchedulingHintForInFlightPod, v1.36.
        if not queued.has_rejectors:
            return Strategy.AFTER_BACKOFF
        events = self._events_for(queued)
        if events is None:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for what in events:
            if self._log.enabled(5):
                self._log.info(
                    "Checking event for in-flight pod",
                    level=5,
                    pod=_ref(queued.pod),
                    event=what.event.label,
                )
            strategy = max(strategy, self._hints.is_pod_worth_requeuing(queued, what))
            if strategy is Strategy.IMMEDIATELY or (strategy and not queued.pending_plugins):
                break
        return strategy

    def _events_for(self, queued: QueuedPodInfo) -> list[Occurrence] | None:
        if self._log.enabled(5):
            self._log.info(
                "Checking events for in-flight pod",
                level=5,
                pod=_ref(queued.pod),
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
                pod=_ref(queued.pod),
            )
        return events

    def _log_requeued(self, queued: QueuedPodInfo, strategy: Strategy, part: str) -> None:
        self._log.info(
            "Pod moved to an internal scheduling queue",
            level=3,
            pod=_ref(queued.pod),
            event=SCHEDULE_ATTEMPT_FAILURE,
            queue=part,
            schedulingCycle=self.scheduling_cycle,
            hint=int(strategy),
            **{"unschedulable plugins": _as_set(queued.rejector_plugins)},
        )

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Have waiting pods tried at once, their backoff over or not."""
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
            return self._parts.move_to_active(queued, FORCE_ACTIVATE)
        queued = self._backoff.get(pod.key)
        if queued is None:
            return False
        self._backoff.remove(pod.key)
        return self._parts.move_to_active(queued, FORCE_ACTIVATE, from_backoff=True)

    # -- what time does ---------------------------------------------------------------------------

    def next_flush_at_s(self) -> float:
        """Return when `flush_due` will have something to do; infinity if nothing waits for time."""
        left_over_s = self._next_left_over_s if len(self._unschedulable) else math.inf
        return min(self._backoff.next_completion_s(), left_over_s)

    def flush_due(self) -> None:
        """Do what time has made due; meant to be called at `next_flush_at_s`, or any time."""
        self.flush_backoff_queue_completed()
        now_s = self._clock.now_s()
        if now_s >= self._next_left_over_s:
            periods = math.floor((now_s - self._next_left_over_s) / LEFT_OVER_PERIOD_S) + 1
            self._next_left_over_s += periods * LEFT_OVER_PERIOD_S
            self.flush_unschedulable_pods_left_over()

    def flush_backoff_queue_completed(self) -> None:
        """Have the pods tried whose backoff is over."""
        is_ready = False
        for queued in self._backoff.pop_all_backoff_completed():
            is_ready |= self._parts.move_to_active(queued, BACKOFF_COMPLETE, from_backoff=True)
        if is_ready:
            self.on_ready()

    def flush_unschedulable_pods_left_over(self) -> None:
        """Have the pods tried that no event helped for too long, lest a hint is wrong."""
        # Parity: scheduling_queue.go flushUnschedulablePodsLeftover, v1.36.
        now_s = self._clock.now_s()
        left_over = []
        for queued in self._unschedulable:
            last_s = queued.timestamp_s
            if queued.flush_timestamp_s is not None:
                last_s = max(last_s, queued.flush_timestamp_s)
            if now_s - last_s > self._settings.max_in_unschedulable_s:
                queued.was_flushed_from_unschedulable = True
                queued.flush_timestamp_s = now_s
                left_over.append(queued)
        if not left_over:
            return
        what = Occurrence(UNSCHEDULABLE_TIMEOUT_EVENT, None, None)
        is_ready = False
        for queued in left_over:
            strategy = self._hints.is_pod_worth_requeuing(queued, what)
            is_ready |= self._wake(queued, strategy, what.event.label)
        self._note_in_flight(what)
        if is_ready:
            self.on_ready()

    def close(self) -> None:
        """End: nothing is under way any more, and whoever waits for `on_ready` is woken."""
        self._is_closed = True
        self._in_flight.clear()
        self.on_ready()

    # -- for people and tests ---------------------------------------------------------------------

    def registered_actions(self) -> dict[str, ActionType]:
        """Return every resource that some plugin wants to hear of, with the actions."""
        return self._hints.registered_actions()

    def __len__(self) -> int:
        return len(self._parts)

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return a waiting pod by `namespace/name`."""
        return self._parts.get(key)

    def where(self, key: str) -> str | None:
        """Return where a pod is: Active, Backoff, Unschedulable, Gated, InFlight; None: nowhere."""
        part = self._parts.where(key)
        if part is not None:
            return part
        return IN_FLIGHT if any(pod.key == key for pod in self._in_flight.pods) else None

    def is_gated(self, key: str) -> bool:
        """Return whether a plugin keeps a pod from being tried."""
        return self._parts.where(key) == GATED

    def backoff_expiration_s(self, queued: QueuedPodInfo) -> float:
        """Return when a pod's backoff ends; minus infinity if it never failed."""
        return self._backoff.backoff_time_s(queued)

    def in_flight_pods(self) -> list[PodInfo]:
        """Return the pods that were popped and are not done."""
        return self._in_flight.pods

    def pending_pods(self) -> tuple[dict[str, list[PodInfo]], str]:
        """Return the waiting pods by part, and upstream's summary of them."""
        return self._parts.pods(), self._parts.summary


def _is_out_of_reach(group: Group, event: ClusterEvent) -> bool:
    """Return whether the pods are gated by a plugin that does not care about the event."""
    gating_events = group.gating_events
    if gating_events is None or event.is_wildcard:
        return False
    return not any(registered.covers(event) for registered in gating_events)


def _as_set(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return names as Go's sets are logged."""
    return {name: {} for name in sorted(names)}


def _ref(pod: PodInfo) -> Ref:
    return Ref(pod.namespace, pod.name)


def _do_nothing() -> None:
    pass
