"""Fills a running API server with thousands of nodes and bound pods."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
import msgspec

from benchmarks.generate import Line, Maker
from kubesched.cluster.launch.server import ADMIN, ApiServer

_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
}


@dataclass(frozen=True, slots=True)
class Population:
    """The number of objects to create, and the cluster of `clusters/`."""

    node_count: int = 5_000
    pods_per_node: int = 10
    cluster: str = "plain"
    seed: int = 0

    @property
    def pod_count(self) -> int:
        """Return the number of bound pods."""
        return self.node_count * self.pods_per_node


async def populate(server: ApiServer, population: Population, *, connections: int = 16) -> None:
    """Create the nodes and the bound pods.

    A pod names its node at creation, so that its first version is bound. Kinds are created one
    after the other, because a pod needs its namespace. 55,000 objects take about 90 seconds on two
    cores, most of them in the API server.

    Raises:
        RuntimeError: the server rejected an object; has the server's message.
    """
    maker = Maker(population.node_count, population.seed, population.pods_per_node)
    tls = ssl.create_default_context(cafile=str(server.ca_file)) if server.ca_file else True
    async with aiohttp.ClientSession(
        server.url,
        connector=aiohttp.TCPConnector(limit=connections, ssl=tls),
        headers={"Authorization": f"Bearer {ADMIN.token}", "Content-Type": "application/json"},
    ) as session:
        objects = maker.cluster(population.cluster)
        for _, lines in itertools.groupby(objects, key=lambda line: line.kind):
            await _post_concurrently(session, lines, connections)


async def _post_concurrently(
    session: aiohttp.ClientSession, lines: Iterator[Line], connections: int
) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_post_all(session, lines))


async def _post_all(session: aiohttp.ClientSession, lines: Iterator[Line]) -> None:
    for line in lines:
        document = msgspec.json.decode(line.data)
        metadata = document["metadata"]
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            metadata.pop(field, None)
        path = _PATHS[line.kind].format(namespace=metadata.get("namespace", ""))
        async with session.post(path, data=msgspec.json.encode(document)) as answer:
            text = await answer.text()
        if answer.status != 201:
            raise RuntimeError(f"{line.kind} {metadata['name']}: {answer.status} {text[:500]}")
