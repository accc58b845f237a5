"""The cache debugger: on SIGUSR2 compares the cache with the API server and logs a dump.

Never repairs anything.
Upstream: pkg/scheduler/backend/cache/debugger/{comparer,dumper}.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.api.meta import KubeResource, ObjectMeta
from kubesched.cache.cache import Cache, UnassignedPods
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

# A watch may lag behind a list for a moment: differences are checked a second time.
SETTLE_S: Final = 1.0


class _List(msgspec.Struct):
    items: list[KubeResource] = []


@dataclass(slots=True)
class CacheDebugger:
    """Compares the cache with the API server, and dumps cache and queue."""

    client: Client
    cache: Cache
    queue: SchedulingQueue
    pods: UnassignedPods
    pod_selector: str
    clock: Clock
    log: Log

    async def compare_and_dump(self) -> None:
        """Log the differences of cache and API server, and a dump of cache and queue."""
        self.log.info("Cache comparer started", level=3)
        try:
            await self._compare()
        except (ApiError, TransportError) as problem:
            self.log.error("Failed to compare cache", err=problem)
        self.log.info("Cache comparer finished", level=3)
        self._dump()
        self.log.flush()

    async def _compare(self) -> None:
        differences = await self._differences()
        if differences:
            # Differs: upstream compares with its informers, which cannot lag behind themselves.
            await self.clock.sleep(SETTLE_S)
            differences &= await self._differences()
        for kind in ("Nodes", "Pods"):
            fields: dict[str, Any] = {
                field: sorted(name for side, name in differences if side == field)
                for field in (f"missed{kind}", f"redundant{kind}")
            }
            if any(fields.values()):
                self.log.info("Cache mismatch", **fields)

    async def _list(self, resource: Resource) -> list[ObjectMeta]:
        query = {"fieldSelector": self.pod_selector} if resource == PODS else {}
        body = await self.client.request("GET", resource.path(), query=query)
        return [item.metadata for item in msgspec.json.decode(body, type=_List).items]

    async def _differences(self) -> set[tuple[str, str]]:
        """Return the nodes by name and pods by uid on one side only, each with its log field."""
        nodes = {meta.name for meta in await self._list(NODES)}
        pods = {meta.uid for meta in await self._list(PODS)}
        view = self.cache.snapshot()
        known_nodes = {view.name_of(row) for row in view.visiting_rows().tolist()}
        known_pods = {pod.uid for pod in self.cache.bound_pods()} | {pod.uid for pod in self.pods}
        sides = {
            "missedNodes": nodes - known_nodes,
            "redundantNodes": known_nodes - nodes,
            "missedPods": pods - known_pods,
            "redundantPods": known_pods - pods,
        }
        return {(field, name) for field, names in sides.items() for name in names}

    def _dump(self) -> None:
        view = self.cache.snapshot()
        rows = view.visiting_rows().tolist()
        texts = [self._node_text(view.name_of(row), row) for row in rows]
        self.log.info("Dump of cached NodeInfo", nodes="\n\n".join(texts))
        pending, summary = self.queue.pending_pods()
        waiting = "".join(_pod_text(pod) for pods in pending.values() for pod in pods)
        self.log.info("Dump of scheduling queue", summary=summary, pods=waiting)

    def _node_text(self, name: str, row: int) -> str:
        view = self.cache.snapshot()
        node = view.row(row)
        pods = [view.bound_pod(index) for index in view.pods_on(row)]
        nominated = self.queue.nominator.nominated_pods(name)
        lines = [
            f"Node name: {name}\nDeleted: false\n",
            f"Requested Resources: {_amounts(node.requested.items())}\n",
            f"Allocatable Resources:{_amounts(node.allocatable.items())}\n",
            f"Scheduled Pods(number: {len(pods)}):\n",
            *map(_pod_text, pods),
        ]
        if nominated:
            lines += [f"Nominated Pods(number: {len(nominated)}):\n", *map(_pod_text, nominated)]
        return "".join(lines)


def _amounts(items: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{name}={amount}" for name, amount in sorted(items))


def _pod_text(pod: PodInfo | BoundPod) -> str:
    phase = pod.phase if isinstance(pod, PodInfo) else ""
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, phase: {phase}, "
        f"nominated node: {pod.nominated_node_name}\n"
    )
