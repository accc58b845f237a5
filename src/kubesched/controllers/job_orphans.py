"""Pods that still wait to be counted by a Job which is no more, or has ended.

Owns the removal of the tracking finalizer from them, so that they can be deleted. Never touches a
pod whose Job will count it.
Upstream: pkg/controller/job/job_controller.go syncOrphanPod
"""

from __future__ import annotations

from typing import ClassVar

from kubesched.client.cached.documents import (
    Document,
    key_of,
    namespace_of,
    owner_of,
    uid_of,
)
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import JOBS, PODS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.job import RELEASE
from kubesched.controllers.job_pods import end_of, has_finalizer, is_managed_elsewhere


class JobOrphanController(Controller):
    """Lets go of pods that no Job will count."""

    name: ClassVar[str] = "job-orphan-pod"
    component: ClassVar[str] = "job-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._jobs = self.informers.of(JOBS)
        self._pods = self.informers.of(PODS)
        self._jobs.on_change(self._job_changed)
        self._pods.on_change(self._pod_changed)

    def _job_changed(self, old: Document | None, new: Document | None) -> None:
        job = new or old
        assert job is not None
        if new is None or end_of(new):
            for pod in self._pods.owned_by(uid_of(job)):
                self._look_at(pod)

    def _pod_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None:
            self._look_at(new)

    def _look_at(self, pod: Document) -> None:
        if has_finalizer(pod) and self._is_orphan(pod):
            self.queue.add(key_of(pod))

    def _is_orphan(self, pod: Document) -> bool:
        """Return whether no Job will count a pod.

        Parity: job_controller.go handleSingleOrphanPod, v1.36.
        """
        owner = owner_of(pod)
        if owner is None:
            return True
        if (owner.get("kind"), owner.get("apiVersion")) != (JOBS.kind, JOBS.api_version):
            return False
        job = self._jobs.get(f"{namespace_of(pod)}/{owner['name']}")
        if job is None or uid_of(job) != owner["uid"]:
            return True
        return bool(end_of(job)) and not is_managed_elsewhere(job)

    async def sync(self, key: str) -> None:
        """Let go of a pod."""
        pod = self._pods.get(key)
        if pod is None or not has_finalizer(pod) or not self._is_orphan(pod):
            return
        try:
            await self.api.patch(PODS, pod, RELEASE)
        except NotFoundError:
            # It is gone: nothing is left to let go of.
            return
