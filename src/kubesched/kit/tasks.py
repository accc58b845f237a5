"""Tasks that are never lost and never nameless.

Owns the set of what runs in the background of one owner: each task has a name, a task that fails
says so in the log, and the owner ends them all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)


class Tasks:
    """Background work of one owner."""

    def __init__(self) -> None:
        # A dict as an ordered set: tasks end in the order in which they began.
        self._running: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run something from now on, until it ends or the owner does."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task failed: %s", task.get_name(), exc_info=error)

    async def stop(self) -> None:
        """Cancel what still runs and wait for it to end."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._running)
