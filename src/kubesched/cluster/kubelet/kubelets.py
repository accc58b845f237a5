"""The kubelets of all nodes of a cluster, on one event loop.

Owns their lifecycle. They use REST only, so they work with any API server.
Upstream: cmd/kubelet/app/server.go, test/utils/kubemark
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.informers.context import Dependencies
from kubesched.cluster.kubelet.addresses import Addresses
from kubesched.cluster.kubelet.logs import LogSource
from kubesched.cluster.kubelet.node_reporter import NodeReporter
from kubesched.cluster.kubelet.node_status import Endpoint
from kubesched.cluster.kubelet.pod_workers import PodWorkers
from kubesched.cluster.kubelet.server import KubeletServer, LogSources
from kubesched.cluster.kubelet.settings import Context, KubeletSettings
from kubesched.cluster.kubelet.static_pods import StaticPods


class Kubelets:
    """A kubelet for every Node, current and future."""

    def __init__(self, dependencies: Dependencies, settings: KubeletSettings | None = None) -> None:
        """Create the kubelets; no request is sent before `start`."""
        self.settings = settings or KubeletSettings()
        self._context = context = Context.create(
            dependencies, self.settings, name="kubelets", user_agent="kubelet", hostname="kubelets"
        )
        addresses = Addresses(node_cidr=self.settings.node_cidr, pod_cidr=self.settings.pod_cidr)
        self._pods = PodWorkers(context, addresses)
        self._nodes = NodeReporter(context, addresses, self._pods.wake)
        self._static_pods = StaticPods(context)
        self._server = KubeletServer(
            LogSources(self._pods.run_of, self._static_pods.log_of), context.clock
        )

    @property
    def endpoint(self) -> Endpoint:
        """Return the address of the kubelets' server."""
        return Endpoint(self.settings.address, self._server.port)

    def add_static_pod(
        self, node_name: str, pod: Mapping[str, Any], log: LogSource | None = None
    ) -> str:
        """Run a static pod on a node; return the key of its mirror pod.

        Args:
            node_name: The node; the mirror pod is created when the node exists.
            pod: The pod; its name gets the node name as a suffix.
            log: Output of `kubectl logs`, e.g. a LogBuffer; simulated if None.
        """
        return self._static_pods.add(node_name, pod, log)

    async def start(self) -> None:
        """Start working; the informers have synced."""
        await self._server.start(self.settings.address, self.settings.port)
        self._context.start()
        self._pods.start()
        self._nodes.start(self.endpoint)
        self._static_pods.start()

    async def stop(self) -> None:
        """Stop all kubelets; pods stay as they are."""
        await self._context.stop()
        await self._server.stop()
