"""The HTTP server of an extender: verbs, health and metrics on one port.

Owns the listener, TLS, the routing of paths and draining. The verbs are in verbs.
Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go (the protocol); health pages as
staging/src/k8s.io/apiserver/pkg/server/healthz
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.extender.server.http_connections import HttpServer, Limits
from kubesched.extender.server.verbs import VERBS, ExtenderVerbs, VerbResult
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.metrics.exposition import Exposed
from kubesched.metrics.process import SliMetrics
from kubesched.ops.client_certificates import Trust
from kubesched.ops.http_messages import JSON, PathMux, Request, Response, error_response, not_found
from kubesched.ops.metric_pages import metrics_handler
from kubesched.ops.serving import (
    AuthenticationSettings,
    ServingSettings,
    address_of,
    listen,
    local_url,
)
from kubesched.ops.sources import HealthCheck
from kubesched.ops.status_pages import install_health
from kubesched.ops.tls import ServingTls

# Go's client closes a connection after 90 idle seconds. If the server closed it first, a call
# sent at the same moment would fail.
_LIMITS: Final = Limits(idle_s=600.0)
_PAGES: Final = ("/healthz", "/livez", "/readyz", "/metrics")


def serving_settings(
    bind_address: str = "127.0.0.1", port: int = 8888, client_ca_file: str = "", **others: Any
) -> ServingSettings:
    """Return the serving settings of an extender.

    Args:
        bind_address: The IP address to listen on.
        port: The port to listen on; 0 takes any free port.
        client_ca_file: The authorities of client certificates; clients need none if empty.
        others: Other serving settings.
    """
    return ServingSettings(
        bind_address=bind_address,
        port=port,
        shutdown_timeout_s=10.0,
        component_name="kubesched-extender",
        authentication=AuthenticationSettings(client_ca_file=client_ca_file, skip_lookup=True),
        **others,
    )


@dataclass(frozen=True, slots=True)
class ExtenderSources:
    """The parts of an extender that the server uses."""

    verbs: ExtenderVerbs
    metrics: Exposed
    clock: Clock
    log: Log
    started_s: float
    livez: Mapping[str, HealthCheck] = field(default_factory=dict)
    readyz: Mapping[str, HealthCheck] = field(default_factory=dict)


class ExtenderServer:
    """An HTTP or HTTPS server; start and stop it once."""

    def __init__(self, settings: ServingSettings, sources: ExtenderSources) -> None:
        """Build the pages; nothing is opened yet."""
        self._settings = settings
        self._sources = sources
        self._log = sources.log
        self._pages = self._mux()
        self._listener: socket.socket | None = None
        self._server: HttpServer | None = None

    def listen(self) -> None:
        """Bind the port; ServingError with the address if it is in use."""
        self._listener = listen(self._settings)

    async def start(self) -> None:
        """Start serving on the port; ServingError if a certificate cannot be used."""
        assert self._listener is not None, "it listens"
        try:
            context = await asyncio.to_thread(self._context) if is_secure(self._settings) else None
            self._server = HttpServer(self._handle, self._count_rejection, self._log, _LIMITS)
            await self._server.start(self._listener, context)
        except BaseException:
            await self.stop()
            raise
        securely = "securely " if is_secure(self._settings) else ""
        self._log.line(f"Serving {securely}on {address_of(self._listener)}")

    async def stop(self) -> None:
        """Stop listening, drain active requests, and close."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        address = address_of(listener)
        if self._server is not None:
            self._server.stop_listening()
        listener.close()
        self._log.line(f"Stopped listening on {address}")
        if self._server is not None:
            await self._server.stop(self._settings.shutdown_timeout_s)

    def _context(self) -> ssl.SSLContext:
        settings, sources = self._settings, self._sources
        trust = Trust(settings.authentication, None, clock=sources.clock, log=sources.log)
        return ServingTls(settings, trust, clock=sources.clock, log=sources.log).context

    # -- requests ---------------------------------------------------------------------------------

    def _handle(self, request: Request, body: bytes) -> Response | Awaitable[Response]:
        """Respond at once, except for bind, pages, and calls that wait for pods."""
        if request.path.startswith(_PAGES):
            return self._serve_page(request)
        verbs, method, uri = self._sources.verbs, request.method, request.uri
        verb = VERBS.get(request.path.rstrip("/").rpartition("/")[2])
        if verb is None:
            reason = f"there is no such verb: {', '.join(VERBS)} are served"
            verbs.count_rejection("unknown", reason, method=method, URI=uri)
            return not_found()
        if method != "POST":
            verbs.count_rejection(verb, "only POST is served", method=method, URI=uri)
            response = error_response("Method Not Allowed", 405)
            response.headers["Allow"] = "POST"
            return response
        if not self._is_admitted(request):
            verbs.count_rejection(verb, "the caller showed no certificate", URI=uri)
            return error_response("a client certificate is needed", 401)
        result = verbs.call(verb, body)
        return _response(result) if isinstance(result, VerbResult) else _await_response(result)

    async def _serve_page(self, request: Request) -> Response:
        if request.path.startswith("/metrics") and not self._is_admitted(request):
            return error_response("a client certificate is needed", 401)
        return await self._pages.serve(request)

    def _is_admitted(self, request: Request) -> bool:
        return not self._settings.authentication.client_ca_file or request.peer is not None

    def _count_rejection(self, remote: str, problem: str) -> None:
        self._sources.verbs.count_rejection("unknown", problem, srcIP=remote)

    def _mux(self) -> PathMux:
        sources, slis = self._sources, SliMetrics()
        mux = PathMux("kubesched-extender", sources.log)
        for path, checks in (
            ("/healthz", sources.livez),
            ("/livez", sources.livez),
            ("/readyz", sources.readyz),
        ):
            install_health(mux, path, checks, metrics=slis, log=sources.log)
        mux.handle("/metrics", metrics_handler(sources.metrics, sources.started_s))
        return mux


def is_secure(settings: ServingSettings) -> bool:
    """Return whether the server uses TLS."""
    return bool(settings.tls_cert_file or settings.tls_private_key_file)


def url_of(settings: ServingSettings) -> str:
    """Return the URL of an extender with these settings, for clients on this machine."""
    scheme = "https" if is_secure(settings) else "http"
    return local_url(scheme, settings.bind_address, settings.port)


async def _await_response(result: Awaitable[VerbResult]) -> Response:
    return _response(await result)


def _response(result: VerbResult) -> Response:
    if result.code == 200:
        return Response(result.body, content_type=JSON)
    return error_response(result.body.decode().rstrip("\n"), result.code)
