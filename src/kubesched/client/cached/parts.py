"""What those who work on a cluster side by side share: its controllers, or its kubelets.

Owns the parts that are handed around among them, and the start and end of what belongs to all:
events, and the queues of their workers. What the work is, each of them says.
Upstream: cmd/kube-controller-manager/app/controllermanager.go ControllerContext
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Self, TypeVar

from kubesched.client.cached.api import Api
from kubesched.client.cached.informers import Informers
from kubesched.client.cached.workers import Workers
from kubesched.client.event_recorder import CoreEventRecorder, EventBroadcaster
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

_DRAIN_S: Final = 2.0

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What they find when they come: who made it starts and ends it."""

    client: Client
    """Who asks the API server."""
    informers: Informers
    """What is known of the cluster."""
    clock: Clock
    log: Log
    seed: int = 0
    """Where chance comes from."""
    is_busy: Callable[[], bool] = lambda: False
    """Whether the API server has more important things to do for us than events."""


@dataclass(frozen=True, slots=True)
class Parts(Generic[SettingsT]):
    """What they are made of."""

    name: str
    api: Api
    informers: Informers
    events: EventBroadcaster
    clock: Clock
    log: Log
    rng: Generator
    tasks: Tasks
    settings: SettingsT
    pools: list[Workers] = field(default_factory=list)
    """The workers that were made of them."""

    @classmethod
    def among(
        cls, around: Surroundings, settings: SettingsT, *, name: str, user_agent: str, hostname: str
    ) -> Self:
        """Make the parts; nothing is asked before `start`.

        Args:
            around: What is there already.
            settings: How they behave.
            name: What logs call them, all together.
            user_agent: Who they are to the API server when they write events.
            hostname: The machine, as events name it.
        """
        events = EventBroadcaster(
            around.client.sibling(user_agent=user_agent),
            clock=around.clock,
            log=around.log,
            hostname=hostname,
            rng=Generator(around.seed, f"{name}' events"),
            is_busy=around.is_busy,
        )
        return cls(
            name=name,
            api=Api(around.client, around.informers),
            informers=around.informers,
            events=events,
            clock=around.clock,
            log=around.log,
            rng=Generator(around.seed, name),
            tasks=Tasks(),
            settings=settings,
        )

    def recorder(self, component: str, host: str = "") -> CoreEventRecorder:
        """Return who writes events in the name of a component, on a machine."""
        return self.events.core_recorder(component, host)

    def workers(self, name: str, work: Callable[[str], Awaitable[None]]) -> Workers:
        """Return workers over a new queue, which ends with all others."""
        made = Workers(name, work, tasks=self.tasks, log=self.log)
        self.pools.append(made)
        return made

    def start(self) -> None:
        """Write events from now on."""
        self.tasks.start(self.events.run(), name=f"{self.name}' events")

    async def stop(self) -> None:
        """End everything that runs, once the last events are written."""
        await self.events.drain(_DRAIN_S)
        await self.tasks.stop()
        for pool in self.pools:
            pool.queue.close()
