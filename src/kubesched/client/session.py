"""A program of one's own on the API server: what a small controller needs, in one block.

Owns that client, informers and workers share a clock and a log, and the order of their start and
end. What is watched and what is done with it is the program's.

    async def start(cluster: Session) -> None:
        pods = cluster.informers.of(PODS)
        queue = await cluster.work("label pods", label_pod)
        pods.on_change(lambda old, new: queue.add(key_of(new)) if new else None)

    run("my-controller", start)
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from kubesched.client.auth import ClusterAccess
from kubesched.client.cached.api import Api
from kubesched.client.cached.informers import Informers
from kubesched.client.cached.work_queue import WorkQueue
from kubesched.client.cached.workers import Workers
from kubesched.client.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, make_log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

_LEAVE_S: Final = 0.1
_WORKERS: Final = 4


@dataclass(slots=True)
class Session:
    """A connection to a cluster, and what works on it."""

    client: Client
    informers: Informers
    api: Api
    """Writes that the informers know of at once."""
    clock: Clock
    log: Log
    rng: Generator
    """Chance, from a seed of this process's own."""
    tasks: Tasks = field(default_factory=Tasks)
    _is_watching: bool = False

    async def work(
        self, name: str, sync: Callable[[str], Awaitable[None]], *, workers: int = _WORKERS
    ) -> WorkQueue:
        """Return a queue of keys, worked on once everything that is watched has been read.

        Whatever `sync` raises is logged, and its key is tried again, later each time.
        """
        made = Workers(name, sync, tasks=self.tasks, log=self.log)
        if not self._is_watching:
            self._is_watching = True
            self.informers.start()
        await self.informers.wait_until_synced()
        made.start(workers)
        return made.queue

    async def until_stopped(self) -> None:
        """Wait for SIGINT or SIGTERM."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, stopped.set)
        try:
            await stopped.wait()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def run(user_agent: str, start: Callable[[Session], Awaitable[None]]) -> None:
    """Start something on the cluster that kubectl would ask, and let it go on until Ctrl-C."""

    async def go_on() -> None:
        async with session(user_agent) as cluster:
            await start(cluster)
            await cluster.until_stopped()

    asyncio.run(go_on())


@asynccontextmanager
async def session(
    user_agent: str,
    *,
    access: ClusterAccess | None = None,
    client: Client | None = None,
    log: Log | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Session]:
    """Work with a cluster until the end of the block.

    Args:
        user_agent: What the server logs us as.
        access: Where the cluster is; as kubectl finds it, or the pod's own account, if None.
        client: What asks, in place of one of the session's own; who made it closes it.
        log: Where lines go; standard error if None.
        clock: What time it is.
    """
    clock = clock or SystemClock()
    log = log or make_log(clock=clock)
    asks = client or Client(
        access or load_access(reads_home=True, clock=clock),
        user_agent=user_agent,
        clock=clock,
        log=log,
    )
    rng = Generator(int.from_bytes(os.urandom(8)), user_agent)
    informers = Informers(asks, clock, log, rng)
    made = Session(asks, informers, Api(asks, informers), clock, log, rng)
    try:
        yield made
    finally:
        await made.tasks.stop()
        await informers.stop()
        if client is None:
            await asks.close()
            # Taking leave over TLS needs some turns of the loop, which may be closed afterwards.
            await clock.sleep(_LEAVE_S)
