"""Pod garbage collection: orphaned pods, pods on out-of-service nodes, surplus terminated pods.

Owns which pods are deleted by force and the condition they get first. Never deletes a pod whose
node still has a kubelet to do it.
Upstream: pkg/controller/podgc/gc_controller.go
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from kubesched.api.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    name_of,
    seconds_of,
    uid_of,
)
from kubesched.api.times import time_text
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import NODES, PODS
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.pod_control import index_by_node, node_of, pods_on

TERMINATED_POD_THRESHOLD: Final = 12_500

# Upstream checks all pods every 20 s and gives an unknown node 40 s to appear. Here changes trigger
# the check, and an unknown node is looked up before its pods are deleted.
_QUARANTINE_S: Final = 2.0
_CHECK_S: Final = 20.0
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_ACTIVE_PHASES: Final = ("Pending", "Running", "Unknown")
_TERMINAL_PHASES: Final = ("Succeeded", "Failed")


class PodGcController(Controller):
    """Deletes pods that no kubelet will delete."""

    name: ClassVar[str] = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.informers.of(NODES)
        self._pods = self.informers.of(PODS)
        index_by_node(self._pods)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        node = new or old
        assert node is not None
        if new is not None and not is_out_of_service(new):
            return
        for pod in pods_on(self._pods, name_of(node)):
            self._enqueue_if_orphaned(pod)

    def _pod_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None:
            self._enqueue_if_orphaned(new)

    def _enqueue_if_orphaned(self, pod: Document) -> None:
        node_name = node_of(pod)
        node = self._nodes.get(node_name) if node_name else None
        if node_name and node is None:
            wait_s = _QUARANTINE_S / self.context.settings.speed
            self.queue.add_after(key_of(pod), wait_s)
        elif is_terminating(pod) and (node is None or is_out_of_service(node)):
            self.queue.add(key_of(pod))

    async def sync(self, key: str) -> None:
        """Delete a pod if no kubelet will."""
        pod = self._pods.get(key)
        if pod is None:
            return
        node_name = node_of(pod)
        if not node_name:
            if is_terminating(pod):
                await self._remove(pod)
            return
        node = self._nodes.get(node_name)
        if node is not None:
            if is_terminating(pod) and is_out_of_service(node):
                await self._remove(pod)
        elif not await self._node_exists(node_name):
            await self._remove(pod, "PodGC: node no longer exists")

    async def run_background(self) -> None:
        """Periodically delete the oldest terminated pods above the threshold."""
        while True:
            await self.clock.sleep(_CHECK_S)
            for pod in surplus_terminated_pods(self._pods, TERMINATED_POD_THRESHOLD):
                try:
                    await self._remove(pod)
                except (ApiError, TransportError) as error:
                    # The next round retries.
                    self.log.error("Failed to delete terminated pod", err=error, pod=key_of(pod))

    async def _node_exists(self, node_name: str) -> bool:
        try:
            await self.api.get(NODES, node_name)
        except NotFoundError:
            return False
        return True

    async def _remove(self, pod: Document, message: str = "") -> None:
        """Set the pod's phase to Failed, which no kubelet will do, and delete it.

        Parity: gc_controller.go markFailedAndDeletePodWithCondition, v1.36.
        """
        if (pod.get("status") or {}).get("phase") not in _TERMINAL_PHASES:
            try:
                await self.api.patch_status(PODS, pod, self._failed_status(pod, message))
            except NotFoundError:
                return
        await self.api.delete(PODS, pod, grace_s=0)

    def _failed_status(self, pod: Document, message: str) -> Document:
        generation = pod["metadata"].get("generation")
        status: Document = {"phase": "Failed", "observedGeneration": generation}
        if message:
            condition = {
                "type": "DisruptionTarget",
                "observedGeneration": generation,
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": message,
                "lastTransitionTime": time_text(self.clock.now_s()),
            }
            status["conditions"] = [condition]
        return {"metadata": {"uid": uid_of(pod)}, "status": status}


def is_out_of_service(node: Document) -> bool:
    """Return whether an unready node has the out-of-service taint."""
    taints = node["spec"].get("taints") or ()
    return not is_ready(node) and any(taint["key"] == _OUT_OF_SERVICE for taint in taints)


def surplus_terminated_pods(pods: Iterable[Document], limit: int) -> list[Document]:
    """Return the terminated pods above a limit: evicted ones first, then the oldest.

    Parity: gc_controller.go gcTerminated, v1.36.
    """
    terminated = [
        pod for pod in pods if (pod.get("status") or {}).get("phase") not in _ACTIVE_PHASES
    ]
    count = len(terminated) - limit
    return sorted(terminated, key=_deletion_order)[:count] if count > 0 else []


def _deletion_order(pod: Document) -> tuple[bool, float, str]:
    status, metadata = pod.get("status") or {}, pod["metadata"]
    is_evicted = status.get("phase") == "Failed" and status.get("reason") == "Evicted"
    return (not is_evicted, seconds_of(metadata.get("creationTimestamp")), name_of(pod))
