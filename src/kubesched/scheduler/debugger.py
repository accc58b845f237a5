"""What the scheduler believes, held against the API server, and written out.

Owns the comparison and the dump that SIGUSR2 asks for. Never repairs anything.
Upstream: pkg/scheduler/backend/cache/debugger/{comparer,dumper}.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.cache.cache import Cache
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.columns.pod_columns import BoundPod
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.model.pod_info import PodInfo
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.pods import UnassignedPods

# A watch may lag behind a list for a moment: what is missing then is looked for again.
SETTLE_S: Final = 1.0


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Listed(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _List(msgspec.Struct):
    items: list[_Listed] = []


@dataclass(slots=True)
class CacheDebugger:
    """Compares and dumps."""

    client: Client
    cache: Cache
    queue: SchedulingQueue
    pods: UnassignedPods
    pod_selector: str
    clock: Clock
    log: Log

    async def compare_and_dump(self) -> None:
        """Log how cache and API server differ, and then all that is known."""
        self.log.info("Cache comparer started", level=3)
        try:
            await self._compare()
        except (ApiError, TransportError) as problem:
            self.log.error("Failed to compare cache", err=problem)
        self.log.info("Cache comparer finished", level=3)
        self._dump()
        self.log.flush()

    async def _compare(self) -> None:
        nodes = {one.name for one in await self._list(NODES)}
        pods = {one.uid for one in await self._list(PODS)}
        missed, redundant = self._differences(nodes, pods)
        if missed or redundant:
            # Differs: upstream compares with its informers, which cannot lag behind themselves.
            await self.clock.sleep(SETTLE_S)
            nodes = {one.name for one in await self._list(NODES)}
            pods = {one.uid for one in await self._list(PODS)}
            again_missed, again_redundant = self._differences(nodes, pods)
            missed, redundant = missed & again_missed, redundant & again_redundant
        for kind, title in ((NODES.plural, "Nodes"), (PODS.plural, "Pods")):
            lost = sorted(name for which, name in missed if which == kind)
            extra = sorted(name for which, name in redundant if which == kind)
            if lost or extra:
                fields: dict[str, Any] = {f"missed{title}": lost, f"redundant{title}": extra}
                self.log.info("Cache mismatch", **fields)

    async def _list(self, resource: Resource) -> list[_Meta]:
        query = {"fieldSelector": self.pod_selector} if resource == PODS else {}
        body = await self.client.request("GET", resource.path(), query=query)
        return [one.metadata for one in msgspec.json.decode(body, type=_List).items]

    def _differences(
        self, nodes: set[str], pods: set[str]
    ) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        view = self.cache.snapshot()
        known_nodes = {view.name_of(row) for row in view.visiting_rows().tolist()}
        known_pods = {pod.uid for pod in self.cache.bound_pods()} | {pod.uid for pod in self.pods}
        missed = _tagged(NODES, nodes - known_nodes) | _tagged(PODS, pods - known_pods)
        return missed, _tagged(NODES, known_nodes - nodes) | _tagged(PODS, known_pods - pods)

    def _dump(self) -> None:
        view = self.cache.snapshot()
        rows = view.visiting_rows().tolist()
        texts = [self._node_text(view.name_of(row), row) for row in rows]
        self.log.info("Dump of cached NodeInfo", nodes="\n\n".join(texts))
        pending, summary = self.queue.pending_pods()
        waiting = "".join(_pod_text(pod) for part in pending.values() for pod in part)
        self.log.info("Dump of scheduling queue", summary=summary, pods=waiting)

    def _node_text(self, name: str, row: int) -> str:
        view = self.cache.snapshot()
        node = view.row(row)
        there = [view.bound_pod(index) for index in view.pods_on(row)]
        promised = self.queue.nominator.nominated_pods(name)
        lines = [
            f"Node name: {name}\nDeleted: false\n",
            f"Requested Resources: {_amounts(node.requested.items())}\n",
            f"Allocatable Resources:{_amounts(node.allocatable.items())}\n",
            f"Scheduled Pods(number: {len(there)}):\n",
            *map(_pod_text, there),
        ]
        if promised:
            lines += [f"Nominated Pods(number: {len(promised)}):\n", *map(_pod_text, promised)]
        return "".join(lines)


def _tagged(resource: Resource, names: Iterable[str]) -> set[tuple[str, str]]:
    return {(resource.plural, name) for name in names}


def _amounts(items: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{name}={amount}" for name, amount in sorted(items))


def _pod_text(pod: PodInfo | BoundPod) -> str:
    phase = pod.phase if isinstance(pod, PodInfo) else ""
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, phase: {phase}, "
        f"nominated node: {pod.nominated_node_name}\n"
    )
