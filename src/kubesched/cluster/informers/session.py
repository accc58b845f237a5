"""Client, informers and workers for a small controller.

Owns their shared clock and log, and the order of start and stop.

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

from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.cluster.informers.informer import Informers
from kubesched.cluster.informers.work_queue import Workers, WorkQueue
from kubesched.cluster.informers.write_through import WriteThroughClient
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, make_log
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

TLS_SHUTDOWN_S: Final = 0.1
"""A closed TLS connection needs some loop iterations before the loop itself is closed."""
_WORKERS: Final = 4


@dataclass(slots=True)
class Session:
    """A client of a cluster with its informers and workers."""

    client: Client
    informers: Informers
    api: WriteThroughClient
    """Writes that the informers know of at once."""
    clock: Clock
    log: Log
    rng: RandomStream
    """Random numbers with a seed of this process."""
    tasks: Tasks = field(default_factory=Tasks)
    _is_watching: bool = False

    async def work(
        self, name: str, sync: Callable[[str], Awaitable[None]], *, workers: int = _WORKERS
    ) -> WorkQueue:
        """Return a queue of keys whose workers start after the informers have synced.

        An exception of `sync` is logged, and its key is retried with backoff.
        """
        pool = Workers(name, sync, tasks=self.tasks, log=self.log)
        if not self._is_watching:
            self._is_watching = True
            self.informers.start()
        await self.informers.wait_until_synced()
        pool.start(workers)
        return pool.queue

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
    """Run a controller on the cluster that kubectl uses, until Ctrl-C."""

    async def run_session() -> None:
        async with session(user_agent) as cluster:
            await start(cluster)
            await cluster.until_stopped()

    asyncio.run(run_session())


@asynccontextmanager
async def session(
    user_agent: str,
    *,
    access: ClusterAccess | None = None,
    client: Client | None = None,
    log: Log | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Session]:
    """Yield a session, and stop it at the end of the block.

    Args:
        user_agent: The User-Agent header.
        access: The cluster; as kubectl finds it, or the account of the pod, if None.
        client: A client to use instead of a new one; the caller closes it.
        log: The log; standard error if None.
        clock: The clock.
    """
    clock = clock or SystemClock()
    log = log or make_log(clock=clock)
    api_client = client or Client(
        access or load_access(reads_home=True, clock=clock),
        user_agent=user_agent,
        clock=clock,
        log=log,
    )
    rng = RandomStream(int.from_bytes(os.urandom(8)), user_agent)
    informers = Informers(api_client, clock, log, rng)
    cluster = Session(
        api_client, informers, WriteThroughClient(api_client, informers), clock, log, rng
    )
    try:
        yield cluster
    finally:
        await cluster.tasks.stop()
        await informers.stop()
        if client is None:
            await api_client.close()
            await clock.sleep(TLS_SHUTDOWN_S)
