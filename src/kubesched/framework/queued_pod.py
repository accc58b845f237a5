"""A pod in the scheduling queue, with the record of its attempts.

Upstream: pkg/scheduler/framework/types.go QueuedPodInfo
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubesched.framework.cluster_event import ClusterEvent
from kubesched.snapshot.pod_info import PodInfo


@dataclass(slots=True, eq=False, repr=False)
class QueuedPodInfo:
    """A queued pod; the same object from its first attempt to its last."""

    pod: PodInfo
    timestamp_s: float
    """When the pod was queued, or its last attempt ended."""
    key: str = field(init=False)
    """`namespace/name`, the key of the pod in the queue."""
    attempts: int = 0
    backoff_expiration_s: float | None = None
    """When its backoff ends; None until computed after an attempt."""
    unschedulable_count: int = 0
    """Number of attempts that ended with a rejection."""
    consecutive_errors_count: int = 0
    """Number of attempts in a row that ended with an error."""
    initial_attempt_timestamp_s: float | None = None
    """When it could first be tried; the start of latency metrics."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    """The plugins that rejected it in the last attempt, or gated it."""
    pending_plugins: set[str] = field(default_factory=set)
    """The plugins that wait for an external component; their events skip the backoff."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that gates it; empty for none."""
    gating_plugin_events: Sequence[ClusterEvent] = ()
    was_flushed_from_unschedulable: bool = False
    flush_timestamp_s: float | None = None

    def __post_init__(self) -> None:
        self.key = self.pod.key

    def __repr__(self) -> str:
        return f"<QueuedPodInfo {self.key} attempts={self.attempts}>"

    @property
    def is_gated(self) -> bool:
        """Return whether a PreEnqueue plugin gates the pod."""
        return self.gating_plugin != ""

    @property
    def rejector_plugins(self) -> set[str]:
        """Return all plugins that rejected the pod."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def has_rejectors(self) -> bool:
        """Return whether a plugin rejected the pod; otherwise its attempt ended with an error."""
        return bool(self.unschedulable_plugins or self.pending_plugins)
