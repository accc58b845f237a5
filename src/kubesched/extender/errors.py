"""What went wrong with an extender, in the words of Go's HTTP client.

Owns the translation of every failure on the way to an extender and back. Never sends anything.
Upstream: pkg/scheduler/extender.go send; Go's net/http/client.go, net/dial.go,
crypto/tls/handshake_client.go
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from typing import Final

import aiohttp

from kubesched.framework.handle import ExtenderError
from kubesched.kit.urls import without_password
from kubesched.objects.field_errors import go_quote

__all__ = ["ExtenderError", "of_address", "of_reading", "of_sending"]

# A TimeoutError is an OSError, and what yarl refuses is a ValueError.
FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
"""All that sending raises."""
READING_TIMEOUT: Final = (
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


def of_sending(url: str, error: Exception, method: str = "Post") -> ExtenderError:
    """Return why a request had no answer."""
    return ExtenderError(f'{method} "{without_password(url)}": {_reason(error)}')


def of_address(url: str) -> ExtenderError | None:
    """Return what is wrong with an address that nothing can be sent to; None if it may be right."""
    # Parity: Go's net/url/url.go parse, net/http/transport.go roundTrip.
    found = _SCHEME.match(url)
    scheme = found.group(1).lower() if found else ""
    shown = without_password(url)
    if not scheme and ":" in url.partition("/")[0]:
        text = "first path segment in URL cannot contain colon"
        return ExtenderError(f'parse "{shown}": {text}')
    if scheme not in ("http", "https"):
        return ExtenderError(f'Post "{shown}": unsupported protocol scheme {go_quote(scheme)}')
    if not re.match(r"//[^/?#]", url[len(scheme) + 1 :]):
        return ExtenderError(f'Post "{shown}": http: no Host in request URL')
    return None


def of_reading(error: Exception) -> ExtenderError:
    """Return why an answer broke off."""
    if isinstance(error, TimeoutError):
        return ExtenderError(READING_TIMEOUT)
    if isinstance(error, OSError) and error.errno in _REASONS:
        return ExtenderError(f"read tcp: read: {_REASONS[error.errno]}")
    return ExtenderError("unexpected EOF")


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return _of_connecting(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "dial tcp: i/o timeout"
    if isinstance(error, TimeoutError):
        return _WAITING_TIMEOUT
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Text of a head that broke off is another matter than none at all.
        return "EOF" if isinstance(error.message, str) else f"{_BROKEN}: unexpected EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return _of_answer(error)
    if isinstance(error, OSError) and error.errno in _REASONS:
        return f"read tcp: read: {_REASONS[error.errno]}"
    return str(error) or type(error).__name__


def _of_connecting(error: aiohttp.ClientConnectorError | aiohttp.ClientSSLError) -> str:
    """Return why there is no connection."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _of_certificate(error.certificate_error, error.host)
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _of_certificate(cause, error.host)
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
            return "http: server gave HTTP response to HTTPS client"
        return f"tls: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {error.host}: no such host"
    found = _SOCKET_ADDRESS.search(str(cause))
    host, port = found.groups() if found else (error.host, error.port)
    where = f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    if cause.errno == errno.ETIMEDOUT or (isinstance(cause, TimeoutError) and cause.errno is None):
        return f"dial tcp {where}: i/o timeout"
    text = _REASONS.get(cause.errno or 0) or (cause.strerror or str(cause)).lower()
    return f"dial tcp {where}: connect: {text}"


def _of_certificate(error: Exception, host: str) -> str:
    text = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _UNKNOWN_AUTHORITY:
            text = "x509: certificate signed by unknown authority"
        elif error.verify_code in _EXPIRED:
            text = "x509: certificate has expired or is not yet valid"
        else:
            text = f"x509: {error.verify_message} ({host})"
    return f"tls: failed to verify certificate: {text}"


def _of_answer(error: aiohttp.ClientResponseError) -> str:
    """Return what an answer is called that is no use."""
    message = error.message
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return message or str(error.status)
    if isinstance(error, aiohttp.TooManyRedirects):
        return "stopped after 10 redirects"
    shown = re.search(r"b(['\"])(.*?)(?:\\r|\\n|\1$|\1\n)", message, re.DOTALL)
    # The text is how Python shows bytes.
    line = shown.group(2).encode().decode("unicode_escape") if shown else ""
    return f"{_BROKEN}: {_of_status_line(line)}"


def _of_status_line(line: str) -> str:
    """Return what is wrong with the first line of an answer."""
    # Parity: Go's net/http/response.go ReadResponse.
    version, found, status = line.partition(" ")
    if not found:
        return f"malformed HTTP response {go_quote(line)}"
    code = status.lstrip(" ").partition(" ")[0]
    if len(code) != 3 or not code.isdigit():
        return f"malformed HTTP status code {go_quote(code)}"
    return f"malformed HTTP version {go_quote(version)}"
