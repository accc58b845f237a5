"""Posts JSON to one extender and returns the body of its answer.

Owns connections, TLS, proxies and the time that one exchange may take. Never retries, and never
knows what a body means, save where its first value ends.
Upstream: pkg/scheduler/extender.go makeTransport, send; apimachinery util/net/http.go
SetTransportDefaults
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import aiohttp
from yarl import URL

from kubesched.client.auth import AccessError, TlsSettings
from kubesched.client.mirror import Turn
from kubesched.client.proxies import proxy_from_environment, usable_proxy
from kubesched.client.sockets import new_socket
from kubesched.client.tls import TlsFiles
from kubesched.config.extenders import DEFAULT_EXTENDER_TIMEOUT_NS
from kubesched.config.types import Extender, ExtenderTLSConfig
from kubesched.extender.errors import FAILURES, ExtenderError, of_address, of_reading, of_sending
from kubesched.extender.go_json import WireError
from kubesched.kit.clock import Clock
from kubesched.kit.urls import without_password

# Parity: apimachinery util/net/http.go SetOldTransportDefaults, net/http DefaultTransport.
_CONNECT_S: Final = 30.0
_IDLE_S: Final = 90.0
_REDIRECTS_MAX: Final = 10
_OK: Final = 200
_SPACE_MAX: Final = 64
"""How much space after a body is looked past to see whether it is whole."""
_PATIENCE_S: Final = 0.02
"""How long the end of a body that seems whole is waited for; it mostly comes with the rest."""
ResultT = TypeVar("ResultT")


def tls_settings(config: Extender) -> TlsSettings:
    """Return how an extender is recognised; one that nobody vouches for is trusted unseen."""
    # Parity: extender.go makeTransport, v1.36: only where `enableHTTPS` is set.
    given = config.tls_config or ExtenderTLSConfig()
    has_authority = bool(given.ca_file or given.ca_data)
    return TlsSettings(
        authority_file=given.ca_file,
        authority_data=given.ca_data,
        certificate_file=given.cert_file,
        certificate_data=given.cert_data,
        key_file=given.key_file,
        key_data=given.key_data,
        server_name=given.server_name,
        is_insecure=given.insecure or (config.enable_https and not has_authority),
    )


class ExtenderTransport:
    """Connections to one extender, kept open between requests."""

    def __init__(self, config: Extender, clock: Clock) -> None:
        self._prefix = config.url_prefix.rstrip("/")
        self._settings = tls_settings(config)
        self._clock = clock
        timeout_s = (config.http_timeout_ns or DEFAULT_EXTENDER_TIMEOUT_NS) / 1e9
        # As Go has it, a time below zero is no limit at all.
        self._limits = aiohttp.ClientTimeout(
            total=timeout_s if timeout_s > 0 else None, sock_connect=_CONNECT_S
        )
        self._tls: TlsFiles | None = None
        self._session: aiohttp.ClientSession | None = None

    async def post(self, verb: str, body: bytes, decode: Callable[[bytes], ResultT]) -> ResultT:
        """Post a body and return what the answer means; ExtenderError in upstream's words."""
        url = f"{self._prefix}/{verb}"
        problem = of_address(url)
        if problem is not None:
            raise problem
        # A connection that the other end closed while it was idle is only known to be closed after
        # the loop has turned.
        await Turn()
        try:
            response = await self._open().post(
                URL(url), data=body, timeout=self._limits, **self._options(url)
            )
        except AccessError as error:
            raise ExtenderError(f'Post "{without_password(url)}": {error}') from error
        except FAILURES as error:
            raise of_sending(url, error) from error
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
            # A connection is only gone after the loop has turned.
            await Turn()

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
            options["proxy"] = URL(usable_proxy(proxy))
        return options


async def _read(response: aiohttp.ClientResponse, decode: Callable[[bytes], ResultT]) -> ResultT:
    """Return what the first value of a body means, without waiting for what may follow it."""
    content, received = response.content, bytearray()
    failure: ExtenderError | None = None
    try:
        while not content.at_eof():
            more = await _more(content, is_urgent=_seems_whole(received))
            if more is None:
                # As Go's decoder, which looks no further once an object or a list is closed.
                try:
                    return decode(bytes(received))
                except WireError as problem:
                    if not problem.is_incomplete:
                        raise ExtenderError(str(problem)) from problem
                more = await content.readany()
            received += more
    except (aiohttp.ClientError, OSError) as error:
        failure = of_reading(error)
    try:
        return decode(bytes(received))
    except WireError as problem:
        if failure is not None and problem.is_incomplete:
            raise failure from problem
        raise ExtenderError(str(problem)) from problem


def _seems_whole(received: bytearray) -> bool:
    return bytes(received[-_SPACE_MAX:]).rstrip().endswith((b"}", b"]"))


async def _more(content: aiohttp.StreamReader, *, is_urgent: bool) -> bytes | None:
    """Return the next bytes; None if we are in a hurry and none come soon."""
    if not is_urgent:
        return await content.readany()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await content.readany()
    except TimeoutError:
        return None
