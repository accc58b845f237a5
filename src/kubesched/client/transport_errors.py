"""What went wrong on the way to the API server, in the words of Go's client.

Owns the translation of every failure of a connection into a TransportError. Never looks at an
answer that came.
Upstream: Go's net/http/client.go, net/dial.go, crypto/tls/handshake_client.go
"""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Final

import aiohttp

from kubesched.client.answer_reader import AnswerError
from kubesched.client.errors import TransportError
from kubesched.client.hot_pool import CutError, DialError
from kubesched.kit.urls import without_password

# A TimeoutError is an OSError.
FAILURES: Final = (aiohttp.ClientError, AnswerError, OSError)
"""All that a transport raises."""
_CUT: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, CutError)


def transport_error(method: str, address: str, error: BaseException) -> TransportError:
    """Return our error for one of aiohttp's or of the pool's."""
    where = f'{method.capitalize()} "{without_password(address)}"'
    if isinstance(error, DialError):
        return _of_dialling(where, error.host, error.port, error.cause)
    if isinstance(error, aiohttp.ClientConnectionError):
        made = _of_connecting(where, error)
        if made is not None:
            return made
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return TransportError(f"{where}: proxyconnect tcp: {error.message or error.status}")
    if isinstance(error, TimeoutError):
        return TransportError(f"{where}: context deadline exceeded", is_timeout=True, was_sent=True)
    if isinstance(error, _CUT):
        return TransportError(f"{where}: EOF", is_reset=True, was_sent=True)
    if isinstance(error, AnswerError):
        text = f"net/http: HTTP/1.x transport connection broken: {error}"
        return TransportError(f"{where}: {text}", was_sent=True)
    if isinstance(error, OSError):
        return TransportError(f"{where}: {_text_of(error)}", is_reset=True, was_sent=True)
    return TransportError(f"{where}: {error}", was_sent=True)


def is_about_tls(error: BaseException) -> bool:
    """Return whether somebody's certificate may be the reason."""
    return isinstance(error.cause if isinstance(error, DialError) else error, ssl.SSLError)


def _of_connecting(where: str, error: aiohttp.ClientConnectionError) -> TransportError | None:
    """Return what a connection that was never made means; None for one that was."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return TransportError(f"{where}: tls: failed to verify certificate: {error}")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return TransportError(f"{where}: dial tcp: lookup {error.host}: {error.os_error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _of_dialling(where, error.host, error.port, error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return TransportError(f"{where}: dial tcp: i/o timeout", is_timeout=True)
    return None


def _of_dialling(where: str, host: str, port: int | None, cause: OSError) -> TransportError:
    if isinstance(cause, TimeoutError) and cause.errno is None:
        return TransportError(f"{where}: dial tcp: i/o timeout", is_timeout=True)
    if isinstance(cause, socket.gaierror):
        return TransportError(f"{where}: dial tcp: lookup {host}: {cause}")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TransportError(f"{where}: tls: failed to verify certificate: {cause}")
    text = f"dial tcp {host}:{port}: connect: {_text_of(cause)}"
    return TransportError(f"{where}: {text}", is_refused=cause.errno == errno.ECONNREFUSED)


def _text_of(error: OSError) -> str:
    names = {errno.ECONNREFUSED: "connection refused", errno.ECONNRESET: "connection reset by peer"}
    if error.errno in names:
        return names[error.errno]
    return (error.strerror or str(error)).lower()
