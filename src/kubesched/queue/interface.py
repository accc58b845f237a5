"""Types shared by the modules of the queue: settings, plugins of a profile, events, metrics.

Nothing here depends on the name of a plugin.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (options),
pkg/scheduler/metrics/metrics.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kubesched.framework.cluster_event import ClusterEvent
from kubesched.framework.interface import EventRegistration
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.status import Status
from kubesched.snapshot.pod_info import PodInfo

Less: TypeAlias = "Callable[[QueuedPodInfo, QueuedPodInfo], bool]"
SortKey: TypeAlias = "Callable[[QueuedPodInfo], Any]"
PreCheck: TypeAlias = "Callable[[PodInfo], bool]"
PreEnqueue: TypeAlias = "Callable[[PodInfo], Status | None]"


class Occurrence(NamedTuple):
    """An event with its object: `old` is None for an added object, `new` for a deleted one."""

    event: ClusterEvent
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class ProfileQueueing:
    """The plugins of one profile that the queue calls."""

    pre_enqueue: Mapping[str, PreEnqueue] = field(default_factory=dict)
    """By plugin name, in the order in which they run."""
    registrations: Mapping[str, Sequence[EventRegistration]] = field(default_factory=dict)
    """By name of a plugin that may reject a pod: the events after which it may accept the pod."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The queue's settings."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    max_in_unschedulable_s: float = 300.0
    pop_from_backoff_queue: bool = True
    """Feature gate SchedulerPopFromBackoffQ: an idle scheduler does not wait out a backoff."""


POD_POPPED = "PodPopped"


class Series(dict[Any, Any]):
    """The time series of a metric by their last labels, created on first use."""

    def __init__(self, family: Any, *first: str) -> None:
        super().__init__()
        self._family = family
        self._first = first

    def __missing__(self, last: str | tuple[str, ...]) -> Any:
        rest = (last,) if isinstance(last, str) else last
        series = self[last] = self._family.labels(*self._first, *rest)
        return series


class Recorder:
    """Every time series of the queue."""

    def __init__(self, metrics: Any) -> None:
        incoming, pending = metrics.queue_incoming_pods_total, metrics.pending_pods
        self.incoming_active = Series(incoming, "active")
        self.incoming_backoff = Series(incoming, "backoff")
        self.incoming_unschedulable = Series(incoming, "unschedulable")
        self.pending_active = pending.labels("active")
        self.pending_backoff = pending.labels("backoff")
        self.pending_unschedulable = pending.labels("unschedulable")
        self.pending_gated = pending.labels("gated")
        self.rejected_by = Series(metrics.unschedulable_pods)
        """By plugin and profile."""
        self.in_flight = Series(metrics.inflight_events)
        """By the event's label."""
        self.hints = Series(metrics.queueing_hint_execution_duration_seconds)
        """By plugin, the event's label and the hint."""
        # Upstream shadows its variable, so that the status is always Success.
        self.pre_enqueue = Series(
            metrics.framework_extension_point_duration_seconds, "PreEnqueue", "Success"
        )
        """By profile."""
        self.plugins = Series(metrics.plugin_execution_duration_seconds)
        """By plugin, extension point and status."""
