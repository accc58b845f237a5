"""The work queue: deduplication, one worker per key, retries."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kubesched.client.watch.changes import LoopTurn
from kubesched.cluster.informers.work_queue import WorkQueue


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def test_a_key_added_twice_is_processed_once() -> None:
    async def check() -> None:
        queue = WorkQueue()
        for key in ("a", "b", "a"):
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        queue.done("a")
        queue.done("b")
        assert queue.is_idle

    _run(check())


def test_a_key_added_while_processed_is_processed_again() -> None:
    async def check() -> None:
        queue = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("b")
        assert await queue.get() == "b"
        queue.done("a")
        assert await queue.get() == "a"

    _run(check())


def test_a_new_key_wakes_a_waiting_worker() -> None:
    async def check() -> None:
        queue = WorkQueue()
        waiting = asyncio.ensure_future(queue.get())
        await LoopTurn()
        queue.add("a")
        assert await waiting == "a"

    _run(check())


def test_a_cancelled_worker_loses_no_key() -> None:
    async def check() -> None:
        queue = WorkQueue()
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await LoopTurn()
        queue.add("a")
        first.cancel()
        assert await second == "a"

    _run(check())


def test_failed_keys_are_retried_at_the_earliest_due_time() -> None:
    async def check() -> None:
        queue = WorkQueue()
        queue.add_after("a", 60)
        queue.retry("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    _run(check())
