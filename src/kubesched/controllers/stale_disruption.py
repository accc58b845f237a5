"""Pods of which it was said that they would be disrupted, and then were not.

Owns the end of the condition DisruptionTarget on pods that were not deleted after all. Never says
that a pod will be disrupted.
Upstream: pkg/controller/disruption/disruption.go syncStalePodDisruption
"""

from __future__ import annotations

from typing import ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    condition_of,
    is_terminating,
    key_of,
    seconds_of,
    time_text,
    uid_of,
)
from kubesched.client.resources import PODS
from kubesched.controllers.controller import Controller, Parts

TARGET: Final = "DisruptionTarget"
_STALE_S: Final = 120.0


class StaleDisruptionController(Controller):
    """Takes back that a pod is to be disrupted."""

    name: ClassVar[str] = "stale-pod-disruption"
    component: ClassVar[str] = "controllermanager"
    workers: ClassVar[int] = 1

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pods = self.informers.of(PODS)
        self._pods.on_change(self._pod_changed)

    def _pod_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None and stale_s(new) is not None:
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        """Set the condition to False once it is stale."""
        pod = self._pods.get(key)
        at_s = None if pod is None else stale_s(pod)
        if pod is None or at_s is None:
            return
        now_s = self.clock.now_s()
        if at_s > now_s:
            self.queue.add_after(key, at_s - now_s)
            return
        condition = {
            "type": TARGET,
            "status": "False",
            "observedGeneration": pod["metadata"].get("generation"),
            "lastTransitionTime": time_text(now_s),
            "reason": None,
            "message": None,
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        await self.api.patch_status(PODS, pod, patch)


def stale_s(pod: Document) -> float | None:
    """Return when the condition of a pod is stale; None if it has none, or rightly."""
    condition = condition_of(pod, TARGET)
    if condition is None or condition.get("status") != "True" or is_terminating(pod):
        return None
    # A kubelet says so and then takes its time; a pod that has ended changes no more.
    is_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if condition.get("reason") == "TerminationByKubelet" or is_ended:
        return None
    return seconds_of(condition.get("lastTransitionTime")) + _STALE_S
