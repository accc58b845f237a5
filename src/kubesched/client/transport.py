"""The seam to the HTTP library: one method sends, the answer is read whole or in pieces.

Owns connections, TLS and the naming of what goes wrong on the way. Never retries and never looks
into a body: rest does.
Upstream: staging/src/k8s.io/client-go/transport/transport.go
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubesched.client.auth import ClusterAccess, Credential
from kubesched.client.errors import TransportError
from kubesched.client.tls import TlsFiles
from kubesched.kit.clock import Clock

_CONNECT_S: Final = 30.0
# Shorter than the 90 s after which an API server closes an idle connection, so that a request is
# not sent into one that is just being closed.
_IDLE_S: Final = 60.0
# A connection whose other end went away without a word is given up after about 45 s, as long as
# client-go's HTTP/2 pings take to find out.
_KEEPALIVE_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 45_000),
)

_TURNS: Final = 3
_FAILURES: Final = (aiohttp.ClientError, OSError)  # a TimeoutError is an OSError


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


class Transport(Protocol):
    """What can send a request."""

    async def send(self, request: Outgoing) -> Answer:
        """Send it once and return the head of its answer; TransportError if there is none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpTransport:
    """Connections of aiohttp, kept open between requests."""

    def __init__(self, access: ClusterAccess, clock: Clock) -> None:
        self._server = access.server.rstrip("/")
        self._tls = TlsFiles(access.tls, clock) if self._server.startswith("https:") else None
        self._options: dict[str, Any] = {"allow_redirects": False}
        if access.proxy:
            self._options["proxy"] = URL(access.proxy)
        if access.tls.server_name:
            self._options["server_hostname"] = access.tls.server_name
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def send(self, request: Outgoing) -> Answer:
        """Send it once and return the head of its answer; TransportError if there is none."""
        session = self._session or self._open()
        address = self._server + request.target
        context = self._tls.context(request.credential.certificate) if self._tls else True
        try:
            response = await session.request(
                request.method,
                URL(address, encoded=True),
                headers=request.headers,
                data=request.body,
                ssl=context,
                timeout=request.limits,
                **self._options,
            )
        except _FAILURES as error:
            if self._is_closed:
                raise TransportError(
                    "the client is closed", was_sent=True, is_closed=True
                ) from error
            if self._tls and isinstance(error, ssl.SSLError):
                self._tls.check_now()
            raise transport_error(request.method, address, error) from error
        return HttpAnswer(response, request.method, address)

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            # A connection that was cut is only gone after the loop has turned.
            for _ in range(_TURNS):
                await _turn()

    def _open(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise TransportError("the client is closed", is_closed=True)
        self._session = aiohttp.ClientSession(
            # How many there are is bounded by the lanes; watches come on top.
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_IDLE_S, socket_factory=_new_socket
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
        except _FAILURES as error:
            raise transport_error(self._method, self._address, error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the body piece by piece as it comes."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except _FAILURES as error:
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


def transport_error(method: str, address: str, error: BaseException) -> TransportError:
    """Return our error for one of aiohttp's, in the words of Go's client."""
    where = f'{method.capitalize()} "{address}"'
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return TransportError(f"{where}: dial tcp: lookup {error.host}: {error.os_error}")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return TransportError(f"{where}: tls: failed to verify certificate: {error}")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return TransportError(f"{where}: proxyconnect tcp: {error.message or error.status}")
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        text = f"dial tcp {error.host}:{error.port}: connect: {_text_of(error.os_error)}"
        return TransportError(f"{where}: {text}", is_refused=number == errno.ECONNREFUSED)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return TransportError(f"{where}: dial tcp: i/o timeout", is_timeout=True)
    if isinstance(error, TimeoutError):
        return TransportError(f"{where}: context deadline exceeded", is_timeout=True, was_sent=True)
    if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
        return TransportError(f"{where}: EOF", is_reset=True, was_sent=True)
    if isinstance(error, OSError):
        return TransportError(f"{where}: {_text_of(error)}", is_reset=True, was_sent=True)
    return TransportError(f"{where}: {error}", was_sent=True)


def _text_of(error: OSError) -> str:
    names = {errno.ECONNREFUSED: "connection refused", errno.ECONNRESET: "connection reset by peer"}
    if error.errno in names:
        return names[error.errno]
    return (error.strerror or str(error)).lower()


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that notices when the other end is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS:
        option = getattr(socket, name, None)  # not every system has each of them
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
