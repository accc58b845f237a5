"""Pods that failed and may be tried again once their backoff has ended.

Owns how long a pod backs off, and this part of the queue: one heap of refused pods, one of pods
that met an error. Never wakes by itself: somebody asks who is ready.
Upstream: pkg/scheduler/backend/queue/backoff_queue.go
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from kubesched.kit.clock import Clock
from kubesched.kit.heap import KeyedHeap
from kubesched.kit.log import Log, Ref
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.interface import QueueSettings, SortKey
from kubesched.queue.recorder import Recorder

BACKOFF = "Backoff"
ORDERING_WINDOW_S: Final = 1.0
"""Within one window pods are ordered by importance; a window is flushed as a whole."""
_NEVER_BACKED_OFF: Final = -math.inf


class BackoffQueue:
    """Two heaps by the end of the backoff."""

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
        self._refused: KeyedHeap[QueuedPodInfo] = KeyedHeap(self._by_expiry)
        self._failed: KeyedHeap[QueuedPodInfo] = KeyedHeap(self.backoff_time_s)

    def __len__(self) -> int:
        return len(self._refused) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._refused or key in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._refused
        yield from self._failed

    def _expiry_then_importance(self, queued: QueuedPodInfo) -> tuple[float, Any]:
        return self.backoff_time_s(queued), self._sort(queued)

    # -- how long ---------------------------------------------------------------------------------

    def is_pod_backing_off(self, queued: QueuedPodInfo) -> bool:
        """Return whether the pod's backoff goes on; it ends with the window it expires in."""
        return self.backoff_time_s(queued) >= self._align(self._clock.now_s())

    def backoff_time_s(self, queued: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends."""
        # Parity: backoff_queue.go getBackoffTime, v1.36.
        if queued.backoff_expiration_s is not None:
            return queued.backoff_expiration_s
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if count == 0 or self._settings.max_backoff_s == 0:
            return _NEVER_BACKED_OFF
        expiration_s = self._align(queued.timestamp_s + self.backoff_duration_s(count))
        queued.backoff_expiration_s = expiration_s
        return expiration_s

    def backoff_duration_s(self, count: int) -> float:
        """Return how long a pod backs off after so many failures: twice as long each time."""
        initial_s, max_s = self._settings.initial_backoff_s, self._settings.max_backoff_s
        doublings = count - 1
        # A float of 2**1024 overflows, and long before that the limit is reached.
        if doublings > 62 or initial_s * 2**doublings > max_s:
            return max_s
        return initial_s * 2**doublings

    def _align(self, time_s: float) -> float:
        return float(math.floor(time_s)) if self._aligned else time_s

    def next_completion_s(self) -> float:
        """Return when the next backoff will be over; infinity if none is under way."""
        heads = (self._refused.peek(), self._failed.peek())
        expiry_s = min((self.backoff_time_s(head) for head in heads if head), default=math.inf)
        return expiry_s + ORDERING_WINDOW_S

    # -- what is here -----------------------------------------------------------------------------

    def add(self, queued: QueuedPodInfo, event: str) -> None:
        """Take a pod in; the event is why it came."""
        key = queued.key
        heap, other, name = self._refused, self._failed, "podErrorBackoffQ"
        if not queued.has_rejectors:
            heap, other, name = self._failed, self._refused, "podBackoffQ"
        if heap.add_or_update(key, queued):
            self._recorder.pending_backoff.inc()
        if key in other:
            other.remove(key)
            self._recorder.pending_backoff.dec()
            message = f"BackoffQueue add() was called with a pod that was already in the {name}"
            self._log.error(message, pod=Ref(queued.pod.namespace, queued.pod.name))
            return
        self._recorder.incoming_backoff[event].inc()
        if self._log.enabled(5):
            self._log.info(
                "Pod moved to an internal scheduling queue",
                level=5,
                pod=Ref(queued.pod.namespace, queued.pod.name),
                event=event,
                queue=BACKOFF,
            )

    def resort(self, queued: QueuedPodInfo) -> None:
        """Give a pod that is here the place it has now."""
        heap = self._refused if queued.key in self._refused else self._failed
        heap.add_or_update(queued.key, queued)

    def reorder(self, order: SortKey) -> None:
        """Order pods whose backoff ends at once by something else from now on."""
        self._sort = order
        self._refused.reorder(self._by_expiry)

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return a pod that is here."""
        return self._refused.get(key) or self._failed.get(key)

    def remove(self, key: str) -> bool:
        """Take a pod out; return whether it was here."""
        if self._refused.remove(key) is None and self._failed.remove(key) is None:
            return False
        self._recorder.pending_backoff.dec()
        return True

    @property
    def has_refused(self) -> bool:
        """Return whether there is a pod that `pop_refused` would give."""
        return len(self._refused) > 0

    def pop_refused(self) -> QueuedPodInfo | None:
        """Take out the next refused pod, its backoff over or not; errors are never hurried."""
        queued = self._refused.pop()
        if queued is not None:
            self._recorder.pending_backoff.dec()
        return queued

    def pop_all_backoff_completed(self) -> list[QueuedPodInfo]:
        """Take out every pod whose backoff is over."""
        popped = []
        for heap in (self._refused, self._failed):
            while (head := heap.peek()) is not None and not self.is_pod_backing_off(head):
                heap.pop()
                self._recorder.pending_backoff.dec()
                popped.append(head)
        return popped
