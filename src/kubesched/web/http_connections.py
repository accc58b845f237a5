"""A small HTTP/1.1 server: connections that are kept, one request after the other on each.

Owns the sockets, the order of answers, what becomes of clients that are slow, cut off or talk
something else, and the end in order. Never knows what is asked. An answer that is there at once
costs no task; that, and no layers between, is why it exists beside aiohttp's.
Upstream: Go's net/http Server; ADR 19
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias, cast

from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.web.answers import Answer, error_answer
from kubesched.web.http_requests import HttpError, HttpRequest, RequestReader, SizeLimits

Handler: TypeAlias = "Callable[[HttpRequest], Answer | Awaitable[Answer]]"

_BACKLOG: Final = 1024
_HELD_BYTES_MAX: Final = 1 << 16
"""What is read ahead of a request that is being answered."""
_LINGER_S: Final = 0.5
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_PHRASES: Final = {int(status): status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take of the server."""

    size: SizeLimits = field(default_factory=SizeLimits)
    idle_s: float = 180.0
    """Between requests; longer than clients keep connections, so that they are the ones to end."""
    stalled_s: float = 60.0
    """Without a byte within a request, or until most of an answer is taken."""
    connections: int = 4096


class HttpServer:
    """A server: made, started, stopped."""

    def __init__(
        self,
        handle: Handler,
        *,
        log: Log,
        limits: Limits | None = None,
        on_refusal: Callable[[str, str], None] | None = None,
    ) -> None:
        """Be ready to serve.

        Args:
            handle: Answers requests; what it raises is answered with 500.
            log: Where failures go.
            limits: What a client may take.
            on_refusal: Is told where something came from that is no request, and why.
        """
        self.handle = handle
        self.log = log
        self.limits = limits or Limits()
        self.on_refusal = on_refusal
        self.connections: dict[_Connection, None] = {}
        self.is_stopping = False
        self.tasks = Tasks()
        """Answers that are being made, also those whose clients are gone."""
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a socket that listens."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._server = await loop.create_server(
            lambda: _Connection(self, loop), sock=listener, ssl=tls, backlog=_BACKLOG
        )
        self._look_around()

    def stop_listening(self) -> None:
        """Accept nobody any more; the socket is closed."""
        self.is_stopping = True
        if self._server is not None:
            self._server.close()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Accept nobody any more, give what is under way its time, and close."""
        self.stop_listening()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.end()
        self._empty.clear()
        if self.connections or len(self.tasks):
            try:
                async with asyncio.timeout(timeout_s):
                    await self._empty.wait()
            except TimeoutError:
                for connection in list(self.connections):
                    connection.abort()
        await self.tasks.stop()

    def enter(self, connection: _Connection) -> bool:
        """Take a connection in, unless there are too many."""
        if self.is_stopping or len(self.connections) >= self.limits.connections:
            return False
        self.connections[connection] = None
        return True

    def leave(self, connection: _Connection) -> None:
        """Forget a connection."""
        self.connections.pop(connection, None)
        self.look_whether_empty()

    def look_whether_empty(self) -> None:
        """Let the end go on if nothing is under way any more."""
        if not self.connections and not len(self.tasks):
            self._empty.set()

    def _look_around(self) -> None:
        """End what has stood still for too long."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection in list(self.connections):
            connection.end_if_still(now_s)
        soon_s = min(self.limits.idle_s, self.limits.stalled_s) / 4
        self._sweep = loop.call_later(soon_s, self._look_around)


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._reader = RequestReader(server.limits.size)
        self._transport: asyncio.Transport | None = None
        self._remote = ""
        self._tls: Any = None
        self._task: asyncio.Task[None] | None = None
        """The answer that is being made."""
        self._is_full = False
        """Whether the client does not take what is written."""
        self._is_held = False
        """Whether reading waits."""
        self._is_cut = False
        """Whether the client has said that it sends no more."""
        self._is_over = False
        """Whether what comes is not listened to any more."""
        self._is_told = False
        """Whether the client was told to send the body."""
        self._active_s = loop.time()

    # -- what asyncio tells -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods, but not the class.
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.enter(self):
            self._transport.abort()
            return
        self._remote = _remote(transport.get_extra_info("peername"))
        self._tls = transport.get_extra_info("ssl_object")

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._server.leave(self)

    def data_received(self, data: bytes) -> None:
        self._active_s = self._loop.time()
        if self._is_over:
            return
        self._reader.feed(data)
        if self._task is None and not self._is_full:
            self._go_on()
        elif self._reader.pending_bytes > _HELD_BYTES_MAX:
            self._hold()

    def eof_received(self) -> bool:
        self._is_cut = True
        if self._is_over:
            return False
        if self._task is None and not self._is_full:
            self._go_on()
        # The answers to what has come are still wanted; TLS knows no half.
        return self._tls is None and self._transport is not None

    def pause_writing(self) -> None:
        self._is_full = True
        self._hold()

    def resume_writing(self) -> None:
        self._is_full = False
        self._active_s = self._loop.time()
        if self._task is None:
            self._go_on()

    # -- requests and answers ---------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer what has come, until something must be waited for."""
        while not (self._is_over or self._is_full or self._task) and self._transport is not None:
            try:
                request = self._reader.next()
                if request is None:
                    if not self._is_cut:
                        self._wait_for_more()
                        return
                    request = self._reader.cut()
            except HttpError as error:
                self._refuse(error)
                return
            if request is None:
                self._transport.close()
                return
            self._is_told = False
            self._answer(request)

    def _wait_for_more(self) -> None:
        transport = self._transport
        assert transport is not None
        if self._server.is_stopping and not self._reader.is_within:
            transport.close()
            return
        if self._reader.awaits_continue and not self._is_told:
            self._is_told = True
            transport.write(_CONTINUE)
        if self._is_held:
            self._is_held = False
            transport.resume_reading()

    def _answer(self, request: HttpRequest) -> None:
        request.remote = self._remote
        request.tls = self._tls
        try:
            answer = self._server.handle(request)
        except Exception as error:  # noqa: BLE001  # A request that fails must not end the server.
            answer = self._failed(error, request)
        if isinstance(answer, Answer):
            self._write(request, answer)
        else:
            work = self._answer_later(request, answer)
            self._task = self._server.tasks.start(work, name=f"answer {request.uri}")
            self._task.add_done_callback(lambda _: self._server.look_whether_empty())

    async def _answer_later(self, request: HttpRequest, coming: Awaitable[Answer]) -> None:
        try:
            answer = await coming
        except Exception as error:  # noqa: BLE001  # As above.
            answer = self._failed(error, request)
        self._task = None
        if self._transport is not None:
            self._active_s = self._loop.time()
            self._write(request, answer)
            self._go_on()

    def _failed(self, error: Exception, request: HttpRequest) -> Answer:
        self._server.log.error("A request failed", err=error, URI=request.uri)
        return error_answer("Internal Server Error", 500)

    def _write(self, request: HttpRequest, answer: Answer) -> None:
        transport = self._transport
        assert transport is not None
        is_last = request.is_last or self._server.is_stopping
        head = _head(answer, is_last)
        if request.method == "HEAD":
            transport.write(head)
        else:
            transport.write(head + answer.body)
        if is_last:
            self._is_over = True
            # What was written is sent first.
            transport.close()

    def _refuse(self, error: HttpError) -> None:
        transport = self._transport
        assert transport is not None
        if self._server.on_refusal is not None:
            self._server.on_refusal(self._remote, str(error))
        answer = Answer(str(error).encode(), error.code)
        transport.write(_head(answer, True) + answer.body)
        self._is_over = True
        if transport.can_write_eof():
            # To close on bytes that still come would have the client's side drop the answer.
            transport.write_eof()
            self._loop.call_later(_LINGER_S, transport.close)
        else:
            transport.close()

    def _hold(self) -> None:
        if not self._is_held and self._transport is not None:
            self._is_held = True
            self._transport.pause_reading()

    # -- ends --------------------------------------------------------------------------------------

    def end(self) -> None:
        """Close the connection as soon as nothing is under way."""
        is_idle = self._task is None and not self._is_full and not self._reader.is_within
        if is_idle and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def end_if_still(self, now_s: float) -> None:
        """Close the connection if it has stood still for too long."""
        limits = self._server.limits
        is_within = self._is_full or self._reader.is_within
        limit_s = limits.stalled_s if is_within else limits.idle_s
        if self._task is None and now_s - self._active_s > limit_s:
            self.abort()


def _head(answer: Answer, is_last: bool) -> bytes:
    kind = f"Content-Type: {answer.content_type}\r\n" if answer.content_type else ""
    more = "".join([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
    end = "Connection: close\r\n" if is_last else ""
    phrase = _PHRASES.get(answer.code, "")
    length = len(answer.body)
    return (
        f"HTTP/1.1 {answer.code} {phrase}\r\n{kind}Content-Length: {length}\r\n{more}{end}\r\n"
    ).encode()


def _remote(peer: Any) -> str:
    if not isinstance(peer, tuple):
        return ""
    host = str(peer[0]).removeprefix("::ffff:")
    return f"[{host}]:{peer[1]}" if ":" in host else f"{host}:{peer[1]}"
