"""Jobs that go away by themselves some time after they ended.

Owns when that time has come. Never looks at a Job that has not ended.
Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go
"""

from __future__ import annotations

from typing import ClassVar

from kubesched.client.cached.documents import (
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
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.job_pods import end_of


class TtlAfterFinishedController(Controller):
    """Deletes ended Jobs whose time to live is over."""

    name: ClassVar[str] = "ttl-after-finished"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._jobs = self.informers.of(JOBS)
        self._jobs.on_change(self._job_changed)

    def _job_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None and expires_s(new) is not None:
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        """Delete a Job if its time is over."""
        job = self._jobs.get(key)
        if job is None or not self._is_over(key, job):
            return
        try:
            fresh = await self.api.get(JOBS, name_of(job), namespace_of(job))
        except NotFoundError:
            return
        # The time to live may have been made longer.
        if self._is_over(key, fresh):
            await self.api.delete(JOBS, fresh, propagation="Foreground")

    def _is_over(self, key: str, job: Document) -> bool:
        """Return whether the time has come; come back then if it has not."""
        at_s = expires_s(job)
        if at_s is None:
            return False
        left_s = at_s - self.clock.now_s()
        if left_s > 0:
            self.queue.add_after(key, left_s)
        return left_s <= 0


def expires_s(job: Document) -> float | None:
    """Return when a Job goes away; None if it stays, or has not ended, or is going already."""
    ttl_s, end = job["spec"].get("ttlSecondsAfterFinished"), end_of(job)
    if ttl_s is None or not end or is_terminating(job):
        return None
    condition = condition_of(job, end) or {}
    return seconds_of(condition.get("lastTransitionTime")) + float(ttl_s)
