"""Parallel calls that stop at the first failure: PreBind groups, and evictions of a preemption.

Owns the tasks of one run, and its cancellation. Which PreBind plugins run together is decided in
`framework.runtime.bind_phase`.
Upstream: pkg/scheduler/framework/parallelize/{parallelism,result_channel}.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

from kubesched.framework.status import Status, error

FailureT = TypeVar("FailureT")


class ParallelCalls(Generic[FailureT]):
    """Runs calls in parallel; each returns a failure, or None."""

    def __init__(self) -> None:
        self._places: dict[asyncio.Task[FailureT | None], int] = {}

    async def run(
        self, calls: Sequence[Coroutine[Any, Any, FailureT | None]]
    ) -> tuple[int, FailureT] | None:
        """Return the position of the call that failed first, and its failure; None if none failed.

        The first failure cancels the other calls. None of them runs on after the return.
        """
        loop = asyncio.get_running_loop()
        self._places = {loop.create_task(call): place for place, call in enumerate(calls)}
        pending = set(self._places)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=self._places.__getitem__):
                    failure = self._stopped() if task.cancelled() else task.result()
                    if failure is not None:
                        return self._places[task], failure
            return None
        finally:
            self._cancel_all()
            tasks, self._places = self._places, {}
            await asyncio.gather(*tasks, return_exceptions=True)

    def _cancel_all(self) -> None:
        for task in self._places:
            task.cancel()

    def _stopped(self) -> FailureT | None:
        """Return the failure of a canceled call."""
        return None


class PreBindRun(ParallelCalls[Status]):
    """The PreBind run of one pod, which preemption can cancel until it has ended.

    Upstream: pkg/scheduler/framework/runtime/framework.go RunPreBindPlugins
    """

    def __init__(self) -> None:
        super().__init__()
        self._cause = ""

    def cancel(self, cause: str) -> None:
        """Cancel the running plugins; the attempt fails with this cause."""
        # Parity: runtime/framework.go RunPreBindPlugins, v1.36: the context's cause is the error.
        self._cause = self._cause or cause
        self._cancel_all()

    async def run(
        self, calls: Sequence[Coroutine[Any, Any, Status | None]]
    ) -> tuple[int, Status] | None:
        """Run a group of plugins; after a cancellation none of them starts."""
        if self._cause:
            for call in calls:
                call.close()
            return 0, error(self._cause)
        return await super().run(calls)

    def _stopped(self) -> Status | None:
        return error(self._cause) if self._cause else None
