"""The pre-bind of one pod, as a run that preemption can call off.

Owns what calling it off means for the attempt. Which plugins run together is the framework's.
Upstream: pkg/scheduler/framework/runtime/framework.go RunPreBindPlugins
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from kubesched.framework.status import Status, error
from kubesched.scheduler.side_by_side import SideBySide


class PreBindRun(SideBySide[Status]):
    """The pre-bind of one pod, which can be called off until it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._cause = ""

    def cancel(self, cause: str) -> None:
        """Have every plugin that still works stop; the attempt ends with that cause."""
        # Parity: runtime/framework.go RunPreBindPlugins, v1.36: the context's cause is the error.
        self._cause = self._cause or cause
        self._cancel_all()

    async def run(
        self, calls: Sequence[Coroutine[Any, Any, Status | None]]
    ) -> tuple[int, Status] | None:
        """Run a group of plugins; one that begins after the run was called off never works."""
        if self._cause:
            for call in calls:
                call.close()
            return 0, error(self._cause)
        return await super().run(calls)

    def _stopped(self) -> Status | None:
        return error(self._cause) if self._cause else None
