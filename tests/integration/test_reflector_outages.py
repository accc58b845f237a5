"""Reflectors whose server is restarted, or no longer responds.

Always on the embedded server, as a process that is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kubesched.client.watch import reflector
from kubesched.cluster.launch.ports import free_ports
from kubesched.kit.rng import RandomStream
from kubesched.testing import ADMIN, ApiServer, a_pod
from tests.integration.reflected import Writer, reflected, state_of
from tests.integration.test_server_process import running

PATH = "/api/v1/namespaces/default/pods"


@pytest.mark.slow
def test_a_killed_and_restarted_server(tmp_path: Path) -> None:
    options = ("--port", str(free_ports(1)[0]), "--data", str(tmp_path / "data.db"))
    rng = RandomStream(1, "writes")

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            with running(tmp_path, *options) as (process, api), api:
                writer = Writer(api, PATH, rng, a_pod)
                writer.write(20)
                server = ApiServer(api.url, tmp_path)
                server.kubeconfigs = {ADMIN.name: tmp_path / "kubeconfig"}
                mirroring = reflected(server, field_selector="metadata.namespace=default")
                recorder = await stack.enter_async_context(mirroring)
                await recorder.until_state(state_of(api, PATH))
                process.kill()
            # It cannot connect, and retries.
            client, count = recorder.client, recorder.client.watch_count
            await recorder.until(lambda: client.watch_count >= count + 3)
            with running(tmp_path, *options) as (_, api), api:
                writer.api = api
                writer.write(20)
                await recorder.until_state(state_of(api, PATH))
            # The list lacks the objects that the server lost.
            assert client.list_count <= 2

    asyncio.run(scenario())


class SilentServer:
    """Serves lists; answers a watch with the headers only, and keeps the connection open."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.is_watched = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.targets.append(head.split(b" ")[1].decode())
                self.is_watched.set()
                if "watch=true" in self.targets[-1]:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    await reader.read()
                    return
                body = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}'
                length = f"Content-Length: {len(body)}".encode()
                writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The other side closed the connection.
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self, place: Path) -> AsyncIterator[ApiServer]:
        listening = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            server = ApiServer(f"http://127.0.0.1:{port}", place)
            server.write_kubeconfigs()
            yield server

    async def until_watched(self, count: int) -> None:
        async with asyncio.timeout(20):
            while sum("watch=true" in target for target in self.targets) < count:
                self.is_watched.clear()
                await self.is_watched.wait()


def test_a_silent_watch_is_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_SILENCE_S_MAX", 0.2)

    async def scenario() -> None:
        silent = SilentServer()
        async with silent.running(tmp_path) as server, reflected(server) as recorder:
            await recorder.synced.wait()
            await silent.until_watched(3)
            assert all("resourceVersion=7" in target for target in silent.targets[1:])
            assert recorder.changes == []

    asyncio.run(scenario())
