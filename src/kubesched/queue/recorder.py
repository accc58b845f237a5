"""The queue's metrics, bound once.

Owns which time series the parts of the queue move. Never keeps a figure itself.
Upstream: pkg/scheduler/metrics/metrics.go, metric_recorder.go
"""

from __future__ import annotations

from typing import Any, Protocol

POD_POPPED = "PodPopped"


class Child(Protocol):
    """One time series; a histogram has only `observe`, a counter only `inc`."""

    def inc(self, amount: float = 1, /) -> None: ...
    def dec(self, amount: float = 1, /) -> None: ...
    def observe(self, value: float, /) -> None: ...


class Series(dict[Any, Child]):
    """The time series of a family by their last labels, made when first asked for."""

    def __init__(self, family: Any, *first: str) -> None:
        super().__init__()
        self._family = family
        self._first = first

    def __missing__(self, last: str | tuple[str, ...]) -> Child:
        rest = (last,) if isinstance(last, str) else last
        child: Child = self._family.labels(*self._first, *rest)
        self[last] = child
        return child


class Recorder:
    """Every time series of the queue."""

    def __init__(self, metrics: Any) -> None:
        incoming, pending = metrics.queue_incoming_pods_total, metrics.pending_pods
        self.incoming_active = Series(incoming, "active")
        self.incoming_backoff = Series(incoming, "backoff")
        self.incoming_unschedulable = Series(incoming, "unschedulable")
        self.pending_active: Child = pending.labels("active")
        self.pending_backoff: Child = pending.labels("backoff")
        self.pending_unschedulable: Child = pending.labels("unschedulable")
        self.pending_gated: Child = pending.labels("gated")
        self.rejected_by = Series(metrics.unschedulable_pods)
        """By plugin and profile."""
        self.in_flight = Series(metrics.inflight_events)
        """By the event's label."""
        self.hints = Series(metrics.queueing_hint_execution_duration_seconds)
        """By plugin, the event's label and the answer."""
        # Upstream's variable is shadowed, so that the status is Success whatever the plugins said.
        self.pre_enqueue = Series(
            metrics.framework_extension_point_duration_seconds, "PreEnqueue", "Success"
        )
        """By profile."""
        self.plugins = Series(metrics.plugin_execution_duration_seconds)
        """By plugin, extension point and status."""
