"""The kubelets of all nodes of a cluster, on one loop.

Owns their start and end, and which parts they are made of. They speak REST only, so it does not
matter whose API server it is.
Upstream: cmd/kubelet/app/server.go, test/utils/kubemark
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubesched.client.cached.api import Api
from kubesched.client.cached.informers import Informers
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.kubelet.addresses import Addresses
from kubesched.kubelet.logs import LogSource
from kubesched.kubelet.node_status import Endpoint
from kubesched.kubelet.nodes import Nodes
from kubesched.kubelet.pods import Pods
from kubesched.kubelet.server import KubeletServer, Served
from kubesched.kubelet.settings import KubeletSettings
from kubesched.kubelet.static_pods import StaticPods
from kubesched.kubelet.working import Parts

_DRAIN_S: Final = 2.0


class Kubelets:
    """A kubelet for every Node there is, and will be."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        client: Client,
        informers: Informers,
        *,
        clock: Clock,
        log: Log,
        settings: KubeletSettings | None = None,
        seed: int = 0,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the kubelets; nothing is asked before `start`.

        Args:
            client: Who asks the API server.
            informers: What they know of the cluster; who made them starts and ends them.
            clock: What time it is.
            log: Where lines go.
            settings: How they behave.
            seed: Where chance comes from.
            is_busy: Whether the API server has more important things to do for us than events.
        """
        self.settings = settings or KubeletSettings()
        self.tasks = Tasks()
        self._events = EventBroadcaster(
            client.sibling(user_agent="kubelet"),
            clock=clock,
            log=log,
            hostname="kubelets",
            rng=Generator(seed, "kubelets' events"),
            is_busy=is_busy,
        )
        parts = Parts(
            api=Api(client, informers),
            informers=informers,
            events=self._events,
            clock=clock,
            log=log,
            tasks=self.tasks,
            settings=self.settings,
        )
        addresses = Addresses(node_cidr=self.settings.node_cidr, pod_cidr=self.settings.pod_cidr)
        self._pods = Pods(parts, addresses)
        self._nodes = Nodes(parts, addresses, self._pods.wake)
        self._static = StaticPods(parts)
        self._server = KubeletServer(Served(self._pods.run_of, self._static.log_of), clock)

    @property
    def endpoint(self) -> Endpoint:
        """Return where the kubelets are reached."""
        return Endpoint(self.settings.address, self._server.port)

    def add_static_pod(
        self, node_name: str, pod: Mapping[str, Any], log: LogSource | None = None
    ) -> str:
        """Have a pod run on a node whatever the API server says; return its mirror's key.

        Args:
            node_name: Which node; the mirror comes when the node does.
            pod: The pod, named without its node.
            log: What `kubectl logs` shows, a LogBuffer for instance; made up if None.
        """
        return self._static.add(node_name, pod, log)

    async def start(self) -> None:
        """Work from now on; the informers have synced."""
        await self._server.start(self.settings.address, self.settings.port)
        self.tasks.start(self._events.run(), name="kubelets' events")
        self._pods.start()
        self._nodes.start(self.endpoint)
        self._static.start()

    async def stop(self) -> None:
        """End them all; the pods stay as they are."""
        await self._events.drain(_DRAIN_S)
        await self.tasks.stop()
        for workers in (self._pods.workers, self._nodes.workers, self._static.workers):
            workers.queue.close()
        await self._server.stop()
