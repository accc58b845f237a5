"""The ops server: health, metrics and debug pages behind a chain of filters.

Owns the listener, start and stop, and the order of filters: log, cache control, authentication,
authorization, page. The content of pages is in other modules.
Upstream: cmd/kube-scheduler/app/server.go buildHandlerChain and newEndpointsHandler,
staging/src/k8s.io/apiserver/pkg/server/secure_serving.go
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from datetime import timedelta

from aiohttp import web

from kubesched.client.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from kubesched.kit.rng import RandomStream
from kubesched.ops.authentication import (
    AuthenticationError,
    Authenticator,
    TokenAuthenticator,
    User,
)
from kubesched.ops.authorization import Authorizer
from kubesched.ops.client_certificates import Trust
from kubesched.ops.debug_pages import Profiles, explain_handler, install_flags
from kubesched.ops.fallback import FallbackResponder
from kubesched.ops.http_messages import (
    JSON,
    NO_SNIFF,
    PathMux,
    Request,
    Response,
    compact_json,
    error_response,
    forbidden,
    internal_error,
    unauthorized,
)
from kubesched.ops.metric_pages import metrics_handler, resources_handler
from kubesched.ops.reviews import ReviewError, Reviews
from kubesched.ops.serving import ServingSettings, address_of, listen, local_url
from kubesched.ops.sources import OpsSources, Requests
from kubesched.ops.status_pages import flagz_handler, install_health, statusz_handler
from kubesched.ops.tls import ServingTls

_KEEPALIVE_S = 90.0
_HEADER_BYTES_MAX = 1 << 20
_BACKLOG = 1024
_NO_CACHE = {"Cache-Control": "no-cache, private"}
_PANIC = "This request caused apiserver to panic. Look in the logs for details."


class OpsServer:
    """An HTTPS server for the pages; start and stop it once."""

    def __init__(self, settings: ServingSettings, sources: OpsSources) -> None:
        """Build the pages; ServingError for invalid settings."""
        self._settings = settings
        self._sources = sources
        self._log = sources.log
        self._clock = sources.clock
        self._metrics = sources.serving_metrics
        self._trust = Trust(
            settings.authentication,
            sources.authentication_client,
            clock=sources.clock,
            log=sources.log,
        )
        self._authenticator = Authenticator(
            self._trust, self._tokens(), sources.clock, self._metrics
        )
        self._authorizer = Authorizer(
            settings.authorization, self._access_reviews(), clock=sources.clock, log=sources.log
        )
        self._profiles = Profiles()
        self._mux = self._pages()
        self._listener: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self._site: web.SockSite | None = None
        self.fallback: FallbackResponder | None = None
        """Responds while the event loop is blocked; None unless the server is running."""

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        assert self._listener is not None, "it listens"
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Return the URL for clients on this machine."""
        return local_url("https", self._settings.bind_address, self.port)

    def listen(self) -> None:
        """Bind the port; ServingError with the address if it is in use.

        Connections are accepted from start on: this only fails early.
        """
        if self._listener is None:
            self._listener = listen(self._settings)

    async def start(self) -> None:
        """Start serving; ServingError if the port, a certificate or a lookup fails."""
        self.listen()
        assert self._listener is not None
        settings, sources = self._settings, self._sources
        try:
            # In a thread, since generating a key takes a tenth of a second; meanwhile the client
            # authorities are read from the cluster.
            tls, _ = await asyncio.gather(
                asyncio.to_thread(
                    ServingTls, settings, self._trust, clock=sources.clock, log=sources.log
                ),
                self._trust.start(),
            )
            tls.refresh()
            self._trust.on_change = tls.refresh
            await self._serve_on(self._listener, tls)
            self.fallback = FallbackResponder(self._listener, tls.context)
        except BaseException:
            await self.stop()
            raise
        self._log.line(f"Serving securely on {address_of(self._listener)}")

    async def stop(self) -> None:
        """Close the listener, drain active requests, and close."""
        self._profiles.stop()
        await self._trust.stop()
        if self.fallback is not None:
            self.fallback.close()
            self.fallback = None
        listener, self._listener = self._listener, None
        site, self._site = self._site, None
        if site is not None and listener is not None:
            address = address_of(listener)
            await site.stop()
            self._log.line(f"Stopped listening on {address}")
            self._log.info("[graceful-termination] secure server has stopped listening")
        if listener is not None:
            listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self._log.info("[graceful-termination] secure server is exiting")

    async def _serve_on(self, listener: socket.socket, tls: ServingTls) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_response_prepare.append(_without_server)
        self._runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            keepalive_timeout=_KEEPALIVE_S,
            max_line_size=_HEADER_BYTES_MAX,
            max_field_size=_HEADER_BYTES_MAX,
            shutdown_timeout=self._settings.shutdown_timeout_s,
            # A client that disconnects cancels its running profile.
            handler_cancellation=True,
        )
        await self._runner.setup()
        self._site = web.SockSite(self._runner, listener, ssl_context=tls.context, backlog=_BACKLOG)
        await self._site.start()

    def _pages(self) -> PathMux:
        """Return all pages.

        Parity: app/server.go newEndpointsHandler, v1.36.
        """
        sources, settings = self._sources, self._settings
        start_s = sources.statusz.start_time_s
        mux = PathMux(settings.component_name, sources.log)
        for path, checks in (
            ("/healthz", sources.healthz),
            ("/livez", sources.livez),
            ("/readyz", sources.readyz),
        ):
            install_health(mux, path, checks, metrics=sources.slis, log=sources.log)
        mux.handle("/configz", self._configz)
        mux.handle("/metrics", metrics_handler(sources.metrics, start_s))
        resources = resources_handler(sources.resource_metrics, start_s, sources.clock)
        mux.handle("/metrics/resources", resources)
        mux.handle("/metrics/slis", metrics_handler(sources.slis, start_s))
        if settings.enable_profiling:
            self._profiles.install(mux)
            install_flags(mux, sources.log)
        if sources.explain is not None:
            mux.handle_unlisted("/debug/explain", explain_handler(sources.explain))
        if sources.flagz is not None:
            mux.handle("/flagz", flagz_handler(settings.component_name, sources.flagz, sources.log))
        if sources.has_statusz:
            name, paths = settings.component_name, mux.listed_paths
            page = statusz_handler(name, sources.statusz, paths, sources.clock, sources.log)
            mux.handle("/statusz", page)
        return mux

    async def _configz(self, request: Request) -> Response:
        del request
        body = compact_json({"componentconfig": self._sources.configz()})
        return Response(body, content_type=JSON, headers=dict(NO_SNIFF))

    async def _handle(self, received: web.Request) -> web.StreamResponse:
        start_s = self._clock.monotonic_s()
        request = Request.from_aiohttp(received)
        try:
            response = await self._respond(request)
        except Exception as error:  # noqa: BLE001  # A page that fails must not end the scheduler.
            self._log.error(
                "apiserver panic'd", err=error, method=request.method, URI=request.uri, auditID=""
            )
            response = error_response(_PANIC, 500)
        if self._log.enabled(3):
            self._log_request(request, response, self._clock.monotonic_s() - start_s)
        return response.for_aiohttp(_NO_CACHE)

    async def _respond(self, request: Request) -> Response:
        """Authenticate and authorize a request, then serve its page.

        Parity: endpoints/filters/{authentication,authorization}.go, v1.36.
        """
        user = await self._authenticated(request)
        if user is None:
            return unauthorized(request)
        start_s = self._clock.monotonic_s()
        result = "error"
        try:
            decision = await self._authorizer.decide(user, request.verb, request.path)
            result = decision.result
        except ReviewError as error:
            self._log.error("Unhandled Error", err=str(error))
            return internal_error(request, str(error))
        finally:
            self._metrics.observe_authorization(result, self._clock.monotonic_s() - start_s)
        if decision.is_allowed:
            return await self._mux.serve(request)
        self._log.info("Forbidden", level=4, URI=request.uri, reason=decision.reason)
        return forbidden(request, user.name, decision.reason)

    async def _authenticated(self, request: Request) -> User | None:
        start_s = self._clock.monotonic_s()
        try:
            user = await self._authenticator.user_of(request)
        except AuthenticationError as error:
            self._metrics.observe_authentication("error", self._clock.monotonic_s() - start_s)
            self._log.error("Unable to authenticate the request", err=str(error))
            return None
        took_s = self._clock.monotonic_s() - start_s
        self._metrics.observe_authentication("success", took_s, user.name)
        return user

    def _log_request(self, request: Request, response: Response, took_s: float) -> None:
        """Log a request.

        Parity: server/httplog/httplog.go Log, v1.36.
        """
        fields: dict[str, object] = {
            "verb": request.method,
            "URI": request.uri,
            "latency": timedelta(seconds=took_s),
            "userAgent": request.headers.get("User-Agent", ""),
            "audit-ID": "",
            "srcIP": request.remote,
            "resp": response.code,
        }
        self._log.info("HTTP", level=3, **fields)

    def _tokens(self) -> TokenAuthenticator | None:
        sources = self._sources
        if sources.authentication_client is None:
            return None
        observe = self._metrics.observe_token_review
        reviews = self._reviews(sources.authentication_client, TOKEN_REVIEWS, observe)
        ttl_s = self._settings.authentication.token_cache_ttl_s
        return TokenAuthenticator(
            reviews, ttl_s=ttl_s, clock=sources.clock, log=sources.log, metrics=self._metrics
        )

    def _access_reviews(self) -> Reviews | None:
        if self._sources.authorization_client is None:
            return None
        observe = self._metrics.observe_access_review
        return self._reviews(self._sources.authorization_client, SUBJECT_ACCESS_REVIEWS, observe)

    def _reviews(
        self, client: Requests, resource: Resource, observe: Callable[[str, float], None]
    ) -> Reviews:
        rng = RandomStream(0, resource.plural)
        return Reviews(client, resource, clock=self._clock, rng=rng, observe=observe)


async def _without_server(request: web.Request, response: web.StreamResponse) -> None:
    """Hide the server software, as kube-scheduler does."""
    del request
    response.headers.popall("Server", None)
