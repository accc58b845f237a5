"""Those parts of a playground that are in the command's own process.

Owns what the cluster begins with, its controllers and kubelets, what is seen of it, and that the
scheduler is seen in it as a pod. API server and scheduler are processes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kubesched.client.kubeconfig import load_access
from kubesched.client.read_only import ReadOnlyClient
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, NullLog
from kubesched.kubelet.logs import LogBuffer
from kubesched.playground.control_planes import ControlPlane, Place
from kubesched.playground.filling import Filled, Filling, fill
from kubesched.playground.machinery import Machinery, MachinerySettings
from kubesched.playground.overview import Overview
from kubesched.playground.scheduler_child import mirror_pod
from kubesched.playground.snapshots import Document, read_cluster

_LOOK_S: Final = 0.02


@dataclass(slots=True)
class Residents:
    """What lives on an API server that runs."""

    place: Place
    plane: ControlPlane
    overview: Overview
    clock: Clock
    log: Log
    speed: float = 1.0
    scheduler_log: LogBuffer = field(init=False)
    """What `kubectl logs` shows of the scheduler."""
    machinery: Machinery | None = None

    def __post_init__(self) -> None:
        self.scheduler_log = LogBuffer(self.clock)

    async def start(self, filling: Filling) -> Filled:
        """Fill the cluster, and bring it to life."""
        settings = MachinerySettings(
            speed=self.speed,
            works=self.plane.has_own_machinery,
            root_ca_pem=self.plane.ca_pem,
        )
        access = load_access(kubeconfig=str(self.place.kubeconfig), environ={})
        machinery = Machinery(access, clock=self.clock, log=self.log, settings=settings)
        self.machinery = machinery
        self.overview.watch(machinery.informers)
        filled = await fill(machinery.client, filling)
        await machinery.start()
        return filled

    def show_scheduler(self, arguments: Sequence[str]) -> str:
        """Have the scheduler seen as a pod; return its name, empty if there is no place for it."""
        nodes = self.overview.shown_nodes
        kubelets = None if self.machinery is None else self.machinery.kubelets
        if kubelets is None or not nodes:
            return ""
        key = kubelets.add_static_pod(nodes[0].name, mirror_pod(arguments), self.scheduler_log)
        return key.rpartition("/")[2]

    async def stop(self) -> None:
        """End controllers and kubelets; the cluster stays as it is."""
        if self.machinery is not None:
            await self.machinery.stop()


async def copy_of_current_cluster(clock: Clock) -> tuple[list[Document], list[str]]:
    """Return the objects of the current kubeconfig context, and the kinds we may not read there."""
    client = ReadOnlyClient(
        load_access(), user_agent="kubesched/playground", clock=clock, log=NullLog()
    )
    try:
        return await read_cluster(client)
    finally:
        await client.close()
