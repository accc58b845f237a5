"""Runs the simulated pods of all nodes and writes their statuses.

Owns the pod runs, when a status is written, and the final deletion of pods. Transitions are
pod_runs', status documents pod_status'.
Upstream: pkg/kubelet/{kubelet,pod_workers}.go, pkg/kubelet/status/status_manager.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.documents import Document, key_of, uid_of
from kubesched.client.errors import ConflictError, NotFoundError
from kubesched.client.resources import NODES, PODS
from kubesched.cluster.kubelet.addresses import Addresses
from kubesched.cluster.kubelet.node_status import is_alive
from kubesched.cluster.kubelet.pod_runs import PodEvent, PodRun
from kubesched.cluster.kubelet.pod_status import PodAddresses, status_inputs, status_patch
from kubesched.cluster.kubelet.settings import Context

_BY_NODE: Final = "kubelet-node"
_SOON_S: Final = 2.0


@dataclass(slots=True)
class _TrackedPod:
    """A running pod and its last written status."""

    run: PodRun
    written_inputs: tuple[object, ...] | None = None
    """Inputs of the last written status."""
    reconcile_at_s: float | None = None
    """When a status change by another client is reverted."""

    def is_in_transition(self, now_s: float) -> bool:
        """Return whether it is starting or stopping and will soon be done."""
        if self.run.phase != "Pending" and not self.run.is_stopping:
            return False
        next_s = self.run.next_s()
        return next_s is not None and next_s <= now_s + _SOON_S


class PodWorkers:
    """The pods of every node with a live kubelet."""

    def __init__(self, context: Context, addresses: Addresses) -> None:
        self._context = context
        self._addresses = addresses
        self._pods = context.informers.of(PODS)
        self._nodes = context.informers.of(NODES)
        self._tracked: dict[str, _TrackedPod] = {}
        self._in_transition: dict[str, None] = {}
        self.workers = context.workers("kubelet pods", self._sync)
        self._pods.add_index(_BY_NODE, _node_index_keys)

    def start(self) -> None:
        """Start working."""
        self._pods.on_change(self._changed)
        self.workers.start(self._context.settings.workers)

    def run_of(self, namespace: str, name: str) -> PodRun | None:
        """Return the run of a pod; None if it is not running."""
        pod = self._pods.get(f"{namespace}/{name}")
        tracked = None if pod is None else self._tracked.get(uid_of(pod))
        return None if tracked is None else tracked.run

    def wake(self, node_name: str) -> None:
        """Enqueue every pod of a node: it appeared, or its kubelet is alive again."""
        for pod in self._pods.by_index(_BY_NODE, node_name):
            self.workers.queue.add(key_of(pod))

    def _changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            if old is not None:
                self._pod_deleted(uid_of(old))
        elif new["spec"].get("nodeName"):
            self.workers.queue.add(key_of(new))

    def _pod_deleted(self, uid: str) -> None:
        tracked = self._tracked.pop(uid, None)
        self._in_transition.pop(uid, None)
        self._addresses.release(uid)
        if tracked is not None:
            tracked.run.vanish(self._context.clock.now_s())

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None or not is_alive(node):
            self._in_transition.pop(uid_of(pod), None)
            return
        now_s = self._context.clock.now_s()
        tracked = self._track(pod, now_s)
        tracked.run.observe(pod, now_s)
        self._record_events(pod, tracked.run.advance(now_s))
        if tracked.is_in_transition(now_s):
            self._in_transition[tracked.run.uid] = None
        else:
            self._in_transition.pop(tracked.run.uid, None)
        await self._write(tracked, node, now_s)
        if tracked.run.is_stopped:
            await self._remove(tracked.run)
            return
        self._requeue(key, tracked)

    def _track(self, pod: Document, now_s: float) -> _TrackedPod:
        uid = uid_of(pod)
        tracked = self._tracked.get(uid)
        if tracked is None:
            tracked = self._tracked[uid] = _TrackedPod(PodRun(pod, now_s, self._context.settings))
        return tracked

    async def _write(self, tracked: _TrackedPod, node: Document, now_s: float) -> None:
        run = tracked.run
        inputs = (run.version, *status_inputs(run.pod))
        has_changed = inputs != tracked.written_inputs
        if has_changed and self._is_skippable(run):
            tracked.written_inputs = inputs
            return
        patch = status_patch(run, self._addresses_of(node, run.pod), now_s)
        if not patch:
            tracked.written_inputs, tracked.reconcile_at_s = inputs, None
            return
        if not has_changed and not self._should_reconcile(tracked, now_s):
            return
        body = {"metadata": {"uid": run.uid}, "status": patch}
        try:
            run.pod = await self._context.api.patch_status(PODS, dict(run.pod), body)
        except (NotFoundError, ConflictError):
            # The pod is gone or was replaced; the watch will deliver that.
            return
        tracked.written_inputs, tracked.reconcile_at_s = inputs, None

    def _should_reconcile(self, tracked: _TrackedPod, now_s: float) -> bool:
        """Return whether it is time to revert another client's change of the status."""
        if tracked.reconcile_at_s is None:
            settings = self._context.settings
            tracked.reconcile_at_s = now_s + settings.reconcile_s / settings.speed
        return now_s >= tracked.reconcile_at_s

    def _is_skippable(self, run: PodRun) -> bool:
        """Return whether a status is short-lived and many pods are in transition."""
        if len(self._in_transition) <= self._context.settings.shown_max:
            return False
        if run.is_stopped:
            return not run.pod["metadata"].get("finalizers")
        return run.uid in self._in_transition

    def _addresses_of(self, node: Document, pod: Any) -> PodAddresses:
        host_ip = self._addresses.node_ip(node)
        if pod["spec"].get("hostNetwork"):
            return PodAddresses([host_ip], [host_ip])
        return PodAddresses([host_ip], [self._addresses.pod_ip(node, pod)])

    async def _remove(self, run: PodRun) -> None:
        """Delete a pod for good after its containers stopped."""
        metadata = run.pod["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") != 0:
            await self._context.api.delete(PODS, dict(run.pod), grace_s=0)

    def _requeue(self, key: str, tracked: _TrackedPod) -> None:
        """Enqueue a pod for its next transition."""
        times = [one for one in (tracked.run.next_s(), tracked.reconcile_at_s) if one is not None]
        if times:
            now_s = self._context.clock.now_s()
            self.workers.queue.add_after(key, max(min(times) - now_s, 0.0))

    def _record_events(self, pod: Document, events: list[PodEvent]) -> None:
        if not events:
            return
        recorder = self._context.recorder("kubelet", pod["spec"]["nodeName"])
        for event in events:
            recorder.event(
                pod,
                kind=event.type,
                reason=event.reason,
                note=event.note,
                field_path=event.field_path,
            )


def _node_index_keys(pod: Document) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
