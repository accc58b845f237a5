"""The HTTP server: reads requests, writes responses, streams watches, shuts down.

Upstream: staging/src/k8s.io/apiserver/pkg/server/{genericapiserver,config}.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import HttpVersion11, web

from kubesched.cluster.apiserver.auth.attributes import Attributes, rejection
from kubesched.cluster.apiserver.auth.impersonation import impersonated
from kubesched.cluster.apiserver.errors import ApiError, bad_request, internal, too_large
from kubesched.cluster.apiserver.http.connections import StatusServer
from kubesched.cluster.apiserver.http.discovery import Discovery
from kubesched.cluster.apiserver.http.dispatch import NoSuchPageError, run
from kubesched.cluster.apiserver.http.kubelet_connections import KubeletConnections
from kubesched.cluster.apiserver.http.kubelet_proxy import KubeletCall
from kubesched.cluster.apiserver.http.metrics import Metrics
from kubesched.cluster.apiserver.http.negotiation import YAML
from kubesched.cluster.apiserver.http.openapi import OpenApi
from kubesched.cluster.apiserver.http.pages import NO_PAGE, Health, Page, Pages, PathHandler
from kubesched.cluster.apiserver.http.request_info import RequestInfo, request_info
from kubesched.cluster.apiserver.http.request_types import ResourceRequest, ResourceResponse
from kubesched.cluster.apiserver.storage.event_ttl import expire_events
from kubesched.cluster.apiserver.storage.persistence import PersistenceError
from kubesched.cluster.apiserver.strategy import User
from kubesched.cluster.apiserver.verbs.context import Context, decode, encode
from kubesched.cluster.apiserver.verbs.watching import Watcher, WatchExpiredError
from kubesched.golang.time import duration_problem
from kubesched.golang.yaml_output import as_yaml
from kubesched.kit.tasks import Tasks

_log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
_BOOKMARK_EVERY_S: Final = 60.0
_BOOKMARK_BEFORE_END_S: Final = 2.0
# Parity: Go's net/http DefaultMaxHeaderBytes.
_HEAD_BYTES_MAX: Final = 1024 * 1024
_KEEPALIVE_S: Final = 3600.0
# Pending responses and watches get half of it each; then connections are aborted.
_STOP_S_MAX: Final = 0.3
_HEADERS: Final = {"Cache-Control": "no-cache, private"}


class Authenticates(Protocol):
    """Authenticates requests."""

    def user_of(
        self, headers: Mapping[str, str], peer_certificate: Mapping[str, object] | None = None
    ) -> User:
        """Return the user of a request; raise Unauthorized if there is none."""


class Authorizes(Protocol):
    """Authorizes requests."""

    def allows(self, resource_request: Attributes) -> tuple[bool, str]:
        """Return whether a request is allowed, and the reason, which may be empty."""


class Settles(Protocol):
    """Makes writes durable before they are acknowledged."""

    async def wait_settled(self) -> None:
        """Wait until all changes so far are persisted; PersistenceError if that fails."""

    def close(self) -> None:
        """Persist pending changes and close."""


class ApiServer:
    """The HTTP server of one API server."""

    def __init__(  # noqa: PLR0913  # One for each component.
        self,
        context: Context,
        *,
        authenticator: Authenticates,
        authorizer: Authorizes,
        discovery: Discovery,
        journal: Settles | None = None,
        pages: Mapping[str, PathHandler] | None = None,
        openapi: OpenApi | None = None,
    ) -> None:
        self.context = context
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._journal = journal
        self._watchers: dict[Watcher, None] = {}
        self._is_stopping = False
        self._runner: web.ServerRunner | None = None
        self._metrics = Metrics(context)
        health = Health(lambda: not self._is_stopping)
        self._pages = Pages(discovery, health, self._metrics, openapi, pages or {})
        self._tasks = Tasks()
        self._kubelets = KubeletConnections()
        self.port = 0

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Start listening; with port 0, `port` returns the chosen one."""
        server = StatusServer(
            self._handle,
            access_log=None,
            keepalive_timeout=_KEEPALIVE_S,
            # End the watch of a client that disconnects, even while it is idle.
            handler_cancellation=True,
            max_line_size=_HEAD_BYTES_MAX,
            max_field_size=_HEAD_BYTES_MAX,
            # Parity: compressed bodies are not decompressed.
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(
            server, handle_signals=False, shutdown_timeout=_STOP_S_MAX / 2
        )
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, host, port, ssl_context=tls, backlog=1024, reuse_address=True
        )
        await site.start()
        addresses = self._runner.addresses
        self.port = int(addresses[0][1])
        self._tasks.start(expire_events(self.context), name="events expire")

    async def stop(self) -> None:
        """End all watches, finish pending requests, and close all connections."""
        self._is_stopping = True
        await self._tasks.stop()
        for watcher in list(self._watchers):
            watcher.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._kubelets.close()
        if self._journal is not None:
            self._journal.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        info = request_info(request.method, request.rel_url.raw_path, request.query)
        warnings: list[str] = []
        try:
            response = await self._respond(request, info, warnings)
        except ApiError as error:
            response = _rejected(error)
        except NoSuchPageError:
            response = _paged(NO_PAGE)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:  # noqa: BLE001  # Any failure becomes a response, and the server continues.
            _log.exception("request failed: %s %s", request.method, request.path)
            response = _rejected(internal("the server failed while handling the request"))
        self._metrics.count(info, response.status)
        if not response.prepared:
            for warning in dict.fromkeys(warnings):
                response.headers.add("Warning", warning_header(warning))
        return response

    async def _respond(
        self, request: web.BaseRequest, info: RequestInfo, warnings: list[str]
    ) -> web.StreamResponse:
        proven = self._authenticator.user_of(request.headers, _peer_certificate(request))
        user = impersonated(proven, request.headers, self._authorizer)
        self._authorize(info, user)
        if not info.is_resource_request:
            path = request.rel_url.raw_path
            return _paged(self._pages.respond(request.method, path, request.headers, request.query))
        _check_timeout(request.query.get("timeout", ""))
        body = await _read(request) if request.body_exists else b""
        resource_request = ResourceRequest(
            info, user, request.query, request.headers, body, warnings
        )
        try:
            response = run(self.context, resource_request)
        except WatchExpiredError as error:
            return _expired(error.rejection)
        if isinstance(response, Watcher):
            return await self._stream(request, response, warnings)
        if isinstance(response, KubeletCall):
            if not response.is_log:
                # Parity: pkg/registry/core/pod/rest/subresources.go, v1.36: connecting to a pod
                # counts as a change, regardless of the method.
                self._authorize(replace(info, verb="create"), user)
            return await self._kubelets.carry(request, response)
        await self._settle()
        return _web_response(response)

    async def _settle(self) -> None:
        """Wait until all writes are durable, so that clients see no write that may be lost."""
        if self._journal is not None:
            await self._journal.wait_settled()

    def _authorize(self, info: RequestInfo, user: User) -> None:
        attributes = Attributes(
            user,
            info.verb,
            path=info.path,
            is_resource=info.is_resource_request,
            group=info.group,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name or info.selected_name,
        )
        is_allowed, reason = self._authorizer.allows(attributes)
        if not is_allowed:
            raise rejection(attributes, reason)

    async def _stream(
        self, request: web.BaseRequest, watcher: Watcher, warnings: list[str]
    ) -> web.StreamResponse:
        """Stream a watch until it ends."""
        self._watchers[watcher] = None
        watcher.when_overflowed = partial(_hang_up, request)
        self._metrics.watcher_count = len(self._watchers)
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "application/json"})
        for warning in warnings:
            response.headers.add("Warning", warning_header(warning))
        if request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        try:
            await self._settle()
            await response.prepare(request)
            for data in watcher.initial_frames():
                await response.write(data)
            await self._follow(response, watcher)
            await response.write_eof()
        except (ConnectionResetError, PersistenceError):
            pass  # The client disconnected, or must not get writes that are not durable.
        finally:
            watcher.close()
            self._watchers.pop(watcher, None)
            self._metrics.watcher_count = len(self._watchers)
        return response

    async def _follow(self, response: web.StreamResponse, watcher: Watcher) -> None:
        clock, sends_bookmarks = self.context.clock, watcher.sends_bookmarks
        ends_s = clock.monotonic_s() + watcher.timeout_s
        # The last bookmark is sent just before the end, so that the next watch can resume there.
        final_bookmark_s = ends_s - _BOOKMARK_BEFORE_END_S
        sends_bookmarks = sends_bookmarks and watcher.timeout_s > _BOOKMARK_BEFORE_END_S
        bookmark_s = min(clock.monotonic_s() + _BOOKMARK_EVERY_S, final_bookmark_s)
        while not (watcher.is_closed or self._is_stopping):
            now_s = clock.monotonic_s()
            if now_s >= ends_s:
                return
            wakes_s = min(ends_s, bookmark_s) if sends_bookmarks else ends_s
            try:
                async with asyncio.timeout(wakes_s - now_s):
                    await watcher.wait()
            except TimeoutError:
                pass
            await self._settle()
            data = watcher.take()
            if sends_bookmarks and clock.monotonic_s() >= bookmark_s:
                data += watcher.bookmark()
                is_final = bookmark_s >= final_bookmark_s
                later_s = min(bookmark_s + _BOOKMARK_EVERY_S, final_bookmark_s)
                bookmark_s = ends_s + 1 if is_final else later_s
            if data:
                await response.write(data)


def _hang_up(request: web.BaseRequest) -> None:
    """Abort a connection whose client does not read."""
    if request.transport is not None:
        request.transport.abort()


def _expired(error: ApiError) -> web.Response:
    """Return a watch stream that consists of one error."""
    data = encode({"type": "ERROR", "object": error.status}) + b"\n"
    return web.Response(body=data, headers={**_HEADERS, "Content-Type": "application/json"})


def _paged(page: Page) -> web.Response:
    headers = {**_HEADERS, **page.headers, "Content-Type": page.content_type}
    return web.Response(body=page.data, status=page.code, headers=headers)


async def _read(request: web.BaseRequest) -> bytes:
    """Return the body of a request; RequestEntityTooLarge if it is too long."""
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := await request.content.readany():
            chunks.append(chunk)
            size += len(chunk)
            if size > BODY_BYTES_MAX:
                raise too_large(f"Request entity too large: limit is {BODY_BYTES_MAX}")
    except web.RequestPayloadError as error:
        raise bad_request(f"the body cannot be read: {error}") from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _peer_certificate(request: web.BaseRequest) -> Mapping[str, object] | None:
    transport = request.transport
    secured: Any = None if transport is None else transport.get_extra_info("ssl_object")
    found: Mapping[str, object] | None = None if secured is None else secured.getpeercert()
    return found


def _web_response(resource_response: ResourceResponse) -> web.Response:
    data = resource_response.data
    if resource_response.media_type == YAML:
        data = as_yaml(decode(data))
    response = web.Response(body=data, status=resource_response.code, headers=_HEADERS)
    response.headers["Content-Type"] = resource_response.media_type
    return response


def warning_header(text: str) -> str:
    """Return the value of the Warning header for a text."""
    # Parity: apimachinery/pkg/util/net/http.go NewWarningHeader, v1.36
    printable = "".join(char for char in text if char.isprintable() or char == "\t")
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _rejected(error: ApiError) -> web.Response:
    headers = dict(_HEADERS)
    retry_s = error.details.get("retryAfterSeconds")
    if retry_s:
        headers["Retry-After"] = str(retry_s)
    response = web.Response(body=encode(error.status), status=error.code, headers=headers)
    response.headers["Content-Type"] = "application/json"
    if error.code == 413:
        response.force_close()
    return response


def _check_timeout(text: str) -> None:
    """Reject a request timeout that is not a duration.

    Parity: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go, v1.36.
    """
    problem = duration_problem(text) if text else ""
    if problem:
        raise bad_request(f"invalid timeout specified in the request URL - {problem}")
