"""The server of an extender: verbs, health and metrics on one port.

Owns the listener, TLS, which path leads where, and the end in order: who was heard is answered.
Never knows what a verb does.
Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go (the protocol); health pages as
staging/src/k8s.io/apiserver/pkg/server/healthz
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.model.process_metrics import SliMetrics
from kubesched.web.answers import Answer, error_answer, not_found
from kubesched.web.extender_verbs import BIND, VERBS, ExtenderVerbs, Said
from kubesched.web.health import install_health
from kubesched.web.http_connections import HttpServer, Limits
from kubesched.web.http_requests import HttpRequest
from kubesched.web.listener import address_of, listen
from kubesched.web.metric_pages import metrics_handler
from kubesched.web.mux import PathMux
from kubesched.web.negotiation import JSON
from kubesched.web.parts import HealthCheck, MetricPages
from kubesched.web.settings import AuthenticationSettings, ServingSettings
from kubesched.web.tls import ServingTls
from kubesched.web.trust import Trust

# Go's client drops a connection that was idle for 90 s. Were we to do so first, a call that is sent
# at that very moment would fail.
_LIMITS: Final = Limits(idle_s=600.0)
_PAGES: Final = ("/healthz", "/livez", "/readyz", "/metrics")


def serving_settings(
    bind_address: str = "127.0.0.1", port: int = 8888, client_ca_file: str = "", **given: Any
) -> ServingSettings:
    """Return where and how an extender is served.

    Args:
        bind_address: Where to listen.
        port: 0 takes any that is free.
        client_ca_file: Who signed the certificates that callers must show; none need be shown if
            empty.
        given: More of the settings.
    """
    return ServingSettings(
        bind_address=bind_address,
        port=port,
        shutdown_timeout_s=10.0,
        component_name="kubesched-extender",
        authentication=AuthenticationSettings(client_ca_file=client_ca_file, skip_lookup=True),
        **given,
    )


@dataclass(frozen=True, slots=True)
class ExtenderParts:
    """What is served."""

    verbs: ExtenderVerbs
    metrics: MetricPages
    clock: Clock
    log: Log
    started_s: float
    livez: Mapping[str, HealthCheck] = field(default_factory=dict)
    readyz: Mapping[str, HealthCheck] = field(default_factory=dict)


class ExtenderServer:
    """A server: made, started, stopped."""

    def __init__(self, settings: ServingSettings, parts: ExtenderParts) -> None:
        """Put the pages together; nothing is opened yet."""
        self._settings = settings
        self._parts = parts
        self._log = parts.log
        self._pages = self._mux()
        self._listener: socket.socket | None = None
        self._tls: ServingTls | None = None
        self._server = HttpServer(
            self._handle, log=parts.log, limits=_LIMITS, on_refusal=self._refused
        )

    @property
    def port(self) -> int:
        """Return where it listens."""
        assert self._listener is not None, "it listens"
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Return where it listens, as a caller on this machine reaches it."""
        return url_of(replace(self._settings, port=self.port))

    def listen(self) -> None:
        """Take the port; ServingError with the address if somebody else has it."""
        if self._listener is None:
            self._listener = listen(self._settings)

    async def start(self) -> None:
        """Serve from now on; ServingError if the port or a certificate does not do."""
        self.listen()
        assert self._listener is not None
        try:
            context = await asyncio.to_thread(self._context) if is_secure(self._settings) else None
            await self._server.start(self._listener, context)
        except BaseException:
            await self.stop()
            raise
        how = "securely " if is_secure(self._settings) else ""
        self._log.line(f"Serving {how}on {address_of(self._listener)}")

    async def stop(self) -> None:
        """Accept nobody any more, answer who was heard, and close."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        address = address_of(listener)
        self._server.stop_listening()
        listener.close()
        self._log.line(f"Stopped listening on {address}")
        await self._server.stop(self._settings.shutdown_timeout_s)

    def _context(self) -> ssl.SSLContext:
        serving, parts = self._settings, self._parts
        trust = Trust(serving.authentication, None, clock=parts.clock, log=parts.log)
        self._tls = ServingTls(serving, trust, clock=parts.clock, log=parts.log)
        return self._tls.context

    # -- requests ---------------------------------------------------------------------------------

    def _handle(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """Answer at once, but for binding and pages."""
        path = request.path
        if path.startswith(_PAGES):
            return self._page(request)
        verbs = self._parts.verbs
        verb = VERBS.get(path.rstrip("/").rpartition("/")[2])
        if verb is None:
            why = f"there is no such verb: {', '.join(VERBS)} are served"
            verbs.refused("unknown", why, method=request.method, URI=request.uri)
            return not_found()
        if request.method != "POST":
            verbs.refused(verb, "only POST is served", method=request.method, URI=request.uri)
            return _only_post()
        if not self._is_admitted(request):
            verbs.refused(verb, "the caller showed no certificate", URI=request.uri)
            return error_answer("a client certificate is needed", 401)
        if verb == BIND:
            return _answer_later(verbs.bind(request.body))
        said = verbs.call(verb, request.body)
        return _answer(said) if isinstance(said, Said) else _answer_later(said)

    async def _page(self, request: HttpRequest) -> Answer:
        is_public = not request.path.startswith("/metrics")
        if not is_public and not self._is_admitted(request):
            return error_answer("a client certificate is needed", 401)
        return await self._pages.serve(request.asked())

    def _is_admitted(self, request: HttpRequest) -> bool:
        return not self._settings.authentication.client_ca_file or _has_certificate(request)

    def _refused(self, remote: str, problem: str) -> None:
        self._parts.verbs.refused("unknown", problem, srcIP=remote)

    def _mux(self) -> PathMux:
        parts, slis = self._parts, SliMetrics()
        mux = PathMux("kubesched-extender", parts.log)
        for path, checks in (
            ("/healthz", parts.livez),
            ("/livez", parts.livez),
            ("/readyz", parts.readyz),
        ):
            install_health(mux, path, checks, metrics=slis, log=parts.log)
        mux.handle("/metrics", metrics_handler(parts.metrics, parts.started_s))
        return mux


def is_secure(settings: ServingSettings) -> bool:
    """Return whether TLS is spoken."""
    return bool(settings.tls_cert_file or settings.tls_private_key_file)


def url_of(settings: ServingSettings) -> str:
    """Return where settings have an extender listen, as a caller on this machine reaches it."""
    address = settings.bind_address
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(address, address)
    scheme = "https" if is_secure(settings) else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _has_certificate(request: HttpRequest) -> bool:
    tls = request.tls
    return tls is not None and bool(tls.getpeercert(binary_form=True))


def _only_post() -> Answer:
    answer = error_answer("Method Not Allowed", 405)
    answer.headers["Allow"] = "POST"
    return answer


async def _answer_later(said: Awaitable[Said]) -> Answer:
    return _answer(await said)


def _answer(said: Said) -> Answer:
    if said.code == 200:
        return Answer(said.body, content_type=JSON)
    return error_answer(said.body.decode().rstrip("\n"), said.code)
