"""What makes a cluster live: controllers and kubelets, on one event loop.

Owns that they share a client and what they know of the cluster, and the order of their start and
end. What they do is theirs; they speak REST only, so it does not matter whose API server it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubesched.client.auth import ClusterAccess
from kubesched.client.cached.documents import Document
from kubesched.client.cached.informers import Informers
from kubesched.client.cached.parts import Surroundings
from kubesched.client.resources import PODS
from kubesched.client.rest import Client
from kubesched.controllers.controller import ControllerSettings
from kubesched.controllers.run import Controllers
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kubelet import Kubelets, KubeletSettings

_LEAVE_S: Final = 0.1
_PHASE: Final = "phase"
_PENDING_MANY: Final = 200


@dataclass(frozen=True, slots=True)
class MachinerySettings:
    """How a cluster lives."""

    speed: float = 1.0
    """How many times faster than a real one."""
    works: bool = True
    """Whether controllers and kubelets run; else it is only watched, since others do the work."""
    node_grace_s: float = 50.0
    """How long a node may be silent before it counts as lost."""
    root_ca_pem: str = ""
    """Whom pods trust."""
    seed: int = 0


class Machinery:
    """The controllers and kubelets of one cluster."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        clock: Clock,
        log: Log,
        settings: MachinerySettings | None = None,
    ) -> None:
        """Make them; nothing is asked before `start`.

        Args:
            access: Where the API server is, and who we are to it.
            clock: What time it is.
            log: Where lines go.
            settings: How the cluster lives.
        """
        settings = settings or MachinerySettings()
        self._clock = clock
        self.client = Client(
            access,
            qps=-1,
            burst=0,
            user_agent="kubesched/playground",
            clock=clock,
            log=log,
            # As kube-controller-manager: that Endpoints are deprecated need not be said each time.
            logs_warnings=False,
        )
        self.informers = Informers(self.client, clock, log, Generator(settings.seed, "playground"))
        self.controllers: Controllers | None = None
        self.kubelets: Kubelets | None = None
        if settings.works:
            self._add_workers(settings, clock, log)

    def _add_workers(self, settings: MachinerySettings, clock: Clock, log: Log) -> None:
        pods = self.informers.of(PODS)
        pods.add_index(_PHASE, _phase)

        def is_busy() -> bool:
            # Pods that come up go before the story of how they did.
            return pods.count(_PHASE, "Pending") > _PENDING_MANY

        around = Surroundings(
            self.client, self.informers, clock, log, seed=settings.seed, is_busy=is_busy
        )
        self.controllers = Controllers(
            around,
            ControllerSettings(
                speed=settings.speed,
                node_grace_s=settings.node_grace_s,
                root_ca_pem=settings.root_ca_pem,
            ),
        )
        self.kubelets = Kubelets(around, KubeletSettings(speed=settings.speed))

    async def start(self) -> None:
        """Read the cluster, and work from then on."""
        self.informers.start()
        await self.informers.wait_until_synced()
        if self.kubelets is not None:
            await self.kubelets.start()
        if self.controllers is not None:
            self.controllers.start()

    async def stop(self) -> None:
        """End in order: nobody makes pods, then nobody runs them."""
        if self.controllers is not None:
            await self.controllers.stop()
        if self.kubelets is not None:
            await self.kubelets.stop()
        await self.informers.stop()
        await self.client.close()
        # Taking leave over TLS needs some turns of the loop, which may be closed afterwards.
        await self._clock.sleep(_LEAVE_S)


def _phase(pod: Document) -> tuple[str, ...]:
    return (pod.get("status", {}).get("phase", ""),)
