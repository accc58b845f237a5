"""Orders the queue: important pods first, then those that wait longest.

Owns the comparison of two queued pods. Never moves one.
Upstream: pkg/scheduler/framework/plugins/queuesort/priority_sort.go
"""

from __future__ import annotations

from typing import Protocol

from kubesched.framework.handle import Handle
from kubesched.model.pod_info import PodInfo


class QueuedPod(Protocol):
    """What the comparison reads of a queued pod."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def timestamp_s(self) -> float: ...


class PrioritySort:
    """Puts the pod of higher priority first, and of equals the one queued earlier."""

    name = "PrioritySort"

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Return whether the first is to be tried before the second."""
        if first.pod.priority != second.pod.priority:
            return first.pod.priority > second.pod.priority
        return first.timestamp_s < second.timestamp_s

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Return what `less` compares: the smaller goes first."""
        return -queued.pod.priority, queued.timestamp_s
