"""Clients of a running server, and a relay that drops requests or responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.resources import NODES, PODS
from kubesched.client.rest import Client
from kubesched.cluster.launch.server import ApiServer
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog


def access_of(
    server: ApiServer, place: Path, *, user: dict[str, Any], **cluster: Any
) -> ClusterAccess:
    """Return the access of a new kubeconfig; underscores become hyphens."""
    described: dict[str, Any] = {"server": server.url}
    if server.ca_file is not None:
        described["certificate-authority"] = str(server.ca_file)
    described |= {name.replace("_", "-"): value for name, value in cluster.items()}
    file = place / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "clusters": [
                    {"name": "c", "cluster": {k: v for k, v in described.items() if v is not None}}
                ],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return load_access(kubeconfig=str(file), environ={})


@asynccontextmanager
async def client_of(access: ClusterAccess, *, qps: float = -1.0) -> AsyncIterator[Client]:
    """Run a client during a test."""
    client = Client(access, qps=qps, user_agent="test", clock=SystemClock(), log=NullLog())
    try:
        yield client
    finally:
        await client.close()


def admin_of(server: ApiServer) -> ClusterAccess:
    """Return the administrator's access."""
    return load_access(kubeconfig=str(server.kubeconfig), environ={})


async def made_pod(client: Client, name: str, *, node: str) -> str:
    """Create a node and a pending pod; return the pod's uid."""
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    answer = json.loads(await client.create(PODS, pod, namespace="default"))
    return str(answer["metadata"]["uid"])


class Relay:
    """Relays connections to a server, and drops requests or responses on demand."""

    def __init__(self, server_url: str) -> None:
        target = urlsplit(server_url)
        self._target = (target.hostname, target.port)
        self.requests_to_drop = 0
        """The number of requests to drop; their connections are cut."""
        self.responses_to_drop = 0
        """The number of responses to drop; their connections are cut."""
        self.is_silent = False
        """Whether requests are swallowed while the connection stays open."""
        self.connects: list[str] = []
        """The targets of CONNECT requests."""
        self.open = 0
        self.open_max = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> str:
        """Listen, and return the address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        while self.open:
            await SystemClock().sleep(0)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        back, forth = await asyncio.open_connection(*self._target)
        self._writers += (writer, forth)
        try:
            await asyncio.gather(
                self._forward(reader, forth, client=writer), self._forward(back, writer)
            )
        finally:
            self.open -= 1
            for each in (writer, forth):
                each.close()

    async def _forward(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        client: asyncio.StreamWriter | None = None,
    ) -> None:
        try:
            while data := await source.read(2**16):
                if client and data.startswith(b"CONNECT "):
                    self.connects.append(data.split()[1].decode())
                    client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                elif self._is_dropped(is_request=client is not None):
                    break
                elif not self.is_silent:
                    target.write(data)
                    await target.drain()
        except ConnectionError:
            pass  # The other side cut the connection.
        finally:
            target.close()

    def _is_dropped(self, *, is_request: bool) -> bool:
        if is_request and self.requests_to_drop:
            self.requests_to_drop -= 1
            return True
        if not is_request and self.responses_to_drop:
            self.responses_to_drop -= 1
            return True
        return False


@asynccontextmanager
async def relay_to(server_url: str) -> AsyncIterator[tuple[Relay, str]]:
    """Run a relay during a test."""
    relay = Relay(server_url)
    address = await relay.start()
    try:
        yield relay, address
    finally:
        await relay.stop()
