"""The server on its socket.

Owns connections: reading requests, writing answers, streaming watches, and ending all of it. What
a request means is resource_requests' and the other parts' that are handed in.
Upstream: staging/src/k8s.io/apiserver/pkg/server/{genericapiserver,config}.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import unquote

from aiohttp import web

from kubesched.apiserver.asked import Answer, Asked
from kubesched.apiserver.auth.attributes import Attributes, refusal
from kubesched.apiserver.discovery import Discovery
from kubesched.apiserver.errors import ApiError, internal, path_not_found, too_large
from kubesched.apiserver.health import Health
from kubesched.apiserver.negotiation import YAML
from kubesched.apiserver.openapi import OpenApi
from kubesched.apiserver.requests import RequestInfo, request_info
from kubesched.apiserver.resource_requests import run
from kubesched.apiserver.strategy import User
from kubesched.apiserver.verbs.context import Context, decode, encode
from kubesched.apiserver.verbs.watching import WatchExpiredError, Watcher
from kubesched.apiserver.version import VERSION
from kubesched.apiserver.yaml_answers import as_yaml

_log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
_BOOKMARK_EVERY_S: Final = 60.0
_BOOKMARK_BEFORE_END_S: Final = 2.0
_KEEPALIVE_S: Final = 3600.0
_HEADERS: Final = {"Cache-Control": "no-cache, private"}
_TEXT: Final = "text/plain; charset=utf-8"


class Authenticates(Protocol):
    """Who is asking."""

    def user_of(
        self, headers: Mapping[str, str], peer_certificate: Mapping[str, object] | None = None
    ) -> User:
        """Return the user; raise Unauthorized."""


class Authorizes(Protocol):
    """Whether they may."""

    def allows(self, asked: Attributes) -> tuple[bool, str]:
        """Return whether it is allowed, and why if there is something to say."""


class Settles(Protocol):
    """What must be done before a write is acknowledged."""

    async def wait_settled(self) -> None:
        """Wait until every change so far is kept."""

    def close(self) -> None:
        """Write what is left."""


@dataclass(slots=True)
class Page:
    """An answer that is not about a resource."""

    data: bytes
    content_type: str = "application/json"
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


PathHandler = Callable[[list[str], Mapping[str, str]], Page | None]
"""From the parts of a path and the headers to a page, None if nothing is there."""


class ApiServer:
    """A server: made, started, stopped."""

    def __init__(
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
        self._discovery = discovery
        self._journal = journal
        self._pages = dict(pages or {})
        self._openapi = openapi
        self._watchers: dict[Watcher, None] = {}
        self._is_stopping = False
        self._runner: web.ServerRunner | None = None
        self._health = Health(lambda: not self._is_stopping)
        self.port = 0
        self._request_counts: dict[tuple[str, str, int], int] = {}

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Listen from now on; port 0 takes any, `port` tells which."""
        server = web.Server(self._handle, access_log=None, keepalive_timeout=_KEEPALIVE_S)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.3)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, host, port, ssl_context=tls, backlog=1024, reuse_address=True
        )
        await site.start()
        addresses = self._runner.addresses
        self.port = int(addresses[0][1])

    async def stop(self) -> None:
        """End every watch, answer what is under way, and close."""
        self._is_stopping = True
        for watcher in list(self._watchers):
            watcher.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._journal is not None:
            self._journal.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiError as error:
            return _refused(error)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:
            _log.exception("request failed: %s %s", request.method, request.path)
            return _refused(internal("the server failed while handling the request"))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        info = request_info(request.method, request.rel_url.raw_path, request.query)
        user = self._authenticator.user_of(request.headers, _peer_certificate(request))
        self._authorize(info, user)
        if not info.is_resource_request:
            return self._page(request, info)
        body = b""
        if request.body_exists:
            body = await _read(request)
        asked = Asked(info, user, request.query, request.headers, body)
        try:
            answer = run(self.context, asked)
        except WatchExpiredError as error:
            return await self._expired(request, error.refusal)
        if isinstance(answer, Watcher):
            return await self._stream(request, answer)
        if self._journal is not None and info.verb not in {"get", "list"}:
            await self._journal.wait_settled()
        return _answered(answer)

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
            name=info.name,
        )
        is_allowed, reason = self._authorizer.allows(attributes)
        if not is_allowed:
            raise refusal(attributes, reason)

    def _page(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        """Answer for a path that names no resource."""
        parts = [unquote(part) for part in request.rel_url.raw_path.strip("/").split("/")]
        page = self._page_of(parts, request)
        if page is None:
            if parts[0] in {"api", "apis"} and len(parts) > 2:
                raise path_not_found()
            page = Page(b"404 page not found\n", _TEXT, 404)
        if request.method not in {"GET", "HEAD"} and page.code == 200:
            page = Page(b"Method Not Allowed\n", _TEXT, 405)
        headers = {**_HEADERS, **page.headers, "Content-Type": page.content_type}
        return web.Response(body=page.data, status=page.code, headers=headers)

    def _page_of(self, parts: list[str], request: web.BaseRequest) -> Page | None:
        first = parts[0]
        if first in {"api", "apis"}:
            found = self._discovery.document(parts, request.headers.get("Accept", ""))
            return None if found is None else Page(encode(found[0]), found[1])
        if first in {"healthz", "livez", "readyz"}:
            answer = self._health.answer(
                parts,
                is_verbose="verbose" in request.query,
                excluded=request.query.getall("exclude", []),
            )
            return None if answer is None else Page(answer[1].encode(), _TEXT, answer[0])
        if first == "openapi" and self._openapi is not None:
            return self._openapi_page(request)
        if parts == ["version"]:
            return Page(encode(VERSION))
        if parts == [""]:
            return Page(encode({"paths": self._paths()}))
        handler = self._pages.get(first)
        return None if handler is None else handler(parts, request.headers)

    def _openapi_page(self, request: web.BaseRequest) -> Page:
        assert self._openapi is not None
        found = self._openapi.answer(
            request.rel_url.path.rstrip("/"),
            request.headers.get("Accept", ""),
            request.query.get("hash", ""),
        )
        return Page(found.body, found.content_type, found.status, dict(found.headers))

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/readyz"]
        for group, versions in self._discovery.groups().items():
            paths.append(f"/apis/{group}")
            paths += [f"/apis/{group}/{version}" for version in versions]
        paths += [f"/{first}" for first in self._pages]
        return sorted({*paths, "/version"})

    async def _stream(self, request: web.BaseRequest, watcher: Watcher) -> web.StreamResponse:
        """Write a watch until it ends, by whoever ends it."""
        self._watchers[watcher] = None
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "application/json"})
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            for data in watcher.initial_frames():
                await response.write(data)
            await self._follow(response, watcher)
            if watcher.has_overflowed and request.transport is not None:
                # It does not read: nothing that is still to be said would reach it.
                request.transport.abort()
            else:
                await response.write_eof()
        except ConnectionResetError:
            pass  # The client went away, as most watchers do.
        finally:
            watcher.close()
            self._watchers.pop(watcher, None)
        return response

    async def _follow(self, response: web.StreamResponse, watcher: Watcher) -> None:
        clock, wants_bookmarks = self.context.clock, watcher.wants_bookmarks
        ends_s = clock.monotonic_s() + watcher.timeout_s
        # The last one comes just before the end, so that the next watch begins there.
        final_bookmark_s = ends_s - _BOOKMARK_BEFORE_END_S
        wants_bookmarks = wants_bookmarks and watcher.timeout_s > _BOOKMARK_BEFORE_END_S
        bookmark_s = min(clock.monotonic_s() + _BOOKMARK_EVERY_S, final_bookmark_s)
        while not (watcher.is_closed or self._is_stopping):
            now_s = clock.monotonic_s()
            if now_s >= ends_s:
                return
            wakes_s = min(ends_s, bookmark_s) if wants_bookmarks else ends_s
            try:
                async with asyncio.timeout(wakes_s - now_s):
                    await watcher.wait()
            except TimeoutError:
                pass
            data = watcher.take()
            if wants_bookmarks and clock.monotonic_s() >= bookmark_s:
                data += watcher.bookmark()
                is_final = bookmark_s >= final_bookmark_s
                later_s = min(bookmark_s + _BOOKMARK_EVERY_S, final_bookmark_s)
                bookmark_s = ends_s + 1 if is_final else later_s
            if data:
                await response.write(data)

    async def _expired(self, request: web.BaseRequest, error: ApiError) -> web.StreamResponse:
        """Write the watch that consists of its refusal."""
        data = encode({"type": "ERROR", "object": error.status}) + b"\n"
        headers = {**_HEADERS, "Content-Type": "application/json"}
        del request
        return web.Response(body=data, headers=headers)


async def _read(request: web.BaseRequest) -> bytes:
    """Return the body of a request; refuse one that is too long."""
    chunks: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise too_large(f"limit is {BODY_BYTES_MAX}")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _peer_certificate(request: web.BaseRequest) -> Mapping[str, object] | None:
    transport = request.transport
    secured: Any = None if transport is None else transport.get_extra_info("ssl_object")
    found: Mapping[str, object] | None = None if secured is None else secured.getpeercert()
    return found


def _answered(answer: Answer) -> web.Response:
    data = answer.data
    if answer.media_type == YAML:
        data = as_yaml(decode(data))
    response = web.Response(body=data, status=answer.code, headers=_HEADERS)
    response.headers["Content-Type"] = answer.media_type
    for warning in dict.fromkeys(answer.warnings):
        response.headers.add("Warning", warning_header(warning))
    return response


def warning_header(text: str) -> str:
    """Return a warning as its header has it."""
    # Parity: apimachinery/pkg/util/net/http.go NewWarningHeader, v1.36
    printable = "".join(char for char in text if char.isprintable() or char in "\t")
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _refused(error: ApiError) -> web.Response:
    headers = dict(_HEADERS)
    retry_s = error.details.get("retryAfterSeconds")
    if retry_s:
        headers["Retry-After"] = str(retry_s)
    response = web.Response(body=encode(error.status), status=error.code, headers=headers)
    response.headers["Content-Type"] = "application/json"
    if error.code == 413:
        response.force_close()
    return response
