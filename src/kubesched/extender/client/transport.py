"""HTTP connections to one extender, with errors in the words of Go's HTTP client.

Owns connections, TLS, proxies, timeouts and error texts. Never retries, and never interprets a body
beyond the end of its first JSON value.
Upstream: pkg/scheduler/extender.go makeTransport, send; apimachinery util/net/http.go
SetTransportDefaults
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import aiohttp
from yarl import URL

from kubesched.client.auth.credentials import AccessError, TlsSettings
from kubesched.client.http.connection_pool import new_socket
from kubesched.client.http.proxies import proxy_from_environment, supported_proxy
from kubesched.client.http.tls import TlsFiles
from kubesched.client.watch.changes import LoopTurn
from kubesched.config.extenders import DEFAULT_EXTENDER_TIMEOUT_NS
from kubesched.config.types import Extender, ExtenderTLSConfig
from kubesched.framework.handle import ExtenderError
from kubesched.golang.json_unmarshal import WireError
from kubesched.golang.strconv import go_quote
from kubesched.kit.clock import Clock
from kubesched.kit.urls import without_password

# Parity: apimachinery util/net/http.go SetOldTransportDefaults, net/http DefaultTransport.
_CONNECT_S: Final = 30.0
_IDLE_S: Final = 90.0
_REDIRECTS_MAX: Final = 10
_OK: Final = 200
_SPACE_MAX: Final = 64
"""How much trailing space a complete body may have."""
_PATIENCE_S: Final = 0.02
"""How long to wait for the end of a body that looks complete."""
ResultT = TypeVar("ResultT")
# A TimeoutError is an OSError, and what yarl rejects is a ValueError.
_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
_READING_TIMEOUT: Final = (
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
)
_WAITING_TIMEOUT: Final = (
    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
)
_BROKEN: Final = "net/http: HTTP/1.x transport connection broken"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SOCKET_ADDRESS: Final = re.compile(r"\('([^']+)', (\d+)")
_REASONS: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by peer",
    errno.EPIPE: "broken pipe",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
}
# Parity: OpenSSL's X509_V_ERR_* in place of Go's x509 errors.
_UNKNOWN_AUTHORITY: Final = frozenset((2, 18, 19, 20, 21))
_EXPIRED: Final = frozenset((9, 10))


def tls_settings(config: Extender) -> TlsSettings:
    """Return the TLS settings; without an authority the certificate is not checked."""
    # Parity: extender.go makeTransport, v1.36: only where `enableHTTPS` is set.
    options = config.tls_config or ExtenderTLSConfig()
    has_authority = bool(options.ca_file or options.ca_data)
    return TlsSettings(
        authority_file=options.ca_file,
        authority_data=options.ca_data,
        certificate_file=options.cert_file,
        certificate_data=options.cert_data,
        key_file=options.key_file,
        key_data=options.key_data,
        server_name=options.server_name,
        is_insecure=options.insecure or (config.enable_https and not has_authority),
    )


class ExtenderTransport:
    """Connections to one extender, kept open between requests."""

    def __init__(self, config: Extender, clock: Clock) -> None:
        self._prefix = config.url_prefix.rstrip("/")
        self._settings = tls_settings(config)
        self._clock = clock
        timeout_s = (config.http_timeout_ns or DEFAULT_EXTENDER_TIMEOUT_NS) / 1e9
        # As in Go, a negative timeout means no limit.
        self._limits = aiohttp.ClientTimeout(
            total=timeout_s if timeout_s > 0 else None, sock_connect=_CONNECT_S
        )
        self._tls: TlsFiles | None = None
        self._session: aiohttp.ClientSession | None = None

    async def post(self, verb: str, body: bytes, decode: Callable[[bytes], ResultT]) -> ResultT:
        """Post a body and return the decoded response; ExtenderError in upstream's words."""
        url = f"{self._prefix}/{verb}"
        _check_address(url)
        # Notice connections that the server closed while they were idle.
        await LoopTurn()
        try:
            response = await self._open().post(
                URL(url), data=body, timeout=self._limits, **self._options(url)
            )
        except (AccessError, *_FAILURES) as error:
            reason = str(error) if isinstance(error, AccessError) else _reason(error)
            raise ExtenderError(f'Post "{without_password(url)}": {reason}') from error
        try:
            if response.status != _OK:
                raise ExtenderError(
                    f"failed {verb} with extender at URL {without_password(url)}, "
                    f"code {response.status}"
                )
            return await _read(response, decode)
        finally:
            response.release()

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # Closing takes a turn of the loop.
            await LoopTurn()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=_IDLE_S, socket_factory=new_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Content-Type": "application/json", "User-Agent": "kubesched"},
                max_line_size=1 << 20,
                max_field_size=1 << 20,
            )
        return self._session

    def _options(self, url: str) -> dict[str, Any]:
        options: dict[str, Any] = {"max_redirects": _REDIRECTS_MAX}
        if url.lower().startswith("https:"):
            if self._tls is None:
                self._tls = TlsFiles(self._settings, self._clock)
            options["ssl"] = self._tls.context()
            if self._settings.server_name:
                options["server_hostname"] = self._settings.server_name
        proxy = proxy_from_environment(url, os.environ)
        if proxy:
            options["proxy"] = URL(supported_proxy(proxy))
        return options


async def _read(response: aiohttp.ClientResponse, decode: Callable[[bytes], ResultT]) -> ResultT:
    """Decode the first value of a body without waiting for bytes after it."""
    content, received = response.content, bytearray()
    failure: ExtenderError | None = None
    try:
        while not content.at_eof():
            more = await _read_more(content, received)
            if more is None:
                # Go's decoder stops at the end of the object or list, too.
                try:
                    return decode(bytes(received))
                except WireError as problem:
                    if not problem.is_incomplete:
                        raise ExtenderError(str(problem)) from problem
                more = await content.readany()
            received += more
    except (aiohttp.ClientError, OSError) as error:
        failure = _reading_error(error)
    try:
        return decode(bytes(received))
    except WireError as problem:
        if failure is not None and problem.is_incomplete:
            raise failure from problem
        raise ExtenderError(str(problem)) from problem


async def _read_more(content: aiohttp.StreamReader, received: bytearray) -> bytes | None:
    """Return the next bytes; None if a body that looks complete gets none soon."""
    if not received[-_SPACE_MAX:].rstrip().endswith((b"}", b"]")):
        return await content.readany()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await content.readany()
    except TimeoutError:
        return None


def _check_address(url: str) -> None:
    """Raise ExtenderError for an invalid URL."""
    # Parity: Go's net/url/url.go parse, net/http/transport.go roundTrip.
    match = _SCHEME.match(url)
    scheme = match.group(1).lower() if match else ""
    shown = without_password(url)
    if not scheme and ":" in url.partition("/")[0]:
        raise ExtenderError(f'parse "{shown}": first path segment in URL cannot contain colon')
    if scheme not in ("http", "https"):
        raise ExtenderError(f'Post "{shown}": unsupported protocol scheme {go_quote(scheme)}')
    if not re.match(r"//[^/?#]", url[len(scheme) + 1 :]):
        raise ExtenderError(f'Post "{shown}": http: no Host in request URL')


def _reading_error(error: Exception) -> ExtenderError:
    """Return the error of a truncated response."""
    if isinstance(error, TimeoutError):
        return ExtenderError(_READING_TIMEOUT)
    if isinstance(error, OSError) and error.errno in _REASONS:
        return ExtenderError(f"read tcp: read: {_REASONS[error.errno]}")
    return ExtenderError("unexpected EOF")


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return _connecting_reason(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "dial tcp: i/o timeout"
    if isinstance(error, TimeoutError):
        return _WAITING_TIMEOUT
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # A truncated head differs from no response at all.
        return "EOF" if isinstance(error.message, str) else f"{_BROKEN}: unexpected EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return _response_reason(error)
    if isinstance(error, OSError) and error.errno in _REASONS:
        return f"read tcp: read: {_REASONS[error.errno]}"
    return str(error) or type(error).__name__


def _connecting_reason(error: aiohttp.ClientConnectorError | aiohttp.ClientSSLError) -> str:
    """Return the text for a failed connection."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_reason(error.certificate_error, error.host)
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _certificate_reason(cause, error.host)
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
            return "http: server gave HTTP response to HTTPS client"
        return f"tls: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {error.host}: no such host"
    match = _SOCKET_ADDRESS.search(str(cause))
    host, port = match.groups() if match else (error.host, error.port)
    where = f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    if cause.errno == errno.ETIMEDOUT or (isinstance(cause, TimeoutError) and cause.errno is None):
        return f"dial tcp {where}: i/o timeout"
    text = _REASONS.get(cause.errno or 0) or (cause.strerror or str(cause)).lower()
    return f"dial tcp {where}: connect: {text}"


def _certificate_reason(error: Exception, host: str) -> str:
    text = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _UNKNOWN_AUTHORITY:
            text = "x509: certificate signed by unknown authority"
        elif error.verify_code in _EXPIRED:
            text = "x509: certificate has expired or is not yet valid"
        else:
            text = f"x509: {error.verify_message} ({host})"
    return f"tls: failed to verify certificate: {text}"


def _response_reason(error: aiohttp.ClientResponseError) -> str:
    """Return the text for an unusable response."""
    message = error.message
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return message or str(error.status)
    if isinstance(error, aiohttp.TooManyRedirects):
        return "stopped after 10 redirects"
    shown = re.search(r"b(['\"])(.*?)(?:\\r|\\n|\1$|\1\n)", message, re.DOTALL)
    # The text is how Python shows bytes.
    line = shown.group(2).encode().decode("unicode_escape") if shown else ""
    return f"{_BROKEN}: {_status_line_reason(line)}"


def _status_line_reason(line: str) -> str:
    """Return the text for a malformed status line."""
    # Parity: Go's net/http/response.go ReadResponse.
    version, space, status = line.partition(" ")
    if not space:
        return f"malformed HTTP response {go_quote(line)}"
    code = status.lstrip(" ").partition(" ")[0]
    if len(code) != 3 or not code.isdigit():
        return f"malformed HTTP status code {go_quote(code)}"
    return f"malformed HTTP version {go_quote(version)}"
