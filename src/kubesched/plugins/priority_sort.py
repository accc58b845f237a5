"""PrioritySort: orders the queue by priority, then by how long pods wait.

Upstream: pkg/scheduler/framework/plugins/queuesort/priority_sort.go
"""

from __future__ import annotations

from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.plugins.record import InTreePlugin


class PrioritySort:
    """Orders pods by priority, the highest first, and then by the time of queueing."""

    name = "PrioritySort"

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        """Return whether the first pod is to be tried before the second."""
        if first.pod.priority != second.pod.priority:
            return first.pod.priority > second.pod.priority
        return first.timestamp_s < second.timestamp_s

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, float]:
        """Return the sort key that `less` compares; the smallest is tried first."""
        return -queued.pod.priority, queued.timestamp_s


PLUGIN = InTreePlugin(plugin=PrioritySort)
