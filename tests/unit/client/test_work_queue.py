"""A key waits once, is never worked on twice at a time, and comes back after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kubesched.client.cached.work_queue import WorkQueue
from kubesched.client.mirror import Turn


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def test_a_key_added_twice_is_worked_on_once() -> None:
    async def check() -> None:
        queue = WorkQueue()
        for key in ("a", "b", "a"):
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        queue.done("a")
        queue.done("b")
        assert queue.is_idle

    _run(check())


def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
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


def test_a_waiting_worker_is_woken() -> None:
    async def check() -> None:
        queue = WorkQueue()
        waiting = asyncio.ensure_future(queue.get())
        await Turn()
        queue.add("a")
        assert await waiting == "a"

    _run(check())


def test_a_worker_that_is_cancelled_takes_no_key_with_it() -> None:
    async def check() -> None:
        queue = WorkQueue()
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await Turn()
        queue.add("a")
        first.cancel()
        assert await second == "a"

    _run(check())


def test_a_failure_comes_back_and_the_sooner_of_two_times_counts() -> None:
    async def check() -> None:
        queue = WorkQueue()
        queue.add_after("a", 60)
        queue.retry("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    _run(check())
