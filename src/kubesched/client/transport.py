"""The seam to the HTTP library: one method sends, the answer is read whole or in pieces.

Owns connections, TLS and the naming of what goes wrong on the way. Never retries and never looks
into a body: rest does.
Upstream: staging/src/k8s.io/client-go/transport/transport.go
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubesched.client.auth import ClusterAccess, Credential
from kubesched.client.errors import TransportError
from kubesched.client.hot_pool import HotPool
from kubesched.client.sockets import new_socket
from kubesched.client.tls import TlsFiles
from kubesched.client.transport_errors import FAILURES, is_about_tls, transport_error
from kubesched.kit.clock import Clock

_CONNECT_S: Final = 30.0
# Shorter than the 90 s after which an API server closes an idle connection, so that a request is
# not sent into one that is just being closed.
_IDLE_S: Final = 60.0
_TURNS: Final = 3


class Answer(Protocol):
    """The head of an answer, and a way to its body."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the body piece by piece as it comes."""
        ...

    def close(self) -> None:
        """Leave the rest of the body unread."""
        ...


@dataclass(slots=True)
class Outgoing:
    """A request, ready to be sent."""

    method: str
    target: str
    """The path and the parameters, quoted."""
    headers: CIMultiDict[str]
    body: bytes | None
    credential: Credential
    limits: aiohttp.ClientTimeout
    """How long it may take."""
    is_hot: bool = False
    """Whether it is short, and one of very many."""


class Transport(Protocol):
    """What can send a request."""

    async def send(self, request: Outgoing) -> Answer:
        """Send it once and return the head of its answer; TransportError if there is none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpTransport:
    """Connections of aiohttp, kept open between requests, and a pool for the hot ones."""

    def __init__(self, access: ClusterAccess, clock: Clock) -> None:
        self._server = access.server.rstrip("/")
        # A user in the address is in the headers already; texts still show the whole of it.
        scheme, _, rest = self._server.partition("://")
        host, slash, path = rest.partition("/")
        self._root = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
        self._tls = TlsFiles(access.tls, clock) if self._server.startswith("https:") else None
        self._options: dict[str, Any] = {"allow_redirects": False}
        if access.proxy:
            self._options["proxy"] = URL(access.proxy)
        if access.tls.server_name:
            self._options["server_hostname"] = access.tls.server_name
        # Proxies are aiohttp's.
        self._pool = None if access.proxy else HotPool(self._server, access.tls.server_name)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def send(self, request: Outgoing) -> Answer:
        """Send it once and return the head of its answer; TransportError if there is none."""
        if self._is_closed:
            raise TransportError("the client is closed", is_closed=True)
        context = self._tls.context(request.credential.certificate) if self._tls else None
        try:
            if request.is_hot and self._pool is not None:
                return await self._pool.send(
                    request.method,
                    request.target,
                    request.headers,
                    request.body,
                    context=context,
                    connect_s=request.limits.sock_connect,
                    total_s=request.limits.total,
                )
            return await self._send_any(request, context)
        except FAILURES as error:
            if self._is_closed:
                raise TransportError(
                    "the client is closed", was_sent=True, is_closed=True
                ) from error
            if self._tls and is_about_tls(error):
                self._tls.check_now()
            raise transport_error(request.method, self._server + request.target, error) from error

    async def _send_any(self, request: Outgoing, context: ssl.SSLContext | None) -> Answer:
        session = self._session or self._open()
        response = await session.request(
            request.method,
            URL(self._root + request.target, encoded=True),
            headers=request.headers,
            data=request.body,
            ssl=True if context is None else context,
            timeout=request.limits,
            **self._options,
        )
        return HttpAnswer(response, request.method, self._server + request.target)

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._pool is not None:
            await self._pool.close()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            # A connection that was cut is only gone after the loop has turned.
            for _ in range(_TURNS):
                await _turn()

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            # How many there are is bounded by the lanes; watches come on top.
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_IDLE_S, socket_factory=new_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Content-Type", "User-Agent", "Accept", "Accept-Encoding"),
        )
        return self._session


class HttpAnswer:
    """An answer of aiohttp."""

    __slots__ = ("_address", "_method", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, method: str, address: str) -> None:
        self._response = response
        self._method = method
        self._address = address
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return the whole body."""
        try:
            return await self._response.read()
        except FAILURES as error:
            raise transport_error(self._method, self._address, error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the body piece by piece as it comes."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except FAILURES as error:
            raise transport_error(self._method, self._address, error) from error

    def close(self) -> None:
        """Leave the rest of the body unread."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            # Without the leave-taking of TLS, which nobody would wait for.
            connection.transport.abort()
        self._response.close()


async def _turn() -> None:
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned
