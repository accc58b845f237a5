"""Reflectors whose server goes away: it comes back, or it only seems to be there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubesched.client import reflector
from kubesched.kit.rng import Generator
from kubesched.testing import ApiServer, embedded_server
from kubesched.testing.ports import free_ports
from tests.integration.reflected import Writer, a_pod, new_namespace, reflected, state_of

PATH = "/api/v1/namespaces/default/pods"


@pytest.mark.slow
def test_a_server_that_ends_and_comes_back(tmp_path: Path) -> None:
    (port,) = free_ports(1)

    async def scenario() -> None:
        with embedded_server(port=port, data=tmp_path / "data.db", directory=tmp_path) as server:
            with server.api() as api:
                new_namespace(api, "default")
                writer = Writer(api, PATH, Generator(1, "writes"), a_pod)
                writer.write(20)
                state = state_of(api, PATH)
            running = reflected(server, field_selector="metadata.namespace=default")
            told = await running.__aenter__()
            await told.until_state(state)
        try:
            requests = told.client.watch_count
            while told.client.watch_count < requests + 3:  # It finds nobody, and tries again.
                await asyncio.sleep(0.02)
            same = embedded_server(port=port, data=tmp_path / "data.db", directory=tmp_path)
            with same as server, server.api() as api:
                writer.api = api
                writer.write(20)
                await told.until_state(state_of(api, PATH))
        finally:
            await running.__aexit__(None, None, None)

    asyncio.run(scenario())


class SilentServer:
    """Answers a list; of a watch it sends the head and then nothing, without going away."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.targets.append(head.split(b" ")[1].decode())
                self.asked.set()
                if "watch=true" in self.targets[-1]:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    await reader.read()
                    return
                body = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}'
                length = f"Content-Length: {len(body)}".encode()
                writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The other side has left.
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
                self.asked.clear()
                await self.asked.wait()


def test_a_stream_that_is_silent_for_too_long_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "_SILENCE_S_MAX", 0.2)

    async def scenario() -> None:
        silent = SilentServer()
        async with silent.running(tmp_path) as server, reflected(server) as told:
            await told.synced.wait()
            await silent.until_watched(3)
            assert all("resourceVersion=7" in target for target in silent.targets[1:])
            assert told.changes == []

    asyncio.run(scenario())
