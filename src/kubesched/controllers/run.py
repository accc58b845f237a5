"""All controllers of a cluster, on one loop.

Owns their start and end, and the look at what was written and never confirmed.
Upstream: cmd/kube-controller-manager/app/controllermanager.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubesched.client.cached.api import Api
from kubesched.client.cached.documents import key_of, name_of, namespace_of, uid_of
from kubesched.client.cached.informers import Informers
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.client.rest import Client
from kubesched.controllers.controller import ControllerSettings, Parts
from kubesched.controllers.registry import CONTROLLERS
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

_UNCONFIRMED_S: Final = 10.0
_DRAIN_S: Final = 2.0
_HOSTNAME: Final = "playground"


class Controllers:
    """The controllers of one cluster."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        client: Client,
        informers: Informers,
        *,
        clock: Clock,
        log: Log,
        settings: ControllerSettings | None = None,
        seed: int = 0,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the controllers; nothing is asked before `start`.

        Args:
            client: Who asks the API server.
            informers: What they know of the cluster; who made them starts and ends them.
            clock: What time it is.
            log: Where lines go.
            settings: How they behave.
            seed: Where chance comes from.
            is_busy: Whether the API server has more important things to do for us than events.
        """
        self.informers = informers
        self.tasks = Tasks()
        self._clock = clock
        self._events = EventBroadcaster(
            client.sibling(user_agent="kube-controller-manager"),
            clock=clock,
            log=log,
            hostname=_HOSTNAME,
            is_busy=is_busy,
        )
        self._api = Api(client, self.informers)
        parts = Parts(
            api=self._api,
            informers=self.informers,
            events=self._events,
            clock=clock,
            log=log,
            rng=Generator(seed, "controllers"),
            tasks=self.tasks,
            settings=settings or ControllerSettings(),
        )
        self.controllers = [make(parts) for make in CONTROLLERS]

    def start(self) -> None:
        """Work from now on; the informers have synced."""
        self.tasks.start(self._events.run(), name="controllers' events")
        self.tasks.start(self._confirm(), name="unconfirmed writes")
        for controller in self.controllers:
            controller.start()

    async def stop(self) -> None:
        """End them all."""
        await self._events.drain(_DRAIN_S)
        await self.tasks.stop()
        for controller in self.controllers:
            controller.queue.close()

    async def _confirm(self) -> None:
        """Ask for what we wrote and the watch never told of: it may be gone."""
        while True:
            await self._clock.sleep(_UNCONFIRMED_S)
            for informer in self.informers.known():
                for document in informer.unconfirmed(_UNCONFIRMED_S):
                    try:
                        now = await self._api.get(
                            informer.resource, name_of(document), namespace_of(document)
                        )
                    except NotFoundError:
                        informer.forget(key_of(document), uid_of(document))
                    except (ApiError, TransportError):
                        continue
                    else:
                        informer.confirmed(uid_of(now))
