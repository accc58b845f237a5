"""A way to a server that can be cut: bytes pass through a port of ours.

Owns the connections. Never looks into them: TLS goes from end to end. The server sees each proxy
under an address of its own, so that an audit log tells clients apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from kubesched.testing.loop_thread import LoopThread
from kubesched.testing.server import ApiServer, TokenUser, kubeconfig_text

_START_S_MAX = 10.0

T = TypeVar("T")


class TcpProxy:
    """Passes bytes between its port and a server's, on a loop and thread of its own."""

    def __init__(self, server: ApiServer, *, source: str = "127.0.0.1") -> None:
        self._server = server
        self._source = source
        address = urlsplit(server.url)
        self._target = (address.hostname or "", address.port or 443)
        self._thread = LoopThread("proxy", asyncio.new_event_loop())
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._refuses = False

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self._listener = self._run(asyncio.start_server(self._pass, "127.0.0.1", 0))
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
        """Return what stands for the server's address."""
        assert self._listener is not None
        return f"https://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def write_kubeconfig(self, user: TokenUser, path: Path) -> Path:
        """Write a kubeconfig that goes this way."""
        path.write_text(kubeconfig_text(self.url, self._server.ca_file, user))
        return path

    def cut(self) -> int:
        """Break all connections, as they are, and return how many there were."""
        return self._run(self._cut())

    def refuse(self, *, yes: bool) -> None:
        """Break new connections at once, or let them pass again."""
        self._refuses = yes

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
        passing = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
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
    """Pass bytes on until one end is gone, and take the other with it."""
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
