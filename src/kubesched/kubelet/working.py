"""Workers over a queue of keys, and what they are made of.

Owns the loop around the work on one key: what fails is tried again, later each time. What the work
is, pods, nodes and static_pods say.
Upstream: pkg/kubelet/pod_workers.go
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesched.client.cached.api import Api
from kubesched.client.cached.informers import Informers
from kubesched.client.cached.work_queue import WorkQueue
from kubesched.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    TransportError,
)
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.kubelet.settings import KubeletSettings

# Somebody was quicker: what to do follows from how things are when the key comes up again.
_EXPECTED = (ConflictError, AlreadyExistsError, NotFoundError)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the kubelets share."""

    api: Api
    informers: Informers
    events: EventBroadcaster
    clock: Clock
    log: Log
    tasks: Tasks
    settings: KubeletSettings


class Workers:
    """Some workers over one queue."""

    def __init__(self, name: str, work: Callable[[str], Awaitable[None]], parts: Parts) -> None:
        self.queue = WorkQueue()
        self._name = name
        self._work = work
        self._log = parts.log
        self._tasks = parts.tasks

    def start(self, count: int) -> None:
        """Work from now on."""
        for number in range(count):
            self._tasks.start(self._run(), name=f"kubelet {self._name} {number}")

    async def _run(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._work(key)
            except Exception as error:  # noqa: BLE001  # One object must not stop the others.
                self._failed(key, error)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    def _failed(self, key: str, error: Exception) -> None:
        self.queue.retry(key)
        if isinstance(error, _EXPECTED):
            self._log.info("Trying again", level=4, kubelet=self._name, key=key, err=str(error))
            return
        told = str(error)
        if not isinstance(error, ApiError | TransportError):
            told = "".join(traceback.format_exception(error))
        self._log.error("Unable to sync", err=told, kubelet=self._name, key=key)
