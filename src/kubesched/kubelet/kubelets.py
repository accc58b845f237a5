"""The kubelets of all nodes of a cluster, on one loop.

Owns their start and end, and which parts they are made of. They speak REST only, so it does not
matter whose API server it is.
Upstream: cmd/kubelet/app/server.go, test/utils/kubemark
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.client.cached.parts import Surroundings
from kubesched.kubelet.addresses import Addresses
from kubesched.kubelet.logs import LogSource
from kubesched.kubelet.node_status import Endpoint
from kubesched.kubelet.nodes import Nodes
from kubesched.kubelet.pods import Pods
from kubesched.kubelet.server import KubeletServer, Served
from kubesched.kubelet.settings import KubeletSettings, Parts
from kubesched.kubelet.static_pods import StaticPods


class Kubelets:
    """A kubelet for every Node there is, and will be."""

    def __init__(self, around: Surroundings, settings: KubeletSettings | None = None) -> None:
        """Make the kubelets; nothing is asked before `start`.

        Args:
            around: What they share with others; the informers are started and ended by their owner.
            settings: How they behave.
        """
        self.settings = settings or KubeletSettings()
        self._parts = parts = Parts.among(
            around, self.settings, name="kubelets", user_agent="kubelet", hostname="kubelets"
        )
        addresses = Addresses(node_cidr=self.settings.node_cidr, pod_cidr=self.settings.pod_cidr)
        self._pods = Pods(parts, addresses)
        self._nodes = Nodes(parts, addresses, self._pods.wake)
        self._static = StaticPods(parts)
        self._server = KubeletServer(Served(self._pods.run_of, self._static.log_of), parts.clock)

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
        self._parts.start()
        self._pods.start()
        self._nodes.start(self.endpoint)
        self._static.start()

    async def stop(self) -> None:
        """End them all; the pods stay as they are."""
        await self._parts.stop()
        await self._server.stop()
