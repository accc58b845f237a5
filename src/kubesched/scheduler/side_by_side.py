"""Several calls at once, of which the first that fails ends the others.

Owns the tasks of one such run and how it is called off from outside. Never knows what is called:
pre-bind of plugins that allow it, and evictions of one preemption.
Upstream: pkg/scheduler/framework/parallelize/{parallelism,result_channel}.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

FailureT = TypeVar("FailureT")


class SideBySide(Generic[FailureT]):
    """Runs calls that return a failure, or None."""

    def __init__(self) -> None:
        self._places: dict[asyncio.Task[FailureT | None], int] = {}

    async def run(
        self, calls: Sequence[Coroutine[Any, Any, FailureT | None]]
    ) -> tuple[int, FailureT] | None:
        """Return the place of the call that failed first, and how; None if none did.

        The first failure ends the other calls. None of them runs any more afterwards.
        """
        loop = asyncio.get_running_loop()
        self._places = {loop.create_task(call): place for place, call in enumerate(calls)}
        try:
            return await self._first_failure()
        finally:
            await self._end()

    async def _first_failure(self) -> tuple[int, FailureT] | None:
        pending = set(self._places)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=self._places.__getitem__):
                failure = self._stopped() if task.cancelled() else task.result()
                if failure is not None:
                    return self._places[task], failure
        return None

    async def _end(self) -> None:
        tasks, self._places = list(self._places), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cancel_all(self) -> None:
        for task in self._places:
            task.cancel()

    def _stopped(self) -> FailureT | None:
        """Return what a call comes to that ended because it was cancelled."""
        return None
