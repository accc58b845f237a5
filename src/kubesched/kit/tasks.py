"""Named background tasks of one owner, and the event loop of a process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_log = logging.getLogger(__name__)


class Tasks:
    """The background tasks of one owner; a failed one is logged."""

    def __init__(self) -> None:
        # A dict as an ordered set: tasks end in the order in which they began.
        self._running: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or the owner does."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task failed: %s", task.get_name(), exc_info=error)

    async def stop(self) -> None:
        """Cancel the running tasks and wait for them to end."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._running)


def run_loop(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine on a new event loop: on uvloop's where it is installed."""
    try:
        import uvloop  # noqa: PLC0415  # Not on every platform.
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
