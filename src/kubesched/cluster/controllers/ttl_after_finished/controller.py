"""TTL after finished: deletes finished Jobs when their ttlSecondsAfterFinished expires.

Never considers an unfinished Job.
Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go
"""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.documents import (
    Document,
    condition_of,
    is_terminating,
    key_of,
    name_of,
    namespace_of,
    seconds_of,
)
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import JOBS
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.workloads.job_pods import end_of


class TtlAfterFinishedController(Controller):
    """Deletes finished Jobs whose TTL has expired."""

    name: ClassVar[str] = "ttl-after-finished"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = self.informers.of(JOBS)
        self._jobs.on_change(self._job_changed)

    def _job_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None and expiry_s(new) is not None:
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        """Delete a Job if its TTL has expired."""
        job = self._jobs.get(key)
        if job is None or not self._is_expired(key, job):
            return
        try:
            latest = await self.api.get(JOBS, name_of(job), namespace_of(job))
        except NotFoundError:
            return
        # The TTL may have been extended.
        if self._is_expired(key, latest):
            await self.api.delete(JOBS, latest, propagation="Foreground")

    def _is_expired(self, key: str, job: Document) -> bool:
        """Return whether the TTL has expired; enqueue the Job for later if it has not."""
        due_s = expiry_s(job)
        if due_s is None:
            return False
        remaining_s = due_s - self.clock.now_s()
        if remaining_s > 0:
            self.queue.add_after(key, remaining_s)
        return remaining_s <= 0


def expiry_s(job: Document) -> float | None:
    """Return when a Job expires; None if it has no TTL, is unfinished or is terminating."""
    ttl_s, finish = job["spec"].get("ttlSecondsAfterFinished"), end_of(job)
    if ttl_s is None or not finish or is_terminating(job):
        return None
    condition = condition_of(job, finish) or {}
    return seconds_of(condition.get("lastTransitionTime")) + float(ttl_s)
