"""Pods that nobody will take away: of nodes that are gone, on nodes out of service, too many ended.

Owns which pods are removed by force, and what is said of them before. Never deletes a pod whose
node still has a kubelet to do it.
Upstream: pkg/controller/podgc/gc_controller.go
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    name_of,
    seconds_of,
    time_text,
    uid_of,
)
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import NODES, PODS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.node_pods import index_by_node, node_of, pods_on

ENDED_MAX: Final = 12_500

# Upstream looks at everything each 20 s and gives a node 40 s to show up; here what changes is
# looked at, and a node that is not known is asked for before its pods are given up.
_QUARANTINE_S: Final = 2.0
_CHECK_S: Final = 20.0
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_RUNNING: Final = ("Pending", "Running", "Unknown")
_ENDED: Final = ("Succeeded", "Failed")


class PodGcController(Controller):
    """Removes pods by force."""

    name: ClassVar[str] = "pod-garbage-collector"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
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
            self._look_at(pod)

    def _pod_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None:
            self._look_at(new)

    def _look_at(self, pod: Document) -> None:
        node_name = node_of(pod)
        node = self._nodes.get(node_name) if node_name else None
        if node_name and node is None:
            wait_s = _QUARANTINE_S / self.parts.settings.speed
            self.queue.add_after(key_of(pod), wait_s)
        elif is_terminating(pod) and (node is None or is_out_of_service(node)):
            self.queue.add(key_of(pod))

    async def sync(self, key: str) -> None:
        """Remove a pod if nobody else will."""
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
        elif not await self._is_there(node_name):
            await self._remove(pod, "PodGC: node no longer exists")

    async def run_beside(self) -> None:
        """Remove the oldest ended pods beyond the limit, every now and then."""
        while True:
            await self.clock.sleep(_CHECK_S)
            for pod in surplus(self._pods, ENDED_MAX):
                try:
                    await self._remove(pod)
                except (ApiError, TransportError) as error:
                    # It is looked at again next time.
                    self.log.error("Failed to delete terminated pod", err=error, pod=key_of(pod))

    async def _is_there(self, node_name: str) -> bool:
        try:
            await self.api.get(NODES, node_name)
        except NotFoundError:
            return False
        return True

    async def _remove(self, pod: Document, why: str = "") -> None:
        """Say that a pod has failed, which nobody else would, and delete it.

        Parity: gc_controller.go markFailedAndDeletePodWithCondition, v1.36.
        """
        if (pod.get("status") or {}).get("phase") not in _ENDED:
            try:
                await self.api.patch_status(PODS, pod, self._failure(pod, why))
            except NotFoundError:
                return
        await self.api.delete(PODS, pod, grace_s=0)

    def _failure(self, pod: Document, why: str) -> Document:
        generation = pod["metadata"].get("generation")
        status: Document = {"phase": "Failed", "observedGeneration": generation}
        if why:
            condition = {
                "type": "DisruptionTarget",
                "observedGeneration": generation,
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": why,
                "lastTransitionTime": time_text(self.clock.now_s()),
            }
            status["conditions"] = [condition]
        return {"metadata": {"uid": uid_of(pod)}, "status": status}


def is_out_of_service(node: Document) -> bool:
    """Return whether somebody has said that a node which is not ready will not come back."""
    taints = node["spec"].get("taints") or ()
    return not is_ready(node) and any(taint["key"] == _OUT_OF_SERVICE for taint in taints)


def surplus(pods: Iterable[Document], limit: int) -> list[Document]:
    """Return ended pods beyond a limit: evicted ones first, then the oldest.

    Parity: gc_controller.go gcTerminated, v1.36.
    """
    ended = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _RUNNING]
    count = len(ended) - limit
    return sorted(ended, key=_spare_first)[:count] if count > 0 else []


def _spare_first(pod: Document) -> tuple[bool, float, str]:
    status, metadata = pod.get("status") or {}, pod["metadata"]
    is_evicted = status.get("phase") == "Failed" and status.get("reason") == "Evicted"
    return (not is_evicted, seconds_of(metadata.get("creationTimestamp")), name_of(pod))
