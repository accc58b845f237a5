"""Those parts of a playground that are in the command's own process.

Owns what the cluster begins with, its controllers and kubelets, what is seen of it, and that the
scheduler is seen in it as a pod. API server and scheduler are processes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kubesched.client.kubeconfig import load_access
from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.resources import PODS
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, NullLog
from kubesched.kubelet.logs import LogBuffer
from kubesched.playground.control_planes import ControlPlane, Place
from kubesched.playground.filling import Filled, Filling, fill
from kubesched.playground.machinery import Machinery, MachinerySettings
from kubesched.playground.overview import Overview
from kubesched.playground.scheduler_child import NAMESPACE, mirror_pod, on_node
from kubesched.playground.snapshots import Document, read_cluster

_LOOK_S: Final = 0.02


class ContainerLog:
    """Lines in a file, as container runtimes write them and KWOK reads them."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._file = path.open("a", encoding="utf-8")

    def append(self, text: str) -> None:
        """Add a line."""
        at = datetime.fromtimestamp(self._clock.now_s(), UTC).isoformat()
        self._file.write(f"{at.replace('+00:00', 'Z')} stderr F {text}\n")
        self._file.flush()

    def close(self) -> None:
        """Add no more lines."""
        self._file.close()


@dataclass(slots=True)
class Residents:
    """What lives on an API server that runs."""

    place: Place
    plane: ControlPlane
    overview: Overview
    clock: Clock
    log: Log
    speed: float = 1.0
    scheduler_log: LogBuffer | ContainerLog = field(init=False)
    """What `kubectl logs` shows of the scheduler."""
    machinery: Machinery | None = None

    def __post_init__(self) -> None:
        if self.plane.has_own_machinery:
            self.scheduler_log = LogBuffer(self.clock)
        else:
            self.scheduler_log = ContainerLog(self.place.system_log, self.clock)

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

    async def show_scheduler(self, arguments: Sequence[str]) -> str:
        """Have the scheduler seen as a pod; return its name, empty if there is no place for it."""
        nodes = self.overview.shown_nodes
        if self.machinery is None or not nodes:
            return ""
        node, pod = nodes[0].name, mirror_pod(arguments)
        kubelets, log = self.machinery.kubelets, self.scheduler_log
        if kubelets is not None and isinstance(log, LogBuffer):
            return kubelets.add_static_pod(node, pod, log).rpartition("/")[2]
        # KWOK has no static pods: it runs the mirror itself.
        mirror = on_node(pod, node)
        await self.machinery.client.create(PODS, mirror, namespace=NAMESPACE)
        return str(mirror["metadata"]["name"])

    async def stop(self) -> None:
        """End controllers and kubelets; the cluster stays as it is."""
        if self.machinery is not None:
            await self.machinery.stop()
        if isinstance(self.scheduler_log, ContainerLog):
            self.scheduler_log.close()


async def copy_of_current_cluster(clock: Clock) -> tuple[list[Document], list[str]]:
    """Return the objects of the current kubeconfig context, and the kinds we may not read there."""
    client = ReadOnlyClient(
        load_access(), user_agent="kubesched/playground", clock=clock, log=NullLog()
    )
    try:
        return await read_cluster(client)
    finally:
        await client.close()
