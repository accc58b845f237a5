"""Shared context of a group of control loops: the controllers, or the kubelets, of one cluster.

Owns what each of them is constructed with, and the lifecycle of what they share: the event
broadcaster and the worker pools.
Upstream: cmd/kube-controller-manager/app/controllermanager.go ControllerContext
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Self, TypeVar

from kubesched.client.events.recorder import CoreEventRecorder, EventBroadcaster
from kubesched.client.rest import Client
from kubesched.cluster.informers.informer import Informers
from kubesched.cluster.informers.work_queue import Workers
from kubesched.cluster.informers.write_through import WriteThroughClient
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

_DRAIN_S: Final = 2.0

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Inputs of a group of control loops; their owner starts and stops them."""

    client: Client
    informers: Informers
    clock: Clock
    log: Log
    seed: int = 0
    """Seed of the random generators."""
    is_busy: Callable[[], bool] = lambda: False
    """Whether events should yield to more important requests."""


@dataclass(frozen=True, slots=True)
class ControllerContext(Generic[SettingsT]):
    """What every control loop of a group works with."""

    name: str
    api: WriteThroughClient
    informers: Informers
    events: EventBroadcaster
    clock: Clock
    log: Log
    rng: RandomStream
    tasks: Tasks
    settings: SettingsT
    worker_pools: list[Workers] = field(default_factory=list)
    """The pools made by `workers`."""

    @classmethod
    def create(
        cls,
        dependencies: Dependencies,
        settings: SettingsT,
        *,
        name: str,
        user_agent: str,
        hostname: str,
    ) -> Self:
        """Create the context of a named group; no request is sent before `start`."""
        events = EventBroadcaster(
            dependencies.client.sibling(user_agent=user_agent),
            clock=dependencies.clock,
            log=dependencies.log,
            hostname=hostname,
            is_busy=dependencies.is_busy,
        )
        return cls(
            name=name,
            api=WriteThroughClient(dependencies.client, dependencies.informers),
            informers=dependencies.informers,
            events=events,
            clock=dependencies.clock,
            log=dependencies.log,
            rng=RandomStream(dependencies.seed, name),
            tasks=Tasks(),
            settings=settings,
        )

    def recorder(self, component: str, host: str = "") -> CoreEventRecorder:
        """Return an event recorder for a component, on a host."""
        return self.events.core_recorder(component, host)

    def workers(self, name: str, work: Callable[[str], Awaitable[None]]) -> Workers:
        """Return workers over a new queue; `stop` closes it."""
        pool = Workers(name, work, tasks=self.tasks, log=self.log)
        self.worker_pools.append(pool)
        return pool

    def start(self) -> None:
        """Start writing events."""
        self.tasks.start(self.events.run(), name=f"{self.name}' events")

    async def stop(self) -> None:
        """Write the remaining events, then stop everything."""
        await self.events.drain(_DRAIN_S)
        await self.tasks.stop()
        for pool in self.worker_pools:
            pool.queue.close()
