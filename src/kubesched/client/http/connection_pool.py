"""Connection pool for short, frequent requests such as bindings and events.

Owns keep-alive connections with one request at a time, whose responses are read whole. Never
retries, streams or uses a proxy: transport sends everything else through aiohttp, ADR 14.
Upstream: Go's net/http/transport.go persistConn
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection

from kubesched.client.http.response_reader import ResponseError, ResponseReader
from kubesched.kit.tasks import Tasks

_IDLE_S: Final = 60.0
_SWEEP_S: Final = 10.0
# As in Go: after this delay the next address is tried in parallel.
_NEXT_ADDRESS_S: Final = 0.3
_HEADS_MAX: Final = 16
_PORTS: Final = {"http": 80, "https": 443}
# A silently lost peer is detected after about 45 s, as by client-go's HTTP/2 pings.
_KEEPALIVE_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 45_000),
)


class DialError(OSError):
    """Connecting failed; the cause has the reason."""

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        super().__init__(str(cause))
        self.host = host
        self.port = port
        self.cause = cause


class CutError(ConnectionError):
    """An established connection was closed before the end of the response."""


@dataclass(slots=True)
class WholeResponse:
    """A response with its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    async def read(self) -> bytes:
        return self.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body

    def close(self) -> None:
        """Do nothing: the connection is back in the pool."""


class _Connection(asyncio.Protocol):
    """A connection with at most one active request."""

    def __init__(self, pool: HotPool, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_s = 0.0
        self._pool = pool
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[WholeResponse] | None = None

    # -- called by the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.abort()  # No request is active.
            return
        try:
            if self._reader.feed(data):
                self._settle()
        except ResponseError as error:
            self._fail(error)

    def eof_received(self) -> None:
        """Let the transport close."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.drop(self)
        if self._response is None:
            return
        if exc is not None:
            self._fail(exc)
            return
        try:
            self._reader.end()
        except ResponseError:
            self._fail(CutError("EOF"))
        else:
            self._settle()

    # -- called by the pool -----------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Return whether another request can be sent."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._reader.is_kept

    async def exchange(self, request: bytes, deadline_s: float | None) -> WholeResponse:
        """Send a request and return its response; cancellation closes the connection."""
        transport = self._transport
        if transport is None:
            raise CutError("EOF")
        loop = asyncio.get_running_loop()
        response: asyncio.Future[WholeResponse] = loop.create_future()
        self._response = response
        self._reader.begin()
        timer = None
        if deadline_s is not None:
            error = TimeoutError("timeout awaiting response")
            timer = loop.call_at(deadline_s, self._fail, error)
        transport.write(request)
        try:
            return await response
        finally:
            if timer is not None:
                timer.cancel()
            if self._response is not None:
                self._response = None
                self.abort()

    def abort(self) -> None:
        """Close without waiting for the TLS shutdown."""
        if self._transport is not None:
            self._transport.abort()

    # ---------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        reader, response = self._reader, self._response
        assert response is not None
        self._response = None
        if response.done():
            self.abort()  # Cancelled in the same loop turn.
        else:
            response.set_result(WholeResponse(reader.status, reader.headers, reader.body))
        if not reader.is_kept:
            self.abort()

    def _fail(self, error: Exception) -> None:
        response, self._response = self._response, None
        self.abort()
        if response is not None and not response.done():
            response.set_exception(error)


class HotPool:
    """As many connections as concurrent requests; the most recently used is reused first."""

    def __init__(self, server: str, server_name: str = "") -> None:
        """Create a pool; it connects with the first request.

        Args:
            server: The URL of the server, with an optional path.
            server_name: The name in the server's certificate, if it differs from the host.
        """
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._server_name = server_name or self._host
        self._prefix = parts.path.rstrip("/")
        self._host_field = parts.netloc.rpartition("@")[2]
        self._idle: list[_Connection] = []
        self._all: dict[_Connection, None] = {}
        self._dialling = Tasks()
        self._sweeping: asyncio.TimerHandle | None = None
        self._heads: dict[int, tuple[Mapping[str, str], bytes]] = {}
        self._is_closed = False
        self._emptied: asyncio.Future[None] | None = None

    async def send(  # noqa: PLR0913  # One argument for each part of a request.
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        context: ssl.SSLContext | None,
        connect_s: float | None,
        total_s: float | None,
    ) -> WholeResponse:
        """Send a request once; DialError, CutError, TimeoutError, ResponseError, OSError."""
        request = self._request(method, target, headers, body)
        loop = asyncio.get_running_loop()
        deadline_s = None if total_s is None else loop.time() + total_s
        connection = self._reuse(context)
        if connection is None:
            connection = await self._dial(context, connect_s, total_s)
        try:
            return await connection.exchange(request, deadline_s)
        finally:
            if connection.is_usable and not self._is_closed:
                connection.idle_s = loop.time()
                self._idle.append(connection)
            else:
                connection.abort()

    def drop(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        self._all.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._emptied is not None and not self._all and not self._emptied.done():
            self._emptied.set_result(None)

    async def close(self) -> None:
        """Close all connections; active requests fail."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._dialling.stop()
        if self._all:
            self._emptied = asyncio.get_running_loop().create_future()
            for connection in list(self._all):
                connection.abort()
            await self._emptied

    # -- requests --------------------------------------------------------------------------------

    def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        first = f"{method} {self._prefix}{target} HTTP/1.1\r\n"
        if not first.isascii() or not first[:-2].isprintable() or first.count(" ") != 2:
            raise ValueError(f"{target!r} is not a valid request target")
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        return b"".join((first.encode(), self._head(headers), length, b"\r\n", body or b""))

    def _head(self, headers: Mapping[str, str]) -> bytes:
        """Return the encoded headers, cached by the identity of the mapping."""
        cached = self._heads.get(id(headers))
        if cached is not None and cached[0] is headers:
            return cached[1]
        lines = [f"Host: {self._host_field}"]
        for name, value in headers.items():
            if not f"{name}{value}".isprintable():
                raise ValueError(f"the value of the header {name!r} cannot be sent")
            lines.append(f"{name}: {value}")
        head = "".join(f"{line}\r\n" for line in lines).encode()
        if len(self._heads) >= _HEADS_MAX:  # Credentials were renewed.
            self._heads.clear()
        # Holding the mapping keeps its id unique.
        self._heads[id(headers)] = (headers, head)
        return head

    # -- connections ------------------------------------------------------------------------------

    def _reuse(self, context: ssl.SSLContext | None) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.context is context:
                return connection
            # It is closed, or uses a replaced certificate.
            connection.abort()
        return None

    async def _dial(
        self, context: ssl.SSLContext | None, connect_s: float | None, total_s: float | None
    ) -> _Connection:
        limits_s = [limit_s for limit_s in (connect_s, total_s) if limit_s is not None]
        dialling = self._dialling.start(
            self._connect(context, min(limits_s, default=None)), name="dial"
        )
        try:
            opened = await dialling
        except asyncio.CancelledError:
            if self._is_closed:
                raise CutError("closed") from None
            raise
        if isinstance(opened, OSError):
            raise DialError(self._host, self._port, opened) from opened
        connection = cast("_Connection", opened)
        if self._is_closed:
            connection.abort()
            raise CutError("closed")
        self._all[connection] = None
        self._sweep_later()
        return connection

    async def _connect(
        self, context: ssl.SSLContext | None, limit_s: float | None
    ) -> _Connection | OSError:
        """Connect; return a failure instead of raising it, since the task itself did not fail."""
        loop = asyncio.get_running_loop()
        name = self._server_name if context is not None else None
        try:
            async with asyncio.timeout(limit_s):
                addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                connected = await start_connection(
                    addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, socket_factory=new_socket
                )
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, context),
                    sock=connected,
                    ssl=context,
                    server_hostname=name,
                )
        except OSError as error:
            return error
        return connection

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Close idle connections before the server does."""
        self._sweeping = None
        now_s = asyncio.get_running_loop().time()
        kept: list[_Connection] = []
        for connection in self._idle:
            if now_s - connection.idle_s < _IDLE_S:
                kept.append(connection)
            else:
                connection.abort()
        self._idle = kept
        if self._all:
            self._sweep_later()


def new_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket with TCP keep-alive for a result of getaddrinfo."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family=family, type=kind, proto=protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS:
        option = getattr(socket, name, None)  # Not every system has all of them.
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
