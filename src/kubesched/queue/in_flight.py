"""Pods that were taken out and are not settled yet, and what happened meanwhile.

Owns the events that came after each such pod was popped: whoever comes back refused is asked about
them, since they were too late for its attempt. Never judges an event.
Upstream: pkg/scheduler/backend/queue/active_queue.go (inFlightPods, inFlightEvents)
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from kubesched.model.cluster_event import ClusterEvent
from kubesched.model.pod_info import PodInfo
from kubesched.queue.recorder import POD_POPPED, Recorder


class Occurrence(NamedTuple):
    """An event with the objects it is about; old is None for what came, new for what went."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """The pods under way, and one list of events for all of them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Ordered by when they were popped. A dict that loses its head again and again takes ever
        # longer to find the next one; an OrderedDict does not.
        self._pods: OrderedDict[str, tuple[int, PodInfo]] = OrderedDict()
        self._events: list[Occurrence] = []
        self._dropped = 0
        """How many events were dropped from the front of the list so far."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def pods(self) -> list[PodInfo]:
        """Return the pods as they were when popped."""
        return [pod for _, pod in self._pods.values()]

    @property
    def event_count(self) -> int:
        """Return how many events are kept."""
        return len(self._events)

    def start(self, pod: PodInfo) -> bool:
        """Begin to keep events for a pod; return whether it was not under way already."""
        if pod.uid in self._pods:
            return False
        self._recorder.in_flight[POD_POPPED].inc()
        self._pods[pod.uid] = (self._dropped + len(self._events), pod)
        return True

    def add_event(self, what: Occurrence) -> bool:
        """Keep an event if any pod is under way; return whether it was kept."""
        if not self._pods:
            return False
        self._recorder.in_flight[what.event.label].inc()
        self._events.append(what)
        return True

    def add_pod_events(
        self, events: Iterable[ClusterEvent], old: PodInfo | None, new: PodInfo
    ) -> bool:
        """Keep events about a pod if that very pod is under way; return whether it is."""
        if new.uid not in self._pods:
            return False
        for event in events:
            self.add_event(Occurrence(event, old, new))
        return True

    def events_for(self, uid: str) -> list[Occurrence] | None:
        """Return what happened since a pod was popped; None if it is not under way."""
        known = self._pods.get(uid)
        return None if known is None else self._events[known[0] - self._dropped :]

    def done(self, uid: str) -> None:
        """Forget a pod, and the events that nobody under way has yet to hear of."""
        known = self._pods.pop(uid, None)
        if known is None:
            return
        self._recorder.in_flight[POD_POPPED].dec()
        first = next(iter(self._pods.values()))[0] if self._pods else None
        unheard = len(self._events) if first is None else first - self._dropped
        if unheard:
            for label, count in Counter(e.event.label for e in self._events[:unheard]).items():
                self._recorder.in_flight[label].dec(count)
            del self._events[:unheard]
            self._dropped += unheard

    def clear(self) -> None:
        """Forget all."""
        for uid in list(self._pods):
            self.done(uid)
