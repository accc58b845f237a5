"""Requests with rate limiting, credentials, retries and metrics.

Owns rate limiting, credentials, headers and the retries of client-go. Resources and their paths are
in rest.
Upstream: staging/src/k8s.io/client-go/rest/request.go, with_retry.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote_plus, unquote, urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict

from kubesched.client.auth.credentials import (
    AccessError,
    ClusterAccess,
    Credential,
    basic_authorization,
)
from kubesched.client.errors import ApiError, TransportError, error_of_response
from kubesched.client.http.lanes import Lane, Lanes
from kubesched.client.http.transport import HttpTransport, Outgoing, Response, Transport
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.urls import without_password

Query: TypeAlias = Mapping[str, str | int | bool]
Body: TypeAlias = bytes | Mapping[str, Any] | list[Any] | msgspec.Struct

JSON: Final = "application/json"

_RETRIES_MAX: Final = 10
_RETRY_RESET_S: Final = 1.0
# The API server times a request out after 60 s.
_LIMITS: Final = aiohttp.ClientTimeout(total=70.0, sock_connect=30.0)
_LONG_WAIT_S: Final = 0.05
_EXTRA_LONG_WAIT_S: Final = 1.0
_THROTTLED: Final = "client-side throttling, not priority and fairness"
# Bindings, other writes and events: several requests for each pod.
_HOT_LANES: Final = frozenset((Lane.BINDING, Lane.WRITE, Lane.EVENT))
_NO_CODE: Final = "<error>"


class RequestMetrics(Protocol):
    """Metrics of requests; the code is `<error>` without a response."""

    def observe_request(self, verb: str, host: str, code: str, seconds: float) -> None:
        """Observe a request: the last code, and the time with rate limiting and retries."""

    def count_answer(self, verb: str, host: str, code: str) -> None:
        """Count a response that is retried, or the opening of a stream."""

    def observe_retry(self, verb: str, host: str, code: str) -> None:
        """Count a response to a retry."""

    def observe_rate_limiter(self, verb: str, host: str, seconds: float) -> None:
        """Observe the delay by the rate limit."""

    def observe_sizes(self, verb: str, host: str, request_bytes: int, response_bytes: int) -> None:
        """Observe the sizes of both bodies."""


@dataclass(slots=True)
class _Try:
    """A request and the state of its retries."""

    method: str
    target: str
    body: bytes | None
    content_type: str
    lane: Lane
    began_s: float
    turn_s: float
    """When the rate limit admitted it."""
    deadline_s: float | None
    count: int = 0
    credential: Credential | None = None
    is_renewed: bool = False
    """Whether it was retried with another credential after a 401."""


OnForbidden: TypeAlias = Callable[[str, str, ApiError], None]
"""Called with the method (or WATCH), the path and the error of every 403."""


class RestClient:
    """Sends requests with its own rate limit."""

    def __init__(  # noqa: PLR0913  # Dependencies, keyword-only.
        self,
        access: ClusterAccess,
        *,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str,
        clock: Clock,
        log: Log,
        metrics: RequestMetrics | None = None,
        transport: Transport | None = None,
        on_forbidden: OnForbidden | None = None,
        logs_warnings: bool = True,
    ) -> None:
        """Create a client; it connects with the first request.

        Args:
            access: The server and the credentials.
            qps: Requests per second; no limit below 0.
            burst: The burst of requests.
            user_agent: The User-Agent header.
            clock: The clock.
            log: The log.
            metrics: Metrics of requests.
            transport: The transport, which the caller closes; a new one if None.
            on_forbidden: Called for every missing right.
            logs_warnings: Whether to log warnings of the server; controllers write deprecated
                kinds on purpose.
        """
        self.access = access
        self.user_agent = user_agent
        self.on_forbidden = on_forbidden
        self._owns_transport = transport is None
        self._transport = transport or HttpTransport(access, clock)
        self._pace = (qps, burst)
        self._lanes = Lanes(qps=qps, burst=burst, clock=clock)
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._logs_warnings = logs_warnings
        parts = urlsplit(access.server)
        # Neither metrics nor log lines show a password.
        self._host = parts.netloc.rpartition("@")[2]
        self._shown_server = without_password(access.server)
        # Parity: Go's net/http/client.go send: used without another credential.
        self._basic = ""
        if parts.username or parts.password:
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            self._basic = basic_authorization(user, password)
        self._headers: dict[str, CIMultiDict[str]] = {}
        self._headers_of: Credential | None = None
        self._logged_s = float("-inf")

    async def close(self) -> None:
        """Reject waiting requests, and close the connections if this client opened them."""
        await self._lanes.close()
        if self._owns_transport:
            await self._transport.close()

    async def request(  # noqa: PLR0913  # One argument for each part of a request.
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        lane: Lane = Lane.OTHER,
        timeout_s: float | None = None,
    ) -> bytes:
        """Send a request and return the body of its response; ApiError, TransportError."""
        began_s = self._clock.monotonic_s()
        if timeout_s is not None:
            query = {**(query or {}), "timeout": f"{timeout_s:g}s"}
        target = f"{path}?{encode_query(query)}" if query else path
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        if not self._lanes.try_enter(lane):
            await self._wait_turn(lane, method, target, _THROTTLED)
        turn_s = self._clock.monotonic_s()
        # Parity: rest/request.go request, v1.36: the timeout begins after rate limiting.
        deadline_s = None if timeout_s is None else turn_s + timeout_s
        attempt = _Try(method, target, body, content_type, lane, began_s, turn_s, deadline_s)
        while True:
            try:
                response, data = await self._send_once(attempt)
            except TransportError as error:
                # Parity: rest/request.go request, v1.36: GET is retried after a reset.
                wait_s = _RETRY_RESET_S if method == "GET" and error.is_reset else None
                await self._await_retry(attempt, _NO_CODE, wait_s, error)
                continue
            if 200 <= response.status <= 206:
                if self._metrics is not None:
                    self._observe(self._metrics, attempt, response, len(data))
                if self._logs_warnings and "Warning" in response.headers:
                    self._warn(response)
                return data
            api_error = self._error_of(response, data, method, path)
            wait_s = _wait_after(response)
            if response.status == 401 and await self._has_other_credential(attempt):
                wait_s = 0.0
            await self._await_retry(attempt, str(response.status), wait_s, api_error)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        idle_timeout_s: float | None = None,
        accept: str = JSON,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream without rate limiting: `async with client.stream(path) as chunks`.

        Args:
            path: The path.
            query: The query parameters.
            idle_timeout_s: Timeout without a byte; none if None.
            accept: The media type of objects.
        """
        target = f"{path}?{encode_query(query)}" if query else path
        limits = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=idle_timeout_s)
        for is_last in (False, True):
            credential = await self._credential("GET", target)
            response = await self._open_stream(target, credential, limits, accept)
            if response.status != 401 or is_last:
                break
            response.close()
            self.access.credentials.reject(credential)
        try:
            if response.status != 200:
                method = "WATCH" if query and query.get("watch") else "GET"
                raise self._error_of(response, await response.read(), method, path)
            yield response.chunks()
        finally:
            response.close()

    def _error_of(self, response: Response, data: bytes, method: str, path: str) -> ApiError:
        """Return the error of a response; report a missing right."""
        error = error_of_response(
            response.status,
            data,
            verb="GET" if method == "WATCH" else method,
            content_type=response.headers.get("Content-Type", ""),
            retry_after_s=_retry_after_s(response),
        )
        if response.status == 403 and self.on_forbidden is not None:
            self.on_forbidden(method, path, error)
        return error

    async def _open_stream(
        self, target: str, credential: Credential, limits: aiohttp.ClientTimeout, accept: str
    ) -> Response:
        code = _NO_CODE
        headers = self._headers_for(credential, "")
        if accept != JSON:
            headers = headers.copy()
            headers["Accept"] = accept
        try:
            response = await self._transport.send(
                Outgoing("GET", target, headers, None, credential, limits)
            )
            code = str(response.status)
            return response
        finally:
            if self._metrics is not None:
                self._metrics.count_answer("GET", self._host, code)

    async def _send_once(self, attempt: _Try) -> tuple[Response, bytes]:
        """Send once, and leave the lane after the whole response."""
        try:
            credential = self.access.credentials.cached()
            if credential is None:
                credential = await self._credential(attempt.method, attempt.target)
            attempt.credential = credential
            limits = _LIMITS
            if attempt.deadline_s is not None:
                left_s = max(0.001, attempt.deadline_s - self._clock.monotonic_s())
                limits = aiohttp.ClientTimeout(total=left_s)
            body = attempt.body
            headers = self._headers_for(credential, "" if body is None else attempt.content_type)
            response = await self._transport.send(
                Outgoing(
                    attempt.method,
                    attempt.target,
                    headers,
                    body,
                    credential,
                    limits,
                    attempt.lane in _HOT_LANES,
                )
            )
            return response, await response.read()
        finally:
            self._lanes.leave(attempt.lane)

    async def _credential(self, method: str, target: str) -> Credential:
        source = self.access.credentials
        try:
            return source.cached() or await source.fetch()
        except AccessError as error:
            where = f'{method.capitalize()} "{self.access.server}{target}"'
            raise TransportError(f"{where}: getting credentials: {error}") from error

    async def _has_other_credential(self, attempt: _Try) -> bool:
        """Return whether a new credential replaces the rejected one.

        Differs: client-go renews the credential for the next request, and fails this one. A request
        that was not authenticated did nothing, so that a retry is safe, ADR 10.
        """
        if attempt.is_renewed or attempt.credential is None:
            return False
        attempt.is_renewed = True
        self.access.credentials.reject(attempt.credential)
        try:
            return await self._credential(attempt.method, attempt.target) is not attempt.credential
        except TransportError as error:
            self._log.error("refreshing credentials", err=error)
            return False

    async def _await_retry(
        self, attempt: _Try, code: str, wait_s: float | None, error: ApiError | TransportError
    ) -> None:
        """Wait before a retry, or raise the error."""
        attempt.count += 1
        now_s = self._clock.monotonic_s()
        is_late = attempt.deadline_s is not None and now_s + (wait_s or 0) >= attempt.deadline_s
        is_last = wait_s is None or attempt.count > _RETRIES_MAX or is_late
        if self._metrics is not None:
            verb, host = attempt.method, self._host
            if is_last:
                self._metrics.observe_request(verb, host, code, now_s - attempt.began_s)
            else:
                self._metrics.count_answer(verb, host, code)
            if attempt.count > 1:
                self._metrics.observe_retry(verb, host, code)
        if wait_s is None or is_last:
            raise error
        self._log.info(
            "Got a Retry-After response",
            level=4,
            delay=timedelta(seconds=wait_s),
            attempt=attempt.count,
            url=self._shown_server + attempt.target,
        )
        if wait_s:
            await self._clock.sleep(wait_s)
        reason = f"retries: {attempt.count}, retry-after: {wait_s:.0f}s - retry-reason: {code}"
        await self._wait_turn(attempt.lane, attempt.method, attempt.target, reason)

    async def _wait_turn(self, lane: Lane, method: str, target: str, reason: str) -> None:
        began_s = self._clock.monotonic_s()
        await self._lanes.enter(lane)
        now_s = self._clock.monotonic_s()
        waited_s = now_s - began_s
        if waited_s <= _LONG_WAIT_S:
            return
        fields = {
            "delay": timedelta(seconds=waited_s),
            "reason": reason,
            "verb": method,
            "URL": self._shown_server + target,
        }
        self._log.info("Waited before sending request", level=3, **fields)
        if waited_s > _EXTRA_LONG_WAIT_S:
            # Parity: rest/request.go throttledLogger, v1.36: rate limited at low levels.
            level, every_s = (2, 1.0) if self._log.enabled(2) else (0, 10.0)
            if now_s - self._logged_s >= every_s:
                self._logged_s = now_s
                self._log.info("Waited before sending request", level=level, **fields)

    def _headers_for(self, credential: Credential, content_type: str) -> CIMultiDict[str]:
        """Return the headers of a request, cached per credential and content type."""
        if credential is not self._headers_of:
            self._headers.clear()
            self._headers_of = credential
        headers = self._headers.get(content_type)
        if headers is None:
            headers = CIMultiDict({"Accept": JSON, "Accept-Encoding": "identity"})
            headers.add("User-Agent", self.user_agent)
            if content_type:
                headers.add("Content-Type", content_type)
            if authorization := credential.authorization or self._basic:
                headers.add("Authorization", authorization)
            headers.extend(self.access.headers)
            self._headers[content_type] = headers
        return headers

    def _observe(
        self, metrics: RequestMetrics, attempt: _Try, response: Response, size: int
    ) -> None:
        verb, host, code = attempt.method, self._host, str(response.status)
        metrics.observe_request(verb, host, code, self._clock.monotonic_s() - attempt.began_s)
        metrics.observe_rate_limiter(verb, host, attempt.turn_s - attempt.began_s)
        metrics.observe_sizes(verb, host, len(attempt.body or b""), size)
        if attempt.count:
            metrics.observe_retry(verb, host, code)

    def _warn(self, response: Response) -> None:
        """Log a warning of the server, such as a deprecated version."""
        _, _, quoted = response.headers["Warning"].partition('"')
        text = quoted.removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")
        self._log.info(f"Warning: {text}")


def encode_query(query: Query) -> str:
    """Return the encoded query parameters."""
    return "&".join(f"{name}={quote_plus(_query_value(value))}" for name, value in query.items())


def _query_value(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _retry_after_s(response: Response) -> float | None:
    """Return the seconds of the Retry-After header; None if it is not an integer."""
    try:
        return float(int(response.headers.get("Retry-After", "")))
    except ValueError:
        return None


def _wait_after(response: Response) -> float | None:
    """Return the wait before a retry; None for no retry.

    Parity: rest/with_retry.go checkWait, v1.36.
    """
    return _retry_after_s(response) if response.status == 429 or response.status >= 500 else None
