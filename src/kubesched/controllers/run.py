"""All controllers of a cluster, on one loop.

Owns their start and end, and the look at what was written and never confirmed.
Upstream: cmd/kube-controller-manager/app/controllermanager.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import key_of, name_of, namespace_of, uid_of
from kubesched.client.cached.parts import Surroundings
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.controllers.controller import ControllerSettings, Parts
from kubesched.controllers.registry import CONTROLLERS

_UNCONFIRMED_S: Final = 10.0


class Controllers:
    """The controllers of one cluster."""

    def __init__(self, around: Surroundings, settings: ControllerSettings | None = None) -> None:
        """Make the controllers; nothing is asked before `start`.

        Args:
            around: What they share with others; the informers are started and ended by their owner.
            settings: How they behave.
        """
        self._parts = Parts.among(
            around,
            settings or ControllerSettings(),
            name="controllers",
            user_agent="kube-controller-manager",
            hostname="playground",
        )
        self._controllers = [make(self._parts) for make in CONTROLLERS]

    def start(self) -> None:
        """Work from now on; the informers have synced."""
        self._parts.start()
        self._parts.tasks.start(self._confirm(), name="unconfirmed writes")
        for controller in self._controllers:
            controller.start()

    async def stop(self) -> None:
        """End them all."""
        await self._parts.stop()

    async def _confirm(self) -> None:
        """Ask for what we wrote and the watch never told of: it may be gone."""
        while True:
            await self._parts.clock.sleep(_UNCONFIRMED_S)
            for informer in self._parts.informers.known():
                for document in informer.unconfirmed(_UNCONFIRMED_S):
                    try:
                        now = await self._parts.api.get(
                            informer.resource, name_of(document), namespace_of(document)
                        )
                    except NotFoundError:
                        informer.forget(key_of(document), uid_of(document))
                    except (ApiError, TransportError):
                        continue
                    else:
                        informer.confirmed(uid_of(now))
