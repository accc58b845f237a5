"""HTTP transport to the API server: aiohttp, and the connection pool for frequent requests.

Owns connections, TLS, and errors in the words of Go's client. Never retries and never decodes a
body: request and rest do.
Upstream: staging/src/k8s.io/client-go/transport/transport.go
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubesched.client.auth.credentials import ClusterAccess, Credential
from kubesched.client.errors import TransportError
from kubesched.client.http.connection_pool import CutError, DialError, HotPool, new_socket
from kubesched.client.http.response_reader import ResponseError
from kubesched.client.http.tls import TlsFiles
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.urls import without_password

_CONNECT_S: Final = 30.0
# Shorter than the 90 s after which an API server closes an idle connection, so that no request is
# sent on a closing connection.
_IDLE_S: Final = 60.0
_TURNS: Final = 3
# A TimeoutError is an OSError.
FAILURES: Final = (aiohttp.ClientError, ResponseError, OSError)
"""Everything that a transport raises."""
_CUT: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, CutError)


class Response(Protocol):
    """The head of a response, with access to its body."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Return the whole body."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the body in chunks as it arrives."""

    def close(self) -> None:
        """Discard the rest of the body."""


@dataclass(slots=True)
class Outgoing:
    """A request to be sent."""

    method: str
    target: str
    """The encoded path and query."""
    headers: CIMultiDict[str]
    body: bytes | None
    credential: Credential
    limits: aiohttp.ClientTimeout
    """Its timeouts."""
    is_hot: bool = False
    """Whether it goes through the connection pool."""


class Transport(Protocol):
    """Sends requests."""

    async def send(self, request: Outgoing) -> Response:
        """Send once and return the head of the response; TransportError if there is none."""

    async def close(self) -> None:
        """Close all connections."""


class HttpTransport:
    """aiohttp with keep-alive, and a connection pool for hot requests."""

    def __init__(self, access: ClusterAccess, clock: Clock) -> None:
        self._server = access.server.rstrip("/")
        # Credentials in the URL are sent as a header; error texts show the whole URL.
        scheme, _, rest = self._server.partition("://")
        host, slash, path = rest.partition("/")
        self._root = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
        self._tls = TlsFiles(access.tls, clock) if self._server.startswith("https:") else None
        self._options: dict[str, Any] = {"allow_redirects": False}
        if access.proxy:
            self._options["proxy"] = URL(access.proxy)
        if access.tls.server_name:
            self._options["server_hostname"] = access.tls.server_name
        # The pool does not support proxies.
        self._pool = None if access.proxy else HotPool(self._server, access.tls.server_name)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def send(self, request: Outgoing) -> Response:
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

    async def _send_any(self, request: Outgoing, context: ssl.SSLContext | None) -> Response:
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
        return HttpResponse(response, request.method, self._server + request.target)

    async def close(self) -> None:
        self._is_closed = True
        if self._pool is not None:
            await self._pool.close()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            # Closing takes some turns of the loop.
            for _ in range(_TURNS):
                await SystemClock().sleep(0)

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            # The lanes limit the number of connections; watches are extra.
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_IDLE_S, socket_factory=new_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Content-Type", "User-Agent", "Accept", "Accept-Encoding"),
        )
        return self._session


class HttpResponse:
    """A response of aiohttp."""

    __slots__ = ("_address", "_method", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, method: str, address: str) -> None:
        self._response = response
        self._method = method
        self._address = address
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except FAILURES as error:
            raise transport_error(self._method, self._address, error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except FAILURES as error:
            raise transport_error(self._method, self._address, error) from error

    def close(self) -> None:
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            # Without waiting for the TLS shutdown.
            connection.transport.abort()
        self._response.close()


def transport_error(method: str, address: str, error: BaseException) -> TransportError:
    """Return the TransportError for an error of aiohttp or of the pool."""
    where = f'{method.capitalize()} "{without_password(address)}"'
    if isinstance(error, DialError):
        return _dial_error(where, error.host, error.port, error.cause)
    if isinstance(error, aiohttp.ClientConnectionError):
        connect_error = _connect_error(where, error)
        if connect_error is not None:
            return connect_error
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return TransportError(f"{where}: proxyconnect tcp: {error.message or error.status}")
    if isinstance(error, TimeoutError):
        return TransportError(f"{where}: context deadline exceeded", is_timeout=True, was_sent=True)
    if isinstance(error, _CUT):
        return TransportError(f"{where}: EOF", is_reset=True, was_sent=True)
    if isinstance(error, ResponseError):
        text = f"net/http: HTTP/1.x transport connection broken: {error}"
        return TransportError(f"{where}: {text}", was_sent=True)
    if isinstance(error, OSError):
        return TransportError(f"{where}: {_os_error_text(error)}", is_reset=True, was_sent=True)
    return TransportError(f"{where}: {error}", was_sent=True)


def is_about_tls(error: BaseException) -> bool:
    """Return whether a certificate may be the cause."""
    return isinstance(error.cause if isinstance(error, DialError) else error, ssl.SSLError)


def _connect_error(where: str, error: aiohttp.ClientConnectionError) -> TransportError | None:
    """Return the error of a failed connection attempt; None for an established connection."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return TransportError(f"{where}: tls: failed to verify certificate: {error}")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return TransportError(f"{where}: dial tcp: lookup {error.host}: {error.os_error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _dial_error(where, error.host, error.port, error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return TransportError(f"{where}: dial tcp: i/o timeout", is_timeout=True)
    return None


def _dial_error(where: str, host: str, port: int | None, cause: OSError) -> TransportError:
    if isinstance(cause, TimeoutError) and cause.errno is None:
        return TransportError(f"{where}: dial tcp: i/o timeout", is_timeout=True)
    if isinstance(cause, socket.gaierror):
        return TransportError(f"{where}: dial tcp: lookup {host}: {cause}")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TransportError(f"{where}: tls: failed to verify certificate: {cause}")
    text = f"dial tcp {host}:{port}: connect: {_os_error_text(cause)}"
    return TransportError(f"{where}: {text}", is_refused=cause.errno == errno.ECONNREFUSED)


def _os_error_text(error: OSError) -> str:
    names = {errno.ECONNREFUSED: "connection refused", errno.ECONNRESET: "connection reset by peer"}
    if error.errno in names:
        return names[error.errno]
    return (error.strerror or str(error)).lower()
