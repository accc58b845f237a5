"""The controller manager: runs all controllers of a cluster on one event loop.

Owns their lifecycle and the check of writes that the watch never confirmed.
Upstream: cmd/kube-controller-manager/app/controllermanager.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import key_of, name_of, namespace_of, uid_of
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.cluster.controllers.controller import Context, ControllerSettings
from kubesched.cluster.controllers.registry import CONTROLLERS
from kubesched.cluster.informers.context import Dependencies

_UNCONFIRMED_S: Final = 10.0


class ControllerManager:
    """All controllers of one cluster."""

    def __init__(
        self, dependencies: Dependencies, settings: ControllerSettings | None = None
    ) -> None:
        """Create the controllers; no request is sent before `start`."""
        self._context = Context.create(
            dependencies,
            settings or ControllerSettings(),
            name="controllers",
            user_agent="kube-controller-manager",
            hostname="playground",
        )
        self._controllers = [controller_class(self._context) for controller_class in CONTROLLERS]

    def start(self) -> None:
        """Start all controllers; the informers have synced."""
        self._context.start()
        self._context.tasks.start(self._confirm(), name="unconfirmed writes")
        for controller in self._controllers:
            controller.start()

    async def stop(self) -> None:
        """Stop all controllers."""
        await self._context.stop()

    async def _confirm(self) -> None:
        """Re-read objects that we wrote and the watch never delivered: they may be gone."""
        while True:
            await self._context.clock.sleep(_UNCONFIRMED_S)
            for informer in self._context.informers.all_informers():
                for document in informer.unconfirmed(_UNCONFIRMED_S):
                    try:
                        current = await self._context.api.get(
                            informer.resource, name_of(document), namespace_of(document)
                        )
                    except NotFoundError:
                        informer.forget(key_of(document), uid_of(document))
                    except (ApiError, TransportError):
                        continue
                    else:
                        informer.confirm(uid_of(current))
