"""A pod in the scheduling queue, with what its attempts left behind.

Owns the record of one waiting pod: when it came, how often it was tried, who refused it. Never
moves it: `queue` does.
Upstream: pkg/scheduler/framework/types.go QueuedPodInfo
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.model.cluster_event import ClusterEvent
from kubesched.model.pod_info import PodInfo


class QueuedPodInfo:
    """One waiting pod; it stays the same object from its first attempt to its last."""

    __slots__ = (
        "attempts",
        "backoff_expiration_s",
        "consecutive_errors_count",
        "flush_timestamp_s",
        "gating_plugin",
        "gating_plugin_events",
        "initial_attempt_timestamp_s",
        "key",
        "pending_plugins",
        "pod",
        "timestamp_s",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )

    def __init__(self, pod: PodInfo, timestamp_s: float) -> None:
        self.pod = pod
        self.key = pod.key
        """`namespace/name`: what the parts of the queue know the pod by."""
        self.timestamp_s = timestamp_s
        """When the pod was queued, or its last attempt ended."""
        self.attempts = 0
        self.backoff_expiration_s: float | None = None
        """When its backoff ends; None until worked out, and again after every attempt."""
        self.unschedulable_count = 0
        """Attempts that ended with a refusal."""
        self.consecutive_errors_count = 0
        """Attempts that ended with an error, since the last that did not."""
        self.initial_attempt_timestamp_s: float | None = None
        """When it could first be tried; latencies are measured from here."""
        self.unschedulable_plugins: set[str] = set()
        """Who refused it at the last attempt, or before it could be tried at all."""
        self.pending_plugins: set[str] = set()
        """Who waits for something outside; their word ends the backoff."""
        self.gating_plugin = ""
        """Who keeps it from being tried."""
        self.gating_plugin_events: Sequence[ClusterEvent] = ()
        self.was_flushed_from_unschedulable = False
        self.flush_timestamp_s: float | None = None

    def __repr__(self) -> str:
        return f"<QueuedPodInfo {self.key} attempts={self.attempts}>"

    @property
    def is_gated(self) -> bool:
        """Return whether a plugin keeps the pod from being tried."""
        return self.gating_plugin != ""

    @property
    def rejector_plugins(self) -> set[str]:
        """Return everybody whose word kept the pod from being placed."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def has_rejectors(self) -> bool:
        """Return whether somebody refused the pod; if not, it came back because of an error."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    def clear_rejector_plugins(self) -> None:
        """Forget who refused it, before the outcome of another attempt is noted."""
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""
        self.gating_plugin_events = ()
