"""PrioritySort: orders the queue by priority, then by how long pods wait.

Upstream: pkg/scheduler/framework/plugins/queuesort/priority_sort.go
"""

from __future__ import annotations

from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.plugins.record import InTreePlugin


class PrioritySort:
    """Puts the pod of higher priority first, and of equals the one queued earlier."""

    name = "PrioritySort"

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        """Return whether the first is to be tried before the second."""
        if first.pod.priority != second.pod.priority:
            return first.pod.priority > second.pod.priority
        return first.timestamp_s < second.timestamp_s

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, float]:
        """Return what `less` compares: the smaller goes first."""
        return -queued.pod.priority, queued.timestamp_s


PLUGIN = InTreePlugin(plugin=PrioritySort)
