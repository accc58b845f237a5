"""The ops server: pages, and the chain of filters before them.

Owns the listener, its start and end, and the order of filters: log, cache control, who asks, may
they, page. Never knows what a page shows: parts are handed in.
Upstream: cmd/kube-scheduler/app/server.go buildHandlerChain and newEndpointsHandler,
staging/src/k8s.io/apiserver/pkg/server/secure_serving.go
"""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from typing import Any

from aiohttp import web

from kubesched.client.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from kubesched.kit.rng import Generator
from kubesched.web.answers import (
    NO_SNIFF,
    Answer,
    Asked,
    compact_json,
    error_answer,
    forbidden,
    internal_error,
    unauthorized,
)
from kubesched.web.authentication import (
    AuthenticationError,
    Authenticator,
    TokenAuthenticator,
    User,
)
from kubesched.web.authorization import Authorizer
from kubesched.web.debug_pages import Profiles, explain_handler, install_flags
from kubesched.web.health import install_health
from kubesched.web.listener import address_of, listen
from kubesched.web.metric_pages import SliPages, metrics_handler, resources_handler
from kubesched.web.mux import PathMux
from kubesched.web.negotiation import JSON
from kubesched.web.parts import OpsParts
from kubesched.web.peers import peer_of
from kubesched.web.reviews import ReviewError, Reviews
from kubesched.web.serving_counts import ServingCounts
from kubesched.web.settings import ServingSettings
from kubesched.web.stand_in import StandIn
from kubesched.web.tls import ServingTls
from kubesched.web.trust import Trust
from kubesched.web.zpages import flagz_handler, statusz_handler

_KEEPALIVE_S = 90.0
_HEADER_BYTES_MAX = 1 << 20
_BACKLOG = 1024
_PANIC = "This request caused apiserver to panic. Look in the logs for details."


class OpsServer:
    """A server: made, started, stopped."""

    def __init__(self, settings: ServingSettings, parts: OpsParts) -> None:
        """Put the pages together; ServingError if the settings cannot work."""
        self._settings = settings
        self._parts = parts
        self._log = parts.log
        self._clock = parts.clock
        self._counts = ServingCounts(parts.serving_metrics, parts.clock)
        self._trust = Trust(
            settings.authentication, parts.authentication_client, clock=parts.clock, log=parts.log
        )
        self._authenticator = Authenticator(self._trust, self._tokens(), parts.clock, self._counts)
        self._authorizer = Authorizer(
            settings.authorization, self._access_reviews(), clock=parts.clock, log=parts.log
        )
        self._profiles = Profiles()
        self._mux = self._pages()
        self._listener: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self._site: web.SockSite | None = None
        self.stand_in: StandIn | None = None
        """Answers while the loop stands still; there while it serves."""

    @property
    def port(self) -> int:
        """Return where it listens."""
        assert self._listener is not None, "it listens"
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Return where it listens, as a client on this machine reaches it."""
        address = self._settings.bind_address
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(address, address)
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    def listen(self) -> None:
        """Take the port; ServingError with the address if somebody else has it.

        Nothing is accepted before start: this only fails early.
        """
        if self._listener is None:
            self._listener = listen(self._settings)

    async def start(self) -> None:
        """Serve from now on; ServingError if the port, a certificate or a lookup does not do."""
        self.listen()
        assert self._listener is not None
        settings, parts = self._settings, self._parts
        try:
            # In a thread, since making a key takes a tenth of a second; and meanwhile the cluster
            # is asked whom to trust.
            tls, _ = await asyncio.gather(
                asyncio.to_thread(
                    ServingTls, settings, self._trust, clock=parts.clock, log=parts.log
                ),
                self._trust.start(),
            )
            tls.refresh()
            self._trust.on_change = tls.refresh
            await self._serve_on(self._listener, tls)
            self.stand_in = StandIn(self._listener, tls.context)
        except BaseException:
            await self.stop()
            raise
        self._log.line(f"Serving securely on {address_of(self._listener)}")

    async def stop(self) -> None:
        """Close the listener, give what is under way its time, and close."""
        self._profiles.stop()
        await self._trust.stop()
        if self.stand_in is not None:
            self.stand_in.close()
            self.stand_in = None
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
            # Who goes away takes a profile that is being taken along.
            handler_cancellation=True,
        )
        await self._runner.setup()
        self._site = web.SockSite(self._runner, listener, ssl_context=tls.context, backlog=_BACKLOG)
        await self._site.start()

    def _pages(self) -> PathMux:
        """Return all pages.

        Parity: app/server.go newEndpointsHandler, v1.36.
        """
        parts, settings = self._parts, self._settings
        start_s = parts.statusz.start_time_s
        mux = PathMux(settings.component_name, parts.log)
        for path, checks in (
            ("/healthz", parts.healthz),
            ("/livez", parts.livez),
            ("/readyz", parts.readyz),
        ):
            install_health(mux, path, checks, metrics=parts.slis, log=parts.log)
        mux.handle("/configz", self._configz)
        mux.handle("/metrics", metrics_handler(parts.metrics, start_s))
        resources = resources_handler(parts.resource_metrics, start_s, parts.clock)
        mux.handle("/metrics/resources", resources)
        mux.handle("/metrics/slis", metrics_handler(SliPages(parts.slis), start_s))
        if settings.enable_profiling:
            self._profiles.install(mux)
            install_flags(mux, parts.log)
        if parts.explain is not None:
            mux.handle_unlisted("/debug/explain", explain_handler(parts.explain))
        if parts.flagz is not None:
            mux.handle("/flagz", flagz_handler(settings.component_name, parts.flagz, parts.log))
        if parts.has_statusz:
            name, paths = settings.component_name, mux.listed_paths
            page = statusz_handler(name, parts.statusz, paths, parts.clock, parts.log)
            mux.handle("/statusz", page)
        return mux

    async def _configz(self, asked: Asked) -> Answer:
        del asked
        body = compact_json({"componentconfig": self._parts.configz()})
        return Answer(body, content_type=JSON, headers=dict(NO_SNIFF))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        start_s = self._clock.monotonic_s()
        asked = _asked(request)
        try:
            answer = await self._answer(asked)
        except Exception as error:  # noqa: BLE001  # A page that fails must not end the scheduler.
            self._log.error(
                "apiserver panic'd", err=error, method=asked.method, URI=asked.uri, auditID=""
            )
            answer = error_answer(_PANIC, 500)
        if self._log.enabled(3):
            self._say(asked, answer, self._clock.monotonic_s() - start_s)
        return _response(answer)

    async def _answer(self, asked: Asked) -> Answer:
        """Return what a request leads to, through who asks and whether they may.

        Parity: endpoints/filters/{authentication,authorization}.go, v1.36.
        """
        user = await self._authenticated(asked)
        if user is None:
            return unauthorized(asked)
        start_s = self._clock.monotonic_s()
        result = "error"
        try:
            decision = await self._authorizer.decide(user, asked.verb, asked.path)
            result = decision.result
        except ReviewError as error:
            self._log.error("Unhandled Error", err=str(error))
            return internal_error(asked, str(error))
        finally:
            self._counts.authorization(result, self._clock.monotonic_s() - start_s)
        if decision.is_allowed:
            return await self._mux.serve(asked)
        self._log.info("Forbidden", level=4, URI=asked.uri, reason=decision.reason)
        return forbidden(asked, user.name, decision.reason)

    async def _authenticated(self, asked: Asked) -> User | None:
        start_s = self._clock.monotonic_s()
        try:
            user = await self._authenticator.user_of(asked)
        except AuthenticationError as error:
            self._counts.authentication("error", self._clock.monotonic_s() - start_s)
            self._log.error("Unable to authenticate the request", err=str(error))
            return None
        took_s = self._clock.monotonic_s() - start_s
        self._counts.authentication("success", took_s, user.name)
        return user

    def _say(self, asked: Asked, answer: Answer, took_s: float) -> None:
        """Write the line about a request.

        Parity: server/httplog/httplog.go Log, v1.36.
        """
        fields: dict[str, object] = {
            "verb": asked.method,
            "URI": asked.uri,
            "latency": timedelta(seconds=took_s),
            "userAgent": asked.headers.get("User-Agent", ""),
            "audit-ID": "",
            "srcIP": asked.remote,
            "resp": answer.code,
        }
        self._log.info("HTTP", level=3, **fields)

    def _tokens(self) -> TokenAuthenticator | None:
        parts = self._parts
        if parts.authentication_client is None:
            return None
        reviews = Reviews(
            parts.authentication_client,
            TOKEN_REVIEWS,
            clock=parts.clock,
            rng=Generator(0, "token-reviews"),
            counts=self._counts.token_review,
        )
        ttl_s = self._settings.authentication.token_cache_ttl_s
        return TokenAuthenticator(
            reviews, ttl_s=ttl_s, clock=parts.clock, log=parts.log, counts=self._counts
        )

    def _access_reviews(self) -> Reviews | None:
        parts = self._parts
        if parts.authorization_client is None:
            return None
        return Reviews(
            parts.authorization_client,
            SUBJECT_ACCESS_REVIEWS,
            clock=parts.clock,
            rng=Generator(0, "access-reviews"),
            counts=self._counts.access_review,
        )


def _asked(request: web.Request) -> Asked:
    transport = request.transport
    tls: Any = transport.get_extra_info("ssl_object") if transport else None
    remote = transport.get_extra_info("peername") if transport else None
    return Asked(
        request.method,
        request.rel_url.path,
        request.raw_path,
        request.headers,
        request.read,
        peer_of(tls),
        _remote(remote),
    )


def _remote(peer_name: Any) -> str:
    if not isinstance(peer_name, tuple):
        return ""
    host = str(peer_name[0]).removeprefix("::ffff:")
    return f"[{host}]:{peer_name[1]}" if ":" in host else f"{host}:{peer_name[1]}"


def _response(answer: Answer) -> web.Response:
    headers = {"Cache-Control": "no-cache, private", **answer.headers}
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    return web.Response(body=answer.body, status=answer.code, headers=headers)


async def _without_server(request: web.Request, response: web.StreamResponse) -> None:
    """Tell nobody what the server is made of; kube-scheduler does not either."""
    del request
    response.headers.popall("Server", None)
