"""HTTP/1.1 connections of the extender's clients.

Owns the order of responses, limits and timeouts, the rejection of malformed requests, clients that
close their sending half, and draining. httptools parses the requests. Endpoints are in http_server.
Upstream: Go's net/http Server; ADR 27
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http.client import responses
from typing import Final, TypeAlias, cast
from urllib.parse import unquote

from httptools import HttpParserError, HttpRequestParser, parse_url
from multidict import CIMultiDict, CIMultiDictProxy

from kubesched.kit.log import Log
from kubesched.ops.client_certificates import peer_of
from kubesched.ops.http_messages import Request, Response, error_response, remote_address

Handler: TypeAlias = Callable[[Request, bytes], Response | Awaitable[Response]]

_BACKLOG: Final = 1024
_LINGER_S: Final = 0.5
"""How long to read on after the last response, so that unread bytes do not reset the connection."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for clients."""

    header_bytes: int = 1 << 16
    """Of the request line and all headers."""
    body_bytes: int = 1 << 29
    """Enough for the whole nodes of a cluster with tens of thousands."""
    idle_s: float = 180.0
    """Between requests; longer than clients keep connections, so that they close them first."""
    stalled_s: float = 60.0
    """Without a byte of a body, or with a response that the client does not read."""
    connections: int = 4096


@dataclass(eq=False, slots=True)
class HttpServer:
    """A server for one handler."""

    handle: Handler
    """Takes a request and its body. The response is 500 if it raises."""
    on_rejection: Callable[[str, str], None]
    """Called with the client's address and the reason for malformed requests."""
    log: Log
    limits: Limits = field(default_factory=Limits)
    is_stopping: bool = False
    connections: set[_Connection] = field(default_factory=set)
    """Open, or closed with a request that is still being handled."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection leaves the set."""
    _server: asyncio.Server | None = None

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a listening socket."""
        listener.setblocking(False)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), sock=listener, ssl=tls, backlog=_BACKLOG
        )

    def stop_listening(self) -> None:
        """Accept no more connections; the socket is closed."""
        self.is_stopping = True
        if self._server is not None:
            self._server.close()

    async def stop(self, timeout_s: float) -> None:
        """Stop listening, let active requests finish until the timeout, and close."""
        self.stop_listening()
        for connection in self.connections:
            if connection.is_idle:
                connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.connections:
                    self.closed.clear()
                    await self.closed.wait()
        for connection in self.connections:
            connection.abort()


class _RejectedError(Exception):
    """A request that is not served."""

    def __init__(self, code: int, problem: str = "") -> None:
        status = f"{code} {responses[code]}"
        super().__init__(f"{status}: {problem}" if problem else status)
        self.code = code


class _Connection(asyncio.Protocol):
    """The connection of one client; httptools calls the methods that begin with `on_`."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._parser = HttpRequestParser(self)
        self._timer: asyncio.TimerHandle | None = None
        self._is_write_paused = False
        self._unserved: deque[tuple[Request, bytes] | _RejectedError] = deque()
        self._task: asyncio.Task[None] | None = None
        """Awaits the response to a request."""
        self._is_last = False
        """Whether no more requests are read."""
        # The request that is being read:
        self._is_begun = self._is_in_body = False
        self._fed = self._size = 0
        self._uri, self._path = b"", ""
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._chunks: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        """Return whether every request has its response."""
        return not (self._is_begun or self._unserved or self._task or self._is_write_paused)

    def abort(self) -> None:
        """Close the connection without waiting for anything."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    # -- reading ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server, self._transport = self._server, cast("asyncio.Transport", transport)
        if server.is_stopping or len(server.connections) >= self._limits.connections:
            self._transport.abort()
            return
        server.connections.add(self)
        self._peer = peer_of(transport.get_extra_info("ssl_object"))
        self._remote = remote_address(transport.get_extra_info("peername"))
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            return
        complete = len(self._unserved)
        try:
            self._parser.feed_data(data)
            if self._is_begun and len(self._unserved) == complete:
                self._count(len(data))
        except (HttpParserError, _RejectedError) as error:
            if not self._is_last:  # Bytes after the last request do not matter.
                self._unserved.append(_rejection(error))
                self._is_begun = self._is_in_body = False
                self._is_last = True
        if not self._is_begun or self._is_in_body:
            self._serve()

    def eof_received(self) -> bool:
        # A client may close its sending half and still read responses, but not over TLS.
        if self.is_idle or not self._transport.can_write_eof():
            return False
        if self._is_in_body:
            self.on_message_complete()
        self._is_begun, self._is_last = False, True
        self._serve()
        return not self.is_idle

    def on_message_begin(self) -> None:
        self._is_begun = True
        self._fed = self._size = 0
        self._uri, self._headers, self._chunks = b"", CIMultiDict(), []

    def on_url(self, url: bytes) -> None:
        self._uri += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value)
        self._headers.add(name.decode("latin-1"), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        headers, version = self._headers, self._parser.get_http_version()
        if not version.startswith("1."):
            raise _RejectedError(505)
        if self._parser.should_upgrade():
            raise _RejectedError(501, "no other protocol is served")
        if version == "1.1" and len(headers.getall("Host", ())) != 1:
            raise _RejectedError(400, "a Host header is needed, and only one")
        if self._size > self._limits.header_bytes:
            raise _RejectedError(431)
        if int(headers.get("Content-Length", 0)) > self._limits.body_bytes:
            raise _RejectedError(413)
        self._path = unquote((parse_url(self._uri).path or b"/").decode())
        self._is_in_body = True
        self._size = 0
        is_next = not self._unserved and self._task is None
        if is_next and headers.get("Expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._limits.body_bytes:
            raise _RejectedError(413)
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._chunks)

        async def read() -> bytes:
            return body

        request = Request(
            self._parser.get_method().decode(),
            self._path,
            self._uri.decode("latin-1"),
            CIMultiDictProxy(self._headers),
            read,
            self._peer,
            self._remote,
        )
        self._unserved.append((request, body))
        self._is_begun = self._is_in_body = False
        self._is_last = not self._parser.should_keep_alive()

    def _count(self, byte_count: int) -> None:
        """Limit the bytes of an incomplete request, with those that the parser keeps."""
        self._fed += byte_count
        limits = self._limits
        if self._fed > limits.header_bytes + (limits.body_bytes if self._is_in_body else 0):
            raise _RejectedError(413 if self._is_in_body else 431)

    # -- responses --------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Respond to requests in order, up to one whose response has to be awaited."""
        transport, unserved = self._transport, self._unserved
        while unserved and not (self._task or self._is_write_paused or transport.is_closing()):
            entry = unserved.popleft()
            if isinstance(entry, _RejectedError):
                self._server.on_rejection(self._remote, str(entry))
                self._write(Response(str(entry).encode(), entry.code))
                continue
            request, body = entry
            try:
                response = self._server.handle(request, body)
            except Exception as error:  # noqa: BLE001  # A failed request must not end the server.
                response = self._failure(request, error)
            if isinstance(response, Response):
                self._write(response, request)
            else:
                self._task = self._loop.create_task(self._await(request, response))
        self._set_timer()
        if not transport.is_closing() and transport.is_reading() == bool(unserved):
            (transport.pause_reading if unserved else transport.resume_reading)()

    async def _await(self, request: Request, result: Awaitable[Response]) -> None:
        try:
            response = await result
        except Exception as error:  # noqa: BLE001  # A failed request must not end the server.
            response = self._failure(request, error)
        finally:
            self._task = None
            if self._transport.is_closing():
                self._leave()
        self._write(response, request)
        self._serve()

    def _failure(self, request: Request, error: Exception) -> Response:
        self._server.log.error("A request failed", err=error, URI=request.uri)
        return error_response("Internal Server Error", 500)

    def _write(self, response: Response, request: Request | None = None) -> None:
        """Write a response; a rejection has no request."""
        transport, server = self._transport, self._server
        if transport.is_closing():
            return
        headers = {"Date": _date(int(self._loop.time())), **response.headers}
        if response.content_type:
            headers["Content-Type"] = response.content_type
        is_last = server.is_stopping or (self._is_last and not self._unserved)
        if is_last:
            headers["Connection"] = "close"
        elif request is not None and request.headers.get("Connection", "").lower() == "keep-alive":
            headers["Connection"] = "keep-alive"
        headers["Content-Length"] = str(len(response.body))
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"HTTP/1.1 {response.code} {responses[response.code]}\r\n{fields}\r\n"
        has_body = request is None or request.method != "HEAD"
        transport.writelines((head.encode("latin-1"), response.body if has_body else b""))
        if is_last and transport.can_write_eof() and not server.is_stopping:
            transport.write_eof()
        elif is_last:
            transport.close()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._set_timer()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._serve()

    # -- timeouts and errors ----------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Close the connection if nothing happens for as long as its state allows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None or self._transport.is_closing():
            return
        if self._is_write_paused or self._is_in_body:
            delay_s = self._limits.stalled_s
        else:
            delay_s = _LINGER_S if self._is_last else self._limits.idle_s
        self._timer = self._loop.call_later(delay_s, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unserved.clear()
        self._set_timer()
        if self._task is None:
            self._leave()

    def _leave(self) -> None:
        self._server.connections.discard(self)
        self._server.closed.set()


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    """Return the time for a header, once for each second of the loop's clock."""
    del second
    return formatdate(usegmt=True)


def _rejection(error: Exception) -> _RejectedError:
    """Convert an error of the parser; what a callback raised is its context."""
    cause = error.__context__ or error
    if isinstance(cause, _RejectedError):
        return cause
    return _RejectedError(413 if "Content-Length overflow" in str(cause) else 400, str(cause))
