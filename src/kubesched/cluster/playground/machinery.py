"""Controllers and kubelets of a playground, on one event loop.

Owns their shared client and informers, and their lifecycle. They use REST only, so they work with
any API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubesched.api.documents import Document
from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.resources import PODS
from kubesched.client.rest import Client
from kubesched.cluster.controllers.controller import ControllerSettings
from kubesched.cluster.controllers.run import ControllerManager
from kubesched.cluster.informers.context import Dependencies
from kubesched.cluster.informers.informer import Informers
from kubesched.cluster.informers.session import TLS_SHUTDOWN_S
from kubesched.cluster.kubelet import Kubelets, KubeletSettings
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import RandomStream

_PHASE: Final = "phase"
_PENDING_MANY: Final = 200


@dataclass(frozen=True, slots=True)
class MachinerySettings:
    """Settings of controllers and kubelets."""

    speed: float = 1.0
    """Divides waits and durations."""
    is_active: bool = True
    """Whether controllers and kubelets run; else the cluster is only watched."""
    node_grace_s: float = 50.0
    """How long a node may be silent before it is unhealthy."""
    root_ca_pem: str = ""
    """CA bundle for pods."""
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
        """Create them; no request is sent before `start`."""
        settings = settings or MachinerySettings()
        self._clock = clock
        self.client = Client(
            access,
            qps=-1,
            burst=0,
            user_agent="kubesched/cluster/playground",
            clock=clock,
            log=log,
            # As kube-controller-manager: it knows that Endpoints are deprecated.
            logs_warnings=False,
        )
        self.informers = Informers(
            self.client, clock, log, RandomStream(settings.seed, "playground")
        )
        self.controllers: ControllerManager | None = None
        self.kubelets: Kubelets | None = None
        if settings.is_active:
            self._add_controllers_and_kubelets(settings, clock, log)

    def _add_controllers_and_kubelets(
        self, settings: MachinerySettings, clock: Clock, log: Log
    ) -> None:
        pods = self.informers.of(PODS)
        pods.add_index(_PHASE, _phase)

        def is_busy() -> bool:
            # Starting pods take precedence over events about them.
            return pods.count_by_index(_PHASE, "Pending") > _PENDING_MANY

        dependencies = Dependencies(
            self.client, self.informers, clock, log, seed=settings.seed, is_busy=is_busy
        )
        self.controllers = ControllerManager(
            dependencies,
            ControllerSettings(
                speed=settings.speed,
                node_grace_s=settings.node_grace_s,
                root_ca_pem=settings.root_ca_pem,
            ),
        )
        self.kubelets = Kubelets(dependencies, KubeletSettings(speed=settings.speed))

    async def start(self) -> None:
        """Wait for the informers, then start kubelets and controllers."""
        self.informers.start()
        await self.informers.wait_until_synced()
        if self.kubelets is not None:
            await self.kubelets.start()
        if self.controllers is not None:
            self.controllers.start()

    async def stop(self) -> None:
        """Stop controllers first, then kubelets."""
        if self.controllers is not None:
            await self.controllers.stop()
        if self.kubelets is not None:
            await self.kubelets.stop()
        await self.informers.stop()
        await self.client.close()
        await self._clock.sleep(TLS_SHUTDOWN_S)


def _phase(pod: Document) -> tuple[str, ...]:
    return (pod.get("status", {}).get("phase", ""),)
