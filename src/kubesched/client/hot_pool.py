"""Kept connections for the two calls of every pod: its binding and its event.

Owns connections that take one short request after the other, each answered whole. Never retries,
never streams and knows no proxy: transport sends everything else through aiohttp, and says what a
failure means, ADR 11.
Upstream: Go's net/http/transport.go persistConn
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final, cast
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection

from kubesched.client.answer_reader import AnswerError, AnswerReader
from kubesched.client.sockets import new_socket
from kubesched.kit.tasks import Tasks

_IDLE_S: Final = 60.0
_SWEEP_S: Final = 10.0
# As Go does: an address that does not answer for that long is not waited for alone.
_NEXT_ADDRESS_S: Final = 0.3
_HEADS_MAX: Final = 16
_PORTS: Final = {"http": 80, "https": 443}


class DialError(OSError):
    """No connection could be made; the cause says why."""

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        super().__init__(str(cause))
        self.host = host
        self.port = port
        self.cause = cause


class CutError(ConnectionError):
    """A connection that stood ended before the answer did."""


class WholeAnswer:
    """An answer of which everything is there."""

    __slots__ = ("_body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the body in one piece."""
        yield self._body

    def close(self) -> None:
        """Do nothing: the connection is somebody else's by now."""


class _Connection(asyncio.Protocol):
    """One connection: at most one request is under way on it."""

    def __init__(self, pool: HotPool, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_s = 0.0
        self._pool = pool
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[WholeAnswer] | None = None

    # -- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort()  # Nothing was asked.
            return
        try:
            if self._reader.feed(data):
                self._settle()
        except AnswerError as error:
            self._fail(error)

    def eof_received(self) -> None:
        """Have the connection closed."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.drop(self)
        if self._answer is None:
            return
        if exc is not None:
            self._fail(exc)
            return
        try:
            self._reader.end()
        except AnswerError:
            self._fail(CutError("EOF"))
        else:
            self._settle()

    # -- what the pool calls ----------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Return whether another request can be sent on it."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._reader.is_kept

    async def exchange(self, request: bytes, deadline_s: float | None) -> WholeAnswer:
        """Send a request and return its answer; whoever is cancelled loses the connection."""
        transport = self._transport
        if transport is None:
            raise CutError("EOF")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[WholeAnswer] = loop.create_future()
        self._answer = answer
        self._reader.begin()
        timer = loop.call_at(deadline_s, self._give_up) if deadline_s is not None else None
        transport.write(request)
        try:
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            if self._answer is not None:
                self._answer = None
                self.abort()

    def abort(self) -> None:
        """End the connection without the leave-taking of TLS, which nobody would wait for."""
        if self._transport is not None:
            self._transport.abort()

    # ---------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        reader, answer = self._reader, self._answer
        assert answer is not None
        self._answer = None
        if answer.done():
            self.abort()  # Cancelled in the same turn of the loop.
        else:
            answer.set_result(WholeAnswer(reader.status, reader.headers, reader.body))
        if not reader.is_kept:
            self.abort()

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        self.abort()
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _give_up(self) -> None:
        self._fail(TimeoutError("timeout awaiting response"))


class HotPool:
    """As many connections as there are requests at once; the one used last is used next."""

    def __init__(self, server: str, server_name: str = "") -> None:
        """Make a pool; nothing is connected before the first request.

        Args:
            server: The address, with a path if it has one.
            server_name: The name in the server's certificate, where it is not the host's.
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
    ) -> WholeAnswer:
        """Send a request once; DialError, CutError, TimeoutError, AnswerError, OSError."""
        request = self._request(method, target, headers, body)
        loop = asyncio.get_running_loop()
        deadline_s = None if total_s is None else loop.time() + total_s
        connection = self._kept(context)
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
        """Forget a connection that has ended."""
        self._all.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._emptied is not None and not self._all and not self._emptied.done():
            self._emptied.set_result(None)

    async def close(self) -> None:
        """End all connections; what is under way fails."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._dialling.stop()
        if self._all:
            self._emptied = asyncio.get_running_loop().create_future()
            for connection in list(self._all):
                connection.abort()
            await self._emptied

    # -- what is sent -----------------------------------------------------------------------------

    def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        first = f"{method} {self._prefix}{target} HTTP/1.1\r\n"
        if not first.isascii() or not first[:-2].isprintable() or first.count(" ") != 2:
            raise ValueError(f"{target!r} is no target of a request")
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        return b"".join((first.encode(), self._head(headers), length, b"\r\n", body or b""))

    def _head(self, headers: Mapping[str, str]) -> bytes:
        """Return the fields of a request; made once for as long as the same ones are given."""
        known = self._heads.get(id(headers))
        if known is not None and known[0] is headers:
            return known[1]
        lines = [f"Host: {self._host_field}"]
        for name, value in headers.items():
            if not f"{name}{value}".isprintable():
                raise ValueError(f"the value of the header {name!r} cannot be sent")
            lines.append(f"{name}: {value}")
        head = "".join(f"{line}\r\n" for line in lines).encode()
        if len(self._heads) >= _HEADS_MAX:  # Credentials were renewed; the old ones are of no use.
            self._heads.clear()
        # With the mapping itself, so that nothing else can get its id.
        self._heads[id(headers)] = (headers, head)
        return head

    # -- connections ------------------------------------------------------------------------------

    def _kept(self, context: ssl.SSLContext | None) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.context is context:
                return connection
            # It has ended, or shows a certificate that was replaced.
            connection.abort()
        return None

    async def _dial(
        self, context: ssl.SSLContext | None, connect_s: float | None, total_s: float | None
    ) -> _Connection:
        limit_s = min((one for one in (connect_s, total_s) if one is not None), default=None)
        dialling = self._dialling.start(self._connect(context, limit_s), name="dial")
        try:
            made = await dialling
        except asyncio.CancelledError:
            if self._is_closed:
                raise CutError("closed") from None
            raise
        if isinstance(made, OSError):
            raise DialError(self._host, self._port, made) from made
        connection = cast("_Connection", made)
        if self._is_closed:
            connection.abort()
            raise CutError("closed")
        self._all[connection] = None
        self._sweep_later()
        return connection

    async def _connect(
        self, context: ssl.SSLContext | None, limit_s: float | None
    ) -> _Connection | OSError:
        """Connect; a failure is returned, since nothing is wrong with the task."""
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
        """End connections that were not needed for long, before the server does."""
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
