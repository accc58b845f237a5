"""Many calls of one kind, begun carefully.

Owns how many of them are under way together: one, then two, then four, so that an error that all of
them would meet is met by few. Never tries a call again.
Upstream: pkg/controller/replicaset/replica_set.go slowStartBatch
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

INITIAL_BATCH: Final = 1


async def slow_start_batch(
    count: int, call: Callable[[], Awaitable[object]], *, initial: int = INITIAL_BATCH
) -> int:
    """Call something a number of times; return how often it went well.

    After a batch in which a call failed no more are made, and its first error is raised.

    Parity: replica_set.go slowStartBatch, v1.36.
    """
    remaining = count
    batch = min(remaining, initial)
    while batch > 0:
        outcomes = await asyncio.gather(*(call() for _ in range(batch)), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        remaining -= batch
        batch = min(2 * batch, remaining)
    return count
