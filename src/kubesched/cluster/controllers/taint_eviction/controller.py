"""Taint eviction: deletes pods that do not tolerate the NoExecute taints of their node.

Owns which pods are deleted and when. Never taints a node.
Upstream: pkg/controller/tainteviction/{taint_eviction,timed_workers}.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from kubesched.api.affinity import Toleration
from kubesched.api.documents import Document, condition_of, is_terminating, key_of, name_of, uid_of
from kubesched.api.times import time_text
from kubesched.api.tolerations import Taint, tolerates
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import NODES, PODS
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.node_lifecycle.taints import no_execute_taints
from kubesched.cluster.controllers.pod_control import (
    condition_patch,
    index_by_node,
    node_of,
    pods_on,
)

_REASON: Final = "TaintManagerEviction"


def toleration_s(
    taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]
) -> float | None:
    """Return how long a pod tolerates taints; None for ever.

    Parity: taint_eviction.go processPodOnNode, getMinTolerationTime, v1.36: of the tolerations of
    a taint the first one counts.
    """
    seconds: list[int] = []
    for one in taints:
        taint = Taint(one.get("key", ""), one.get("value", ""), one.get("effect", ""))
        matching = next(
            (toleration for toleration in tolerations if _covers(toleration, taint)), None
        )
        if matching is None:
            return 0.0
        if matching.get("tolerationSeconds") is not None:
            seconds.append(matching["tolerationSeconds"])
    return max(float(min(seconds)), 0.0) if seconds else None


def _covers(document: Mapping[str, Any], taint: Taint) -> bool:
    parsed = Toleration(
        key=document.get("key") or "",
        operator=document.get("operator") or "",
        value=document.get("value") or "",
        effect=document.get("effect") or "",
    )
    return tolerates([parsed], taint)


class TaintEvictionController(Controller):
    """Deletes pods because of taints; its keys are pods."""

    name: ClassVar[str] = "taint-eviction-controller"
    workers: ClassVar[int] = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tainted: dict[str, list[Document]] = {}
        # Uid and deletion time of pods that tolerate their taints for a limited time.
        self._due_s: dict[str, tuple[str, float]] = {}
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        index_by_node(self._pods)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        taints = [] if new is None else no_execute_taints(new)
        name = name_of(new or old or {})
        if taints == self._tainted.get(name, []):
            return
        if taints:
            self._tainted[name] = taints
        else:
            self._tainted.pop(name, None)
        if new is None:
            # Pod GC deletes the pods of a deleted node.
            return
        for pod in pods_on(self._pods, name):
            self.queue.add(key_of(pod))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        key = key_of(new or old or {})
        if new is None:
            if key in self._due_s:
                self.queue.add(key)
            return
        if node_of(new) not in self._tainted and key not in self._due_s:
            return
        is_same = (
            old is not None
            and node_of(old) == node_of(new)
            and old["spec"].get("tolerations") == new["spec"].get("tolerations")
        )
        if not is_same:
            self.queue.add(key)

    async def sync(self, key: str) -> None:
        """Delete a pod, schedule its deletion, or cancel it."""
        pod = self._pods.get(key)
        scheduled = self._due_s.get(key)
        if scheduled is not None and (pod is None or uid_of(pod) != scheduled[0]):
            self._cancel(key)
            scheduled = None
        if pod is None or is_terminating(pod):
            self._due_s.pop(key, None)
            return
        taints = self._tainted.get(node_of(pod), [])
        tolerated_s = toleration_s(taints, pod["spec"].get("tolerations") or ()) if taints else None
        if tolerated_s is None:
            self._cancel(key)
            return
        now_s = self.clock.monotonic_s()
        # Parity: processPodOnNode, v1.36: a longer toleration or another taint does not postpone a
        # scheduled deletion.
        uid, due_s = scheduled or (uid_of(pod), now_s + tolerated_s)
        if tolerated_s > 0 and now_s < due_s:
            self._due_s[key] = (uid, due_s)
            self.queue.add_after(key, due_s - now_s)
            return
        if scheduled is not None and now_s < due_s:
            self._cancel(key)
        await self._evict(pod)
        self._due_s.pop(key, None)

    def _cancel(self, key: str) -> None:
        if self._due_s.pop(key, None) is not None:
            self._record_event(key, f"Cancelling deletion of Pod {key}")

    def _record_event(self, key: str, note: str) -> None:
        namespace, name = key.split("/", 1)
        # Parity: emitPodDeletionEvent, v1.36: the event names the pod without its uid.
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name},
        }
        self.event(pod, "Normal", _REASON, note)

    async def _evict(self, pod: Document) -> None:
        # Parity: taint_eviction.go addConditionAndDeletePod, v1.36.
        key = key_of(pod)
        self._record_event(key, f"Marking for deletion Pod {key}")
        target = condition_of(pod, "DisruptionTarget") or {}
        if (target.get("status"), target.get("reason")) != ("True", "DeletionByTaintManager"):
            condition = {
                "type": "DisruptionTarget",
                "observedGeneration": pod["metadata"].get("generation", 0),
                "status": "True",
                "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": time_text(self.clock.now_s()),
            }
            patch = condition_patch(pod, condition)
            try:
                pod = await self.api.patch_status(PODS, pod, patch)
            except NotFoundError:
                return
        await self.api.delete(PODS, pod)
