"""Reports node statuses and renews node leases.

Owns when a node's status and lease are written. Their contents are node_status'.
Upstream: pkg/kubelet/kubelet_node_status.go,
staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kubesched.api.documents import Document, name_of, uid_of
from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.resources import LEASES, NODES
from kubesched.client.rest import MERGE_PATCH
from kubesched.cluster.kubelet.addresses import Addresses
from kubesched.cluster.kubelet.node_status import (
    LEASE_NAMESPACE,
    Endpoint,
    is_alive,
    lease_of,
    lease_renewal,
    missing_labels,
    status_patch,
)
from kubesched.cluster.kubelet.settings import Context

_WORKERS: Final = 8
_CHECKS_PER_PERIOD: Final = 40
_GOLDEN_RATIO: Final = 0.6180339887498949


@dataclass(slots=True)
class _TrackedNode:
    """When a node's lease and status are due."""

    renew_s: float
    report_s: float
    has_lease: bool = False
    before: Document | None = None
    """The node before its last change."""


class NodeReporter:
    """Reports the status of every Node."""

    def __init__(
        self, context: Context, addresses: Addresses, wake_pods: Callable[[str], None]
    ) -> None:
        self._context = context
        self._addresses = addresses
        self._wake_pods = wake_pods
        self._nodes = context.informers.of(NODES)
        self._tracked: dict[str, _TrackedNode] = {}
        self._endpoint = Endpoint("", 0)
        # A client of its own, so that heartbeats do not wait behind pod writes.
        self._client = context.api.client.sibling(user_agent="kubelet")
        self._phase_count = 0
        self.workers = context.workers("kubelet nodes", self._sync)

    def start(self, endpoint: Endpoint) -> None:
        """Start working; nodes report this endpoint."""
        self._endpoint = endpoint
        self._nodes.on_change(self._changed)
        self.workers.start(_WORKERS)
        self._context.tasks.start(self._renew_due_leases(), name="kubelet heartbeats")

    def _changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            if old is not None:
                self._tracked.pop(name_of(old), None)
            return
        name = name_of(new)
        tracked = self._tracked.get(name)
        if tracked is None or old is None or uid_of(old) != uid_of(new):
            self._tracked[name] = _TrackedNode(
                renew_s=0.0, report_s=self._report_s(self._next_phase())
            )
            self._wake_pods(name)
        else:
            tracked.before = old
            if is_alive(new) != is_alive(old):
                tracked.renew_s = 0.0
                self._wake_pods(name)
        self.workers.queue.add(name)

    async def _sync(self, name: str) -> None:
        node, tracked = self._nodes.get(name), self._tracked.get(name)
        if node is None or tracked is None or not is_alive(node):
            return
        api = self._context.api
        if labels := missing_labels(node):
            node = await api.patch(NODES, node, {"metadata": {"labels": labels}})
        now_s = self._context.clock.now_s()
        is_report = now_s >= tracked.report_s
        patch = status_patch(
            node,
            ip=self._addresses.node_ip(node),
            endpoint=self._endpoint,
            now_s=now_s,
            settings=self._context.settings,
            before=tracked.before,
            is_report=is_report,
        )
        if not tracked.has_lease:
            await self._create_lease(node, tracked)
        if patch:
            body = {"metadata": {"uid": uid_of(node)}, "status": patch}
            await api.patch_status(NODES, node, body)
        tracked.before = None
        if is_report:
            tracked.report_s = self._report_s()

    def _report_s(self, phase: float = 1.0) -> float:
        period_s = self._context.settings.report_every_s(len(self._nodes))
        return self._context.clock.now_s() + phase * period_s

    def _next_phase(self) -> float:
        """Return evenly distributed phases, so that nodes are not all due together."""
        self._phase_count += 1
        return self._phase_count * _GOLDEN_RATIO % 1.0

    # -- heartbeats -------------------------------------------------------------------------------

    async def _renew_due_leases(self) -> None:
        """Renew the leases that are due, a few at a time."""
        settings, clock = self._context.settings, self._context.clock
        while True:
            period_s = settings.heartbeat_every_s(len(self._tracked))
            await clock.sleep(period_s / _CHECKS_PER_PERIOD)
            now_s = clock.now_s()
            due = [name for name, tracked in self._tracked.items() if now_s >= tracked.renew_s]
            for first in range(0, len(due), _WORKERS):
                names = due[first : first + _WORKERS]
                await asyncio.gather(*(self._renew(name, period_s) for name in names))

    async def _renew(self, name: str, period_s: float) -> None:
        node, tracked = self._nodes.get(name), self._tracked.get(name)
        if node is None or tracked is None:
            return
        now_s = self._context.clock.now_s()
        tracked.renew_s = now_s + period_s
        if not is_alive(node):
            return
        if now_s >= tracked.report_s:
            self.workers.queue.add(name)
        if not tracked.has_lease:
            # It is created with the status.
            return
        try:
            await self._client.patch(
                LEASES,
                name,
                lease_renewal(now_s),
                namespace=LEASE_NAMESPACE,
                content_type=MERGE_PATCH,
            )
        except NotFoundError:
            tracked.has_lease = False
            self.workers.queue.add(name)
        except (ApiError, TransportError) as error:
            tracked.renew_s = 0.0
            self._context.log.error("Failed to update lease", err=str(error), node=name)

    async def _create_lease(self, node: Document, tracked: _TrackedNode) -> None:
        now_s, settings = self._context.clock.now_s(), self._context.settings
        lease = lease_of(node, now_s, settings.lease_s)
        client = self._client
        try:
            await client.create(LEASES, lease, namespace=LEASE_NAMESPACE)
        except AlreadyExistsError:
            # Left over from an earlier node of that name.
            patch = {"metadata": {"ownerReferences": lease["metadata"]["ownerReferences"]}}
            await client.patch(
                LEASES,
                name_of(node),
                {**patch, "spec": lease["spec"]},
                namespace=LEASE_NAMESPACE,
                content_type=MERGE_PATCH,
            )
        tracked.has_lease = True
        tracked.renew_s = now_s + self._next_phase() * settings.heartbeat_every_s(
            len(self._tracked)
        )
