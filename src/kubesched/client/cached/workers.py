"""Workers over a queue of keys.

Owns the loop around the work on one key: what fails is tried again, later each time. What the work
is, controllers and kubelets say.
Upstream: the processNextWorkItem of every controller in pkg/controller, pkg/kubelet/pod_workers.go
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

from kubesched.client.cached.work_queue import WorkQueue
from kubesched.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    TransportError,
)
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks

# Somebody was quicker: what to do follows from how things are when the key comes up again.
_EXPECTED = (ConflictError, AlreadyExistsError, NotFoundError)


class Workers:
    """Some workers over one queue."""

    def __init__(
        self, name: str, work: Callable[[str], Awaitable[None]], *, tasks: Tasks, log: Log
    ) -> None:
        """Make them; nothing is worked on before `start`.

        Args:
            name: What logs call them.
            work: What is done with a key; whatever it raises is logged, and it is tried again.
            tasks: Where they run.
            log: Where lines go.
        """
        self.queue = WorkQueue()
        self._name = name
        self._do = work
        self._tasks = tasks
        self._log = log

    def start(self, count: int) -> None:
        """Work from now on, on so many keys at a time."""
        for number in range(count):
            self._tasks.start(self._work(), name=f"{self._name} {number}")

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._do(key)
            except Exception as error:  # noqa: BLE001  # One object must not stop the others.
                self._failed(key, error)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    def _failed(self, key: str, error: Exception) -> None:
        self.queue.retry(key)
        if isinstance(error, _EXPECTED):
            self._log.info("Trying again", level=4, worker=self._name, key=key, err=str(error))
            return
        told = str(error)
        if not isinstance(error, ApiError | TransportError):
            told = "".join(traceback.format_exception(error))
        self._log.error("Unable to sync", err=told, worker=self._name, key=key)
