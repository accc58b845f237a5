"""Handles a failed attempt: metrics, log, requeue, nomination, event and condition.

Never decides whether an attempt failed.
Upstream: pkg/scheduler/schedule_one.go handleSchedulingFailure
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.attempt.diagnosis import FitError, NoNodesError
from kubesched.cache.cache import Cache, UnassignedPods
from kubesched.client.events.recorder import truncated_note
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.status import Code, Status
from kubesched.golang.fmt import go_format_without_args
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.status_patches import StatusPatches, UnschedulableCondition

CLEAR: Final = ""
"""Clears the nomination."""
LEAVE: Final = None
"""Leaves the nomination unchanged."""


@dataclass(slots=True)
class Failed:
    """The failure of an attempt."""

    message: str
    rejected: bool
    """Whether the pod was rejected, as opposed to an error."""
    nominated: str | None = CLEAR
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    is_fit_error: bool = False
    has_no_nodes: bool = False
    plugin: str = ""
    """The plugin that returned the error, for the log."""


def of_fit_error(failure: FitError, nominated: str | None) -> Failed:
    """Return the failure of a pod that fits on no node."""
    diagnosis = failure.diagnosis
    return Failed(
        str(failure),
        rejected=True,
        nominated=nominated,
        unschedulable_plugins=set(diagnosis.unschedulable_plugins),
        pending_plugins=set(diagnosis.pending_plugins),
        is_fit_error=True,
    )


def of_no_nodes(failure: NoNodesError) -> Failed:
    """Return the failure in a cluster without nodes."""
    # Parity: no rejector plugins, so the pod is retried with the backoff of errors.
    return Failed(str(failure), rejected=True, has_no_nodes=True)


def of_status(status: Status) -> Failed:
    """Return the failure of a pod that a Reserve or Permit plugin rejected or failed on."""
    if not status.is_rejected:
        return of_binding(status)
    # Parity: types.go AddPluginStatus, v1.36: pending plugins are unschedulable plugins too.
    plugins = {status.plugin} - {""}
    is_pending = status.code is Code.PENDING
    return _one_node_rejected(status, plugins, set(plugins) if is_pending else set())


def of_wait(status: Status) -> Failed:
    """Return the failure of a pod that was rejected, or met an error, while it waited on Permit."""
    # Parity: schedule_one.go bindingCycle, v1.36: a rejector counts even without a name; such a pod
    # waits until it is flushed.
    if not status.is_rejected:
        return of_binding(status)
    return _one_node_rejected(status, {status.plugin}, set())


def of_binding(status: Status) -> Failed:
    """Return the failure of a pod that could not be bound to its node."""
    # Parity: schedule_one.go bindingCycle, v1.36: no plugin counts as rejector, so the pod is tried
    # again after its backoff.
    return Failed(status.message, rejected=status.is_rejected, plugin=status.plugin)


def _one_node_rejected(status: Status, plugins: set[str], pending: set[str]) -> Failed:
    # Parity: types.go FitError.Error, v1.36, of one node.
    counted = sorted(f"{count} {reason}" for reason, count in Counter(status.reasons).items())
    reasons = ", ".join(counted)
    return Failed(
        "0/1 nodes are available:" + (f" {reasons}." if reasons else ""),
        rejected=True,
        unschedulable_plugins=plugins,
        pending_plugins=pending,
        is_fit_error=True,
    )


@dataclass(slots=True)
class FailureHandler:
    """Requeues a pod that was not bound, and reports the failure."""

    cache: Cache
    queue: SchedulingQueue
    pods: UnassignedPods
    patches: StatusPatches
    recorder_of: Callable[[str], Any]
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    is_ours: Callable[[str], bool] = lambda _profile: True
    """Returns whether a profile still exists."""

    def handle(self, queued: QueuedPodInfo, failed: Failed, start_s: float) -> None:
        """Requeue the pod; write metrics, log, nomination, event and condition."""
        pod = queued.pod
        profile = pod.scheduler_name
        result = "unschedulable" if failed.rejected else "error"
        self.metrics.schedule_attempts_total.labels(result, profile).inc()
        self.metrics.scheduling_attempt_duration_seconds.labels(result, profile).observe(
            self.clock.monotonic_s() - start_s
        )
        self._log_failure(queued, failed)
        queued.unschedulable_plugins = failed.unschedulable_plugins
        queued.pending_plugins = failed.pending_plugins
        if not self.put_back(queued):
            return
        pod = queued.pod
        self.queue.nominator.add_nominated_pod(pod, failed.nominated)
        self.recorder_of(profile).event(
            pod,
            kind="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=go_format_without_args(truncated_note(failed.message)),
        )
        reason = "Unschedulable" if failed.rejected else "SchedulerError"
        self.patches.write(pod, UnschedulableCondition(reason, failed.message), failed.nominated)

    def put_back(self, queued: QueuedPodInfo) -> bool:
        """Requeue the pod in its last watched state; return False if it no longer needs a node."""
        pod = queued.pod
        ref = Ref(pod.namespace, pod.name)
        watched = self.pods.get(pod.key)
        if watched is not None and watched.uid != pod.uid:
            self.log.info(
                "Pod was recreated while handling scheduling failure. "
                "Skip requeueing and status updates.",
                level=2,
                pod=ref,
                oldUID=pod.uid,
                newUID=watched.uid,
            )
            self.queue.done(pod.uid)
            return False
        if watched is not None and not self.is_ours(watched.scheduler_name):
            message = "Pod's profile is gone. Skip requeueing and status updates."
            self.log.info(message, pod=ref, profile=watched.scheduler_name)
            self.queue.done(pod.uid)
            return False
        if watched is not None:
            queued.pod = watched
            self.queue.add_unschedulable_if_not_present(queued)
            return True
        bound = self.cache.bound_pod(pod.uid)
        if bound is not None:
            self.log.info(
                "Pod has been assigned to node. Abort adding it back to queue.",
                pod=ref,
                node=bound.node_name,
            )
        else:
            problem = f'pod "{pod.name}" not found'
            self.log.info("Pod doesn't exist in informer cache", pod=ref, err=problem)
        self.queue.done(pod.uid)
        return True

    def _log_failure(self, queued: QueuedPodInfo, failed: Failed) -> None:
        ref = Ref(queued.pod.namespace, queued.pod.name)
        if failed.has_no_nodes:
            self.log.info(
                "Unable to schedule pod; no nodes are registered to the cluster; waiting",
                level=2,
                pod=ref,
            )
        elif failed.is_fit_error:
            if self.log.verbosity >= 2:
                message = "Unable to schedule pod; no fit; waiting"
                self.log.info(message, level=2, pod=ref, err=failed.message)
        else:
            named = {"plugin": failed.plugin} if failed.plugin else {}
            self.log.error("Error scheduling pod; retrying", err=failed.message, pod=ref, **named)
