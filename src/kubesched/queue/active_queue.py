"""Pods that are to be tried, the next one first.

Owns this part of the queue. Never waits for a pod.
Upstream: pkg/scheduler/backend/queue/active_queue.go
"""

from __future__ import annotations

from kubesched.kit.heap import KeyedHeap
from kubesched.kit.log import Log, Ref
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.interface import SortKey
from kubesched.queue.recorder import Recorder

ACTIVE = "Active"


class ActiveQueue:
    """A heap in the order of the QueueSort plugin."""

    def __init__(self, order: SortKey, recorder: Recorder, log: Log) -> None:
        self.heap: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
        self._recorder = recorder
        self._log = log

    def __len__(self) -> int:
        return len(self.heap)

    def __contains__(self, key: str) -> bool:
        return key in self.heap

    def add(self, queued: QueuedPodInfo, event: str) -> None:
        """Take a pod in; the event is why it came."""
        if self.heap.add_or_update(queued.key, queued):
            self._recorder.pending_active.inc()
        self._recorder.incoming_active[event].inc()
        if self._log.enabled(5):
            self._log.info(
                "Pod moved to an internal scheduling queue",
                level=5,
                pod=Ref(queued.pod.namespace, queued.pod.name),
                event=event,
                queue=ACTIVE,
            )

    def resort(self, queued: QueuedPodInfo) -> None:
        """Give a pod that is here the place it has now."""
        self.heap.add_or_update(queued.key, queued)

    def reorder(self, order: SortKey) -> None:
        """Order all pods here by something else from now on."""
        self.heap.reorder(order)

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return a pod that is here."""
        return self.heap.get(key)

    def remove(self, key: str) -> bool:
        """Take a pod out; return whether it was here."""
        if self.heap.remove(key) is None:
            return False
        self._recorder.pending_active.dec()
        return True

    def pop(self) -> QueuedPodInfo | None:
        """Take out the pod to be tried next."""
        queued = self.heap.pop()
        if queued is not None:
            self._recorder.pending_active.dec()
        return queued
