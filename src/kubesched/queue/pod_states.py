"""The states of a pod in the queue: active, backing off, unschedulable or gated, in flight.

Owns the moves between them: a waiting pod is in one state only, and passes the PreEnqueue gate
before it becomes active. Never decides when a pod moves.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (moveToActiveQ, moveToBackoffQ),
active_queue.go, backoff_queue.go
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kubesched.framework.cluster_event import (
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
)
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.kit.clock import Clock
from kubesched.kit.heap import KeyedHeap
from kubesched.kit.log import Log
from kubesched.queue.hints import Strategy
from kubesched.queue.interface import POD_POPPED, Occurrence, QueueSettings, Recorder, SortKey
from kubesched.queue.nominator import Nominator
from kubesched.queue.queue_rules import RULES_CHANGED, QueueRules
from kubesched.queue.unschedulable_pods import UNSCHEDULABLE, UnschedulablePods
from kubesched.snapshot.pod_info import PodInfo

ACTIVE: Final = "Active"
BACKOFF: Final = "Backoff"
ORDERING_WINDOW_S: Final = 1.0
"""Pods whose backoff ends in the same window are ordered by priority and flushed together."""
GATED: Final = "Gated"
_MOVED: Final = "Pod moved to an internal scheduling queue"
_MOVED_GATED: Final = f"{_MOVED}, because the pod is gated"
_NOMINATING_EVENTS: Final = frozenset((UNSCHEDULED_POD_ADD.label, UNSCHEDULED_POD_UPDATE.label))


class PodStates:
    """The waiting pods: active, backing off, unschedulable or gated."""

    def __init__(
        self,
        rules: QueueRules,
        settings: QueueSettings,
        *,
        nominator: Nominator,
        clock: Clock,
        recorder: Recorder,
        log: Log,
    ) -> None:
        self.active = ActiveQueue(rules.order, recorder, log)
        self.backoff = BackoffQueue(rules.order, settings, clock=clock, recorder=recorder, log=log)
        self.unschedulable = UnschedulablePods(recorder)
        self._settings = settings
        self._gate = rules.gate
        self._nominator = nominator
        self._clock = clock
        self._recorder = recorder
        self._log = log

    # -- moving -----------------------------------------------------------------------------------

    def requeue(self, queued: QueuedPodInfo, strategy: Strategy, event: str) -> str:
        """Move a pod according to the strategy; return its new state."""
        # Parity: scheduling_queue.go requeuePodWithQueueingStrategy, v1.36.
        if strategy is Strategy.SKIP:
            self.unschedulable.add_or_update(queued, event)
            return UNSCHEDULABLE
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_pod_backing_off(queued):
            return BACKOFF if self._move_to_backoff(queued, event) else UNSCHEDULABLE
        return ACTIVE if self.move_to_active(queued, event) else UNSCHEDULABLE

    def move_to_active(
        self, queued: QueuedPodInfo, event: str, *, from_backoff: bool = False
    ) -> bool:
        """Make a pod active unless it is gated; return whether it is active."""
        # Parity: scheduling_queue.go moveToActiveQ, v1.36.
        if not (from_backoff and self._settings.pop_from_backoff_queue):
            self._gate.run(queued)
        if queued.is_gated:
            if queued.key not in self.active and queued.key not in self.backoff:
                self._hold_back(queued, event, _MOVED_GATED)
            return False
        if queued.initial_attempt_timestamp_s is None:
            queued.initial_attempt_timestamp_s = self._clock.now_s()
        self.unschedulable.remove(queued.key)
        self.backoff.remove(queued.key)
        self.active.add(queued, event)
        if event in _NOMINATING_EVENTS:
            self._nominator.add_nominated_pod(queued.pod)
        return True

    def _move_to_backoff(self, queued: QueuedPodInfo, event: str) -> bool:
        # Parity: scheduling_queue.go moveToBackoffQ, v1.36.
        if self._settings.pop_from_backoff_queue:
            self._gate.run(queued)
            if queued.is_gated:
                self._hold_back(queued, event, _MOVED)
                return False
        self.unschedulable.remove(queued.key)
        self.backoff.add(queued, event)
        return True

    def _hold_back(self, queued: QueuedPodInfo, event: str, message: str) -> None:
        if queued.key not in self.unschedulable:
            self._log.info(message, level=5, pod=queued.pod, event=event, queue=UNSCHEDULABLE)
        # A flushed pod that is gated is not tried, so this is cleared nowhere else.
        queued.was_flushed_from_unschedulable = False
        self.unschedulable.add_or_update(queued, event)

    # -- other rules ------------------------------------------------------------------------------

    def swap(self, rules: QueueRules) -> None:
        """Replace the rules: active pods pass the new gate, rejected pods are requeued."""
        self._gate = rules.gate
        self.active.reorder(rules.order)
        self.backoff.reorder(rules.order)
        # All are removed before the first is requeued: a group keeps its gating events.
        rejected = list(self.unschedulable)
        for queued in rejected:
            self.unschedulable.remove(queued.key)
        for queued in list(self.active):
            self._pass_gate_again(queued, self.active)
        if self._settings.pop_from_backoff_queue:  # Otherwise pods pass the gate when they leave.
            for queued in list(self.backoff):
                self._pass_gate_again(queued, self.backoff)
        for queued in rejected:
            self.requeue(queued, Strategy.AFTER_BACKOFF, RULES_CHANGED)

    def _pass_gate_again(self, queued: QueuedPodInfo, holder: ActiveQueue | BackoffQueue) -> None:
        self._gate.run(queued)
        if queued.is_gated:
            holder.remove(queued.key)
            self._hold_back(queued, RULES_CHANGED, _MOVED_GATED)

    def is_poppable(self, state: str) -> bool:
        """Return whether `pop` may return a pod in this state."""
        return state == ACTIVE or (state == BACKOFF and self._settings.pop_from_backoff_queue)

    def count_rejectors(self, queued: QueuedPodInfo, sign: int) -> None:
        """Add a pod to the number of pods that its plugins rejected, or with -1 subtract it."""
        if queued.has_rejectors:
            profile = queued.pod.scheduler_name
            for plugin in sorted(queued.rejector_plugins):
                self._recorder.rejected_by[plugin, profile].inc(sign)


class ActiveQueue(KeyedHeap[QueuedPodInfo]):
    """Pods to be tried next: a heap in the order of the QueueSort plugin."""

    def __init__(self, order: SortKey, recorder: Recorder, log: Log) -> None:
        super().__init__(order)
        self._recorder = recorder
        self._log = log

    def add(self, queued: QueuedPodInfo, event: str) -> None:
        """Add a pod; the event is the reason."""
        if self.add_or_update(queued.key, queued):
            self._recorder.pending_active.inc()
        self._recorder.incoming_active[event].inc()
        self._log.info(_MOVED, level=5, pod=queued.pod, event=event, queue=ACTIVE)

    def resort(self, queued: QueuedPodInfo) -> None:
        """Move a pod to the position that its new state gives it."""
        self.add_or_update(queued.key, queued)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Remove and return a pod; None if it is not here."""
        queued = super().remove(key)
        if queued is not None:
            self._recorder.pending_active.dec()
        return queued

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the pod to be tried next."""
        queued = super().pop()
        if queued is not None:
            self._recorder.pending_active.dec()
        return queued


class BackoffQueue:
    """Pods that back off: rejected ones and failed ones, in heaps by expiry."""

    def __init__(
        self,
        order: SortKey,
        settings: QueueSettings,
        *,
        clock: Clock,
        recorder: Recorder,
        log: Log,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._log = log
        self._sort = order
        self._aligned = settings.pop_from_backoff_queue
        self._by_expiry = self._expiry_then_importance if self._aligned else self.backoff_time_s
        self._rejected: KeyedHeap[QueuedPodInfo] = KeyedHeap(self._by_expiry)
        self._failed: KeyedHeap[QueuedPodInfo] = KeyedHeap(self.backoff_time_s)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._rejected
        yield from self._failed

    def _expiry_then_importance(self, queued: QueuedPodInfo) -> tuple[float, Any]:
        return self.backoff_time_s(queued), self._sort(queued)

    # -- durations --------------------------------------------------------------------------------

    def is_pod_backing_off(self, queued: QueuedPodInfo) -> bool:
        """Return whether the pod still backs off: until the window of its expiry has ended."""
        return self.backoff_time_s(queued) >= self._align(self._clock.now_s())

    def backoff_time_s(self, queued: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends."""
        # Parity: backoff_queue.go getBackoffTime, v1.36.
        if queued.backoff_expiration_s is not None:
            return queued.backoff_expiration_s
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if count == 0 or self._settings.max_backoff_s == 0:
            return -math.inf
        expiration_s = self._align(queued.timestamp_s + self.backoff_duration_s(count))
        queued.backoff_expiration_s = expiration_s
        return expiration_s

    def backoff_duration_s(self, count: int) -> float:
        """Return the backoff after `count` failures: doubled each time, capped."""
        initial_s, max_s = self._settings.initial_backoff_s, self._settings.max_backoff_s
        doublings = count - 1
        # 2.0**1024 overflows; the limit is reached long before.
        if doublings > 62 or initial_s * 2**doublings > max_s:
            return max_s
        return initial_s * 2**doublings

    def _align(self, time_s: float) -> float:
        return float(math.floor(time_s)) if self._aligned else time_s

    def next_completion_s(self) -> float:
        """Return when the next backoff ends; infinity if no pod backs off."""
        heads = (self._rejected.peek(), self._failed.peek())
        expiry_s = min((self.backoff_time_s(head) for head in heads if head), default=math.inf)
        return expiry_s + ORDERING_WINDOW_S

    # -- contents ---------------------------------------------------------------------------------

    def add(self, queued: QueuedPodInfo, event: str) -> None:
        """Add a pod; the event is the reason."""
        key = queued.key
        heap, other, name = self._rejected, self._failed, "podErrorBackoffQ"
        if not queued.has_rejectors:
            heap, other, name = self._failed, self._rejected, "podBackoffQ"
        if heap.add_or_update(key, queued):
            self._recorder.pending_backoff.inc()
        if key in other:
            other.remove(key)
            self._recorder.pending_backoff.dec()
            message = f"BackoffQueue add() was called with a pod that was already in the {name}"
            self._log.error(message, pod=queued.pod)
            return
        self._recorder.incoming_backoff[event].inc()
        self._log.info(_MOVED, level=5, pod=queued.pod, event=event, queue=BACKOFF)

    def resort(self, queued: QueuedPodInfo) -> None:
        """Move a pod to the position that its new state gives it."""
        heap = self._rejected if queued.key in self._rejected else self._failed
        heap.add_or_update(queued.key, queued)

    def reorder(self, order: SortKey) -> None:
        """Replace the order of pods whose backoff ends in the same window."""
        self._sort = order
        self._rejected.reorder(self._by_expiry)

    def get(self, key: str) -> QueuedPodInfo | None:
        return self._rejected.get(key) or self._failed.get(key)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Remove and return a pod; None if it is not here."""
        queued = self._rejected.remove(key) or self._failed.remove(key)
        if queued is not None:
            self._recorder.pending_backoff.dec()
        return queued

    def pop_rejected(self) -> QueuedPodInfo | None:
        """Remove and return the next rejected pod, even if it still backs off; None for none."""
        queued = self._rejected.pop()
        if queued is not None:
            self._recorder.pending_backoff.dec()
        return queued

    def pop_all_backoff_completed(self) -> list[QueuedPodInfo]:
        """Remove and return every pod whose backoff has ended."""
        popped = []
        for heap in (self._rejected, self._failed):
            while (head := heap.peek()) is not None and not self.is_pod_backing_off(head):
                heap.pop()
                self._recorder.pending_backoff.dec()
                popped.append(head)
        return popped


class InFlight:
    """Popped pods whose attempts have not ended, and the events since each was popped.

    A rejected pod is checked against those events when it returns: its attempt missed them.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # In the order of popping. If the first key of a dict is removed repeatedly, finding the
        # next one takes longer and longer; with an OrderedDict it does not.
        self._pods: OrderedDict[str, tuple[int, PodInfo]] = OrderedDict()
        self._events: list[Occurrence] = []
        self._dropped = 0
        """Number of events dropped from the front of the list."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def pods(self) -> list[PodInfo]:
        """Return the pods in the state in which they were popped."""
        return [pod for _, pod in self._pods.values()]

    @property
    def event_count(self) -> int:
        """Return the number of events kept."""
        return len(self._events)

    def start(self, pod: PodInfo) -> bool:
        """Start to keep events for a pod; return False if it is in flight already."""
        if pod.uid in self._pods:
            return False
        self._recorder.in_flight[POD_POPPED].inc()
        self._pods[pod.uid] = (self._dropped + len(self._events), pod)
        return True

    def add_event(self, occurrence: Occurrence) -> bool:
        """Keep an event if any pod is in flight; return whether it was kept."""
        if not self._pods:
            return False
        self._recorder.in_flight[occurrence.event.label].inc()
        self._events.append(occurrence)
        return True

    def add_pod_events(
        self, events: Iterable[ClusterEvent], old: PodInfo | None, new: PodInfo
    ) -> bool:
        """Keep events about a pod if that pod is in flight; return whether it is."""
        if new.uid not in self._pods:
            return False
        for event in events:
            self.add_event(Occurrence(event, old, new))
        return True

    def events_for(self, uid: str) -> list[Occurrence] | None:
        """Return the events since a pod was popped; None if it is not in flight."""
        entry = self._pods.get(uid)
        return None if entry is None else self._events[entry[0] - self._dropped :]

    def done(self, uid: str) -> None:
        """Remove a pod, and the events that no other pod in flight needs."""
        if self._pods.pop(uid, None) is None:
            return
        self._recorder.in_flight[POD_POPPED].dec()
        first = next(iter(self._pods.values()))[0] if self._pods else None
        unneeded = len(self._events) if first is None else first - self._dropped
        if unneeded:
            for label, count in Counter(e.event.label for e in self._events[:unneeded]).items():
                self._recorder.in_flight[label].dec(count)
            del self._events[:unneeded]
            self._dropped += unneeded

    def clear(self) -> None:
        for uid in list(self._pods):
            self.done(uid)
