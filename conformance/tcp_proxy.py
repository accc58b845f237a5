"""A TCP proxy in front of an API server whose connections can be cut.

Owns the connections. Forwards bytes: TLS is between client and server. Each proxy may have its own
source address, so that an audit log shows which client sent a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.launch.server import ApiServer, TokenUser, kubeconfig_text

_START_S_MAX = 10.0

T = TypeVar("T")


class TcpProxy:
    """Forwards connections to a server, in its own thread and event loop."""

    def __init__(self, server: ApiServer, *, source: str = "127.0.0.1") -> None:
        self._server = server
        self._source = source
        address = urlsplit(server.url)
        self._target = (address.hostname or "", address.port or 443)
        self._thread = LoopThread("proxy", asyncio.new_event_loop())
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._rejects = False

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self._listener = self._run(asyncio.start_server(self._forward, "127.0.0.1", 0))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._end())
        self._thread.__exit__(kind, error, traceback)

    @property
    def url(self) -> str:
        """Return the URL that replaces the server's."""
        assert self._listener is not None
        return f"https://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def write_kubeconfig(self, user: TokenUser, path: Path) -> Path:
        """Write a kubeconfig that uses the proxy."""
        path.write_text(kubeconfig_text(self.url, self._server.ca_file, user))
        return path

    def cut(self) -> int:
        """Reset all connections; return their number."""
        return self._run(self._cut())

    def reject(self, *, yes: bool) -> None:
        """Reset new connections immediately, or forward them again."""
        self._rejects = yes

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work, _START_S_MAX)

    async def _cut(self) -> int:
        # Both ends of a connection are open writers.
        count = len(self._open) // 2
        for writer in list(self._open):
            writer.transport.abort()
        return count

    async def _end(self) -> None:
        assert self._listener is not None
        self._listener.close()
        await self._cut()
        forwarding = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*forwarding, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._rejects:
            writer.transport.abort()
            return
        try:
            back, forth = await asyncio.open_connection(*self._target, local_addr=(self._source, 0))
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, forth}
        try:
            await asyncio.gather(_pump(reader, forth), _pump(back, writer))
        finally:
            self._open -= {writer, forth}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side is closed, then close the other."""
    try:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    except OSError:
        writer.transport.abort()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
