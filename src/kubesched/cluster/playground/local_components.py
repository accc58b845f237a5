"""Components of `kubesched playground` that run in the command's own process.

Owns the initial objects, controllers, kubelets, the overview, and the scheduler's mirror pod. API
server and scheduler are child processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.resources import PODS
from kubesched.cluster.kubelet.logs import LogBuffer
from kubesched.cluster.playground.control_planes import ControlPlane, PlaygroundLocation
from kubesched.cluster.playground.initial_objects import BootstrapResult, InitialObjects, bootstrap
from kubesched.cluster.playground.machinery import Machinery, MachinerySettings
from kubesched.cluster.playground.overview import Overview
from kubesched.cluster.playground.scheduler_process import NAMESPACE, mirror_on_node, mirror_pod
from kubesched.cluster.playground.snapshots import Document, read_cluster
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, NullLog

_LOOK_S: Final = 0.02


class CriLogFile:
    """A log file in the CRI format, which KWOK reads."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._file = path.open("a", encoding="utf-8")

    def append(self, text: str) -> None:
        """Append a line."""
        at = datetime.fromtimestamp(self._clock.now_s(), UTC).isoformat()
        self._file.write(f"{at.replace('+00:00', 'Z')} stderr F {text}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(slots=True)
class LocalComponents:
    """Components that run beside an API server."""

    location: PlaygroundLocation
    plane: ControlPlane
    overview: Overview
    clock: Clock
    log: Log
    speed: float = 1.0
    scheduler_log: LogBuffer | CriLogFile = field(init=False)
    """Output of `kubectl logs` for the scheduler."""
    machinery: Machinery | None = None

    def __post_init__(self) -> None:
        if self.plane.needs_machinery:
            self.scheduler_log = LogBuffer(self.clock)
        else:
            self.scheduler_log = CriLogFile(self.location.system_log, self.clock)

    async def start(self, initial: InitialObjects) -> BootstrapResult:
        """Create the initial objects, then start controllers and kubelets."""
        settings = MachinerySettings(
            speed=self.speed,
            is_active=self.plane.needs_machinery,
            root_ca_pem=self.plane.ca_pem,
        )
        access = load_access(kubeconfig=str(self.location.kubeconfig), environ={})
        machinery = Machinery(access, clock=self.clock, log=self.log, settings=settings)
        self.machinery = machinery
        self.overview.watch(machinery.informers)
        result = await bootstrap(machinery.client, initial)
        await machinery.start()
        return result

    async def show_scheduler(self, arguments: Sequence[str]) -> str:
        """Create the scheduler's mirror pod; return its name, empty if there is no node."""
        nodes = self.overview.shown_nodes
        if self.machinery is None or not nodes:
            return ""
        node, pod = nodes[0].name, mirror_pod(arguments)
        kubelets, log = self.machinery.kubelets, self.scheduler_log
        if kubelets is not None and isinstance(log, LogBuffer):
            return kubelets.add_static_pod(node, pod, log).rpartition("/")[2]
        # KWOK has no static pods: it runs the mirror pod.
        mirror = mirror_on_node(pod, node)
        await self.machinery.client.create(PODS, mirror, namespace=NAMESPACE)
        return str(mirror["metadata"]["name"])

    async def stop(self) -> None:
        """Stop controllers and kubelets; the objects stay as they are."""
        if self.machinery is not None:
            await self.machinery.stop()
        if isinstance(self.scheduler_log, CriLogFile):
            self.scheduler_log.close()


async def read_current_cluster(clock: Clock) -> tuple[list[Document], list[str]]:
    """Return the objects of the current kubeconfig context, and the unreadable resources."""
    client = ReadOnlyClient(
        load_access(), user_agent="kubesched/cluster/playground", clock=clock, log=NullLog()
    )
    try:
        return await read_cluster(client)
    finally:
        await client.close()
