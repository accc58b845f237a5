"""The nodes: each reported by its kubelet, and kept alive by heartbeats.

Owns when a node's status and lease are written. What they say is node_status'.
Upstream: pkg/kubelet/kubelet_node_status.go,
staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kubesched.client.cached.documents import Document, name_of, uid_of
from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.resources import LEASES, NODES
from kubesched.client.rest import MERGE_PATCH
from kubesched.kubelet.addresses import Addresses
from kubesched.kubelet.node_status import (
    LEASE_NAMESPACE,
    Endpoint,
    is_alive,
    lease_of,
    missing_labels,
    renewal,
    status_patch,
)
from kubesched.kubelet.settings import Parts

_WORKERS: Final = 8
_LOOKS_PER_PERIOD: Final = 40
_GOLDEN: Final = 0.6180339887498949


@dataclass(slots=True)
class _Kept:
    """A node, and when it was last heard of."""

    renew_s: float
    report_s: float
    has_lease: bool = False
    before: Document | None = None
    """What it was before its last change."""


class Nodes:
    """The kubelets' side of every Node there is."""

    def __init__(
        self, parts: Parts, addresses: Addresses, wake_pods: Callable[[str], None]
    ) -> None:
        self._parts = parts
        self._addresses = addresses
        self._wake_pods = wake_pods
        self._nodes = parts.informers.of(NODES)
        self._kept: dict[str, _Kept] = {}
        self._endpoint = Endpoint("", 0)
        # However many pods there are to write, heartbeats do not wait behind them.
        self._client = parts.api.client.sibling(user_agent="kubelet")
        self._first_count = 0
        self.workers = parts.workers("kubelet nodes", self._sync)

    def start(self, endpoint: Endpoint) -> None:
        """Work from now on; every node says that its kubelet is reached there."""
        self._endpoint = endpoint
        self._nodes.on_change(self._changed)
        self.workers.start(_WORKERS)
        self._parts.tasks.start(self._beat(), name="kubelet heartbeats")

    def _changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            if old is not None:
                self._kept.pop(name_of(old), None)
            return
        name = name_of(new)
        kept = self._kept.get(name)
        if kept is None or old is None or uid_of(old) != uid_of(new):
            self._kept[name] = _Kept(renew_s=0.0, report_s=self._report_s(self._part()))
            self._wake_pods(name)
        else:
            kept.before = old
            if is_alive(new) != is_alive(old):
                kept.renew_s = 0.0
                self._wake_pods(name)
        self.workers.queue.add(name)

    async def _sync(self, name: str) -> None:
        node, kept = self._nodes.get(name), self._kept.get(name)
        if node is None or kept is None or not is_alive(node):
            return
        api = self._parts.api
        if labels := missing_labels(node):
            node = await api.patch(NODES, node, {"metadata": {"labels": labels}})
        now_s = self._parts.clock.now_s()
        is_report = now_s >= kept.report_s
        patch = status_patch(
            node,
            ip=self._addresses.node_ip(node),
            endpoint=self._endpoint,
            now_s=now_s,
            settings=self._parts.settings,
            before=kept.before,
            is_report=is_report,
        )
        if not kept.has_lease:
            await self._make_lease(node, kept)
        if patch:
            body = {"metadata": {"uid": uid_of(node)}, "status": patch}
            await api.patch_status(NODES, node, body)
        kept.before = None
        if is_report:
            kept.report_s = self._report_s()

    def _report_s(self, part: float = 1.0) -> float:
        period_s = self._parts.settings.report_every_s(len(self._nodes))
        return self._parts.clock.now_s() + part * period_s

    def _part(self) -> float:
        """Return another part of a period each time: who comes together is not due together."""
        self._first_count += 1
        return self._first_count * _GOLDEN % 1.0

    # -- heartbeats -------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Renew the leases that are due, a few at a time, for ever."""
        settings, clock = self._parts.settings, self._parts.clock
        while True:
            period_s = settings.heartbeat_every_s(len(self._kept))
            await clock.sleep(period_s / _LOOKS_PER_PERIOD)
            now_s = clock.now_s()
            due = [name for name, kept in self._kept.items() if now_s >= kept.renew_s]
            for first in range(0, len(due), _WORKERS):
                names = due[first : first + _WORKERS]
                await asyncio.gather(*(self._renew(name, period_s) for name in names))

    async def _renew(self, name: str, period_s: float) -> None:
        node, kept = self._nodes.get(name), self._kept.get(name)
        if node is None or kept is None:
            return
        now_s = self._parts.clock.now_s()
        kept.renew_s = now_s + period_s
        if not is_alive(node):
            return
        if now_s >= kept.report_s:
            self.workers.queue.add(name)
        if not kept.has_lease:
            # It is made with the status.
            return
        try:
            await self._client.patch(
                LEASES,
                name,
                renewal(now_s),
                namespace=LEASE_NAMESPACE,
                content_type=MERGE_PATCH,
            )
        except NotFoundError:
            kept.has_lease = False
            self.workers.queue.add(name)
        except (ApiError, TransportError) as error:
            kept.renew_s = 0.0
            self._parts.log.error("Unable to renew a node's lease", err=str(error), node=name)

    async def _make_lease(self, node: Document, kept: _Kept) -> None:
        now_s, settings = self._parts.clock.now_s(), self._parts.settings
        lease = lease_of(node, now_s, settings.lease_s)
        client = self._client
        try:
            await client.create(LEASES, lease, namespace=LEASE_NAMESPACE)
        except AlreadyExistsError:
            # An earlier node of that name may have left it.
            patch = {"metadata": {"ownerReferences": lease["metadata"]["ownerReferences"]}}
            await client.patch(
                LEASES,
                name_of(node),
                {**patch, "spec": lease["spec"]},
                namespace=LEASE_NAMESPACE,
                content_type=MERGE_PATCH,
            )
        kept.has_lease = True
        kept.renew_s = now_s + self._part() * settings.heartbeat_every_s(len(self._kept))
