"""Who is tried next.

Owns the order of waiting pods, by the profile's queue sort, and which of those that did not fit are
worth another attempt. Never tries one.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubesched.model.pod_info import PodInfo
from kubesched.sim.world import Outcome

Less = Callable[["QueuedPod", "QueuedPod"], bool]


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A waiting pod, as a queue sort plugin compares it."""

    pod: PodInfo
    timestamp_s: float
    """When it came into the queue; a run counts arrivals instead of seconds."""
    attempts: int = 0
    rooms_made: int = 0
    """For how many rooms others had to go."""
    tried_at: int = -1
    """The world's version at the last attempt."""
    outcome: Outcome | None = None


class _Place:
    """A queued pod that compares by a queue sort."""

    __slots__ = ("less", "queued")

    def __init__(self, queued: QueuedPod, less: Less) -> None:
        self.queued = queued
        self.less = less

    def __lt__(self, other: _Place) -> bool:
        if self.less(self.queued, other.queued):
            return True
        if self.less(other.queued, self.queued):
            return False
        return self.queued.timestamp_s < other.queued.timestamp_s


class Queue:
    """Pods to be tried, and pods that wait for a change."""

    def __init__(self, less: Less) -> None:
        self._less = less
        self._active: list[_Place] = []
        self._waiting: dict[str, QueuedPod] = {}
        self._arrivals = 0

    def __repr__(self) -> str:
        return f"<Queue of {len(self._active)} active, {len(self._waiting)} waiting>"

    def add(self, pod: PodInfo) -> None:
        """Take in a new pod, as the last to arrive."""
        self._push(QueuedPod(pod, 0.0))

    def again(self, queued: QueuedPod) -> None:
        """Take back a pod that is worth another attempt, behind its equals."""
        self._push(queued)

    def put_aside(self, queued: QueuedPod) -> None:
        """Keep a pod that did not fit until something changes."""
        self._waiting[queued.pod.uid] = queued

    def pop(self, version: int) -> QueuedPod | None:
        """Return the next pod to try; None when no attempt could end otherwise than its last.

        Args:
            version: the world's; pods put aside come back once it has moved on.
        """
        if not self._active:
            for queued in [one for one in self._waiting.values() if one.tried_at != version]:
                del self._waiting[queued.pod.uid]
                self._push(queued)
        return heapq.heappop(self._active).queued if self._active else None

    def replace(self, pod: PodInfo) -> None:
        """Take over the new state of a waiting pod."""
        for queued in (one.queued for one in self._active):
            if queued.pod.uid == pod.uid:
                queued.pod = pod
        if pod.uid in self._waiting:
            self._waiting[pod.uid].pod = pod

    def left(self) -> Iterator[QueuedPod]:
        """Yield the pods that wait, in order of arrival."""
        everyone = [*self._waiting.values(), *(one.queued for one in self._active)]
        return iter(sorted(everyone, key=lambda queued: queued.timestamp_s))

    def __len__(self) -> int:
        return len(self._active) + len(self._waiting)

    def _push(self, queued: QueuedPod) -> None:
        self._arrivals += 1
        queued.timestamp_s = float(self._arrivals)
        heapq.heappush(self._active, _Place(queued, self._less))
