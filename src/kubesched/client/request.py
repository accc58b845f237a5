"""One request from its turn to its answer.

Owns the pace, the credentials, the headers and the tries: what client-go sends again is sent again
here. Never knows what is asked for: rest does.
Upstream: staging/src/k8s.io/client-go/rest/request.go, with_retry.go
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote_plus, unquote, urlsplit

import aiohttp
from multidict import CIMultiDict

from kubesched.client.auth import AccessError, ClusterAccess, Credential
from kubesched.client.errors import ApiError, TransportError, error_of_answer
from kubesched.client.lanes import Lane, Lanes
from kubesched.client.transport import Answer, Outgoing, Transport
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.urls import without_password

Query: TypeAlias = Mapping[str, str | int | bool]

JSON: Final = "application/json"

_RETRIES_MAX: Final = 10
_RETRY_RESET_S: Final = 1.0
# The API server gives up on a request after 60 s, and says so.
_LIMITS: Final = aiohttp.ClientTimeout(total=70.0, sock_connect=30.0)
_LONG_WAIT_S: Final = 0.05
_EXTRA_LONG_WAIT_S: Final = 1.0
_THROTTLED: Final = "client-side throttling, not priority and fairness"
# Bindings, other writes and events: several requests for each pod.
_HOT_LANES: Final = frozenset((Lane.BINDING, Lane.WRITE, Lane.EVENT))
_NO_CODE: Final = "<error>"


class RequestMetrics(Protocol):
    """What is told of every request; the first is needed, the others are called where they are.

    `observe_request` comes once for each request with the code of its last answer and the time
    since it was asked for, its turn and its retries included; `count_answer` for every answer
    before the last and for every watch; `observe_retry` for every answer but the first;
    `observe_rate_limiter` with the time its turn took; `observe_sizes` with the bytes of both
    bodies. A code is `<error>` where there was no answer.
    """

    def observe_request(self, verb: str, host: str, code: str, seconds: float) -> None: ...


@dataclass(slots=True)
class _Hooks:
    """The methods of the metrics, bound once."""

    request: Callable[[str, str, str, float], None]
    answer: Callable[[str, str, str], None]
    retry: Callable[[str, str, str], None]
    rate_limiter: Callable[[str, str, float], None]
    sizes: Callable[[str, str, int, int], None]


@dataclass(slots=True)
class _Try:
    """What is sent, and how often it was."""

    method: str
    target: str
    body: bytes | None
    content_type: str
    lane: Lane
    began_s: float
    deadline_s: float | None
    count: int = 0
    credential: Credential | None = None
    is_renewed: bool = False
    """Whether it was sent again because the first credential was not known."""


OnForbidden: TypeAlias = Callable[[str, str, ApiError], None]
"""Told of every refusal for want of a right: the method (or WATCH), the path, what was said."""


class Requests:
    """Sends the requests of one client, at its pace."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        access: ClusterAccess,
        transport: Transport,
        lanes: Lanes,
        *,
        user_agent: str,
        clock: Clock,
        log: Log,
        metrics: RequestMetrics | None = None,
        on_forbidden: OnForbidden | None = None,
        logs_warnings: bool = True,
    ) -> None:
        self.transport = transport
        self.lanes = lanes
        self._access = access
        self._clock = clock
        self._log = log
        self._hooks = _hooks_of(metrics) if metrics is not None else None
        self._on_forbidden = on_forbidden
        self._logs_warnings = logs_warnings
        parts = urlsplit(access.server)
        # Neither metrics nor lines show a password.
        self._host = parts.netloc.rpartition("@")[2]
        self._shown_server = without_password(access.server)
        self._basic = _basic_of(parts.username, parts.password)
        self._user_agent = user_agent
        self._headers: dict[str, CIMultiDict[str]] = {}
        self._headers_of: Credential | None = None
        self._said_s = float("-inf")

    async def send(  # noqa: PLR0913  # One argument for each part of a request.
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        lane: Lane = Lane.OTHER,
        timeout_s: float | None = None,
    ) -> bytes:
        """Send a request when its turn has come, again where that helps; ApiError if refused."""
        began_s = self._clock.monotonic_s()
        if timeout_s is not None:
            query = {**(query or {}), "timeout": f"{timeout_s:g}s"}
        target = f"{path}?{encode_query(query)}" if query else path
        if not self.lanes.try_enter(lane):
            await self._wait_turn(lane, method, target, _THROTTLED)
        turn_s = self._clock.monotonic_s()
        # Parity: rest/request.go request, v1.36: the timeout begins when the first turn has come.
        deadline_s = None if timeout_s is None else turn_s + timeout_s
        tried = _Try(method, target, body, content_type, lane, began_s, deadline_s)
        while True:
            try:
                answer, data = await self._attempt(tried)
            except TransportError as error:
                await self._await_retry(tried, _NO_CODE, _wait_after_error(method, error), error)
                continue
            if 200 <= answer.status <= 206:
                if self._hooks is not None:
                    self._observe(tried, str(answer.status), turn_s - began_s, len(data))
                if self._logs_warnings and "Warning" in answer.headers:
                    self._warn(answer)
                return data
            refused = self._refused(answer, data, method, path)
            code = str(answer.status)
            if answer.status == 401 and await self._has_other_credential(tried):
                await self._await_retry(tried, code, 0.0, refused)
            else:
                await self._await_retry(tried, code, _wait_after_answer(answer), refused)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        idle_timeout_s: float | None = None,
        accept: str = JSON,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its bytes as they come; never throttled, never opened twice.

        Args:
            path: What is watched.
            query: The parameters.
            idle_timeout_s: After how long without a byte it is given up; never if None.
            accept: In which form objects are to come.
        """
        target = f"{path}?{encode_query(query)}" if query else path
        limits = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=idle_timeout_s)
        for is_last in (False, True):
            credential = await self._credential("GET", target)
            answer = await self._open_stream(target, credential, limits, accept)
            if answer.status != 401 or is_last:
                break
            answer.close()
            self._access.credentials.reject(credential)
        try:
            if answer.status != 200:
                method = "WATCH" if query and query.get("watch") else "GET"
                raise self._refused(answer, await answer.read(), method, path)
            yield answer.chunks()
        finally:
            answer.close()

    def _refused(self, answer: Answer, data: bytes, method: str, path: str) -> ApiError:
        """Return what a refusal says, having told whoever watches over our rights."""
        refused = _refusal(answer, data, "GET" if method == "WATCH" else method)
        if answer.status == 403 and self._on_forbidden is not None:
            self._on_forbidden(method, path, refused)
        return refused

    async def _open_stream(
        self, target: str, credential: Credential, limits: aiohttp.ClientTimeout, accept: str
    ) -> Answer:
        code = _NO_CODE
        headers = self._headers_for(credential, "")
        if accept != JSON:
            headers = headers.copy()
            headers["Accept"] = accept
        try:
            answer = await self.transport.send(
                Outgoing("GET", target, headers, None, credential, limits)
            )
            code = str(answer.status)
            return answer
        finally:
            if self._hooks is not None:
                self._hooks.answer("GET", self._host, code)

    async def _attempt(self, tried: _Try) -> tuple[Answer, bytes]:
        """Send once; the turn is over when the answer is whole."""
        try:
            credential = self._access.credentials.cached()
            if credential is None:
                credential = await self._credential(tried.method, tried.target)
            tried.credential = credential
            limits = _LIMITS
            if tried.deadline_s is not None:
                left_s = max(0.001, tried.deadline_s - self._clock.monotonic_s())
                limits = aiohttp.ClientTimeout(total=left_s)
            body = tried.body
            headers = self._headers_for(credential, "" if body is None else tried.content_type)
            answer = await self.transport.send(
                Outgoing(
                    tried.method,
                    tried.target,
                    headers,
                    body,
                    credential,
                    limits,
                    tried.lane in _HOT_LANES,
                )
            )
            return answer, await answer.read()
        finally:
            self.lanes.leave(tried.lane)

    async def _credential(self, method: str, target: str) -> Credential:
        source = self._access.credentials
        try:
            return source.cached() or await source.fetch()
        except AccessError as error:
            where = f'{method.capitalize()} "{self._access.server}{target}"'
            raise TransportError(f"{where}: getting credentials: {error}") from error

    async def _has_other_credential(self, tried: _Try) -> bool:
        """Return whether there is another credential than the one that was not known.

        Differs: client-go has the credential renewed for the next request and gives up this one;
        nothing was done by a request that was not known, so that it can be sent again, ADR 10.
        """
        if tried.is_renewed or tried.credential is None:
            return False
        tried.is_renewed = True
        self._access.credentials.reject(tried.credential)
        try:
            return await self._credential(tried.method, tried.target) is not tried.credential
        except TransportError as error:
            self._log.error("refreshing credentials", err=error)
            return False

    async def _await_retry(
        self, tried: _Try, code: str, wait_s: float | None, error: ApiError | TransportError
    ) -> None:
        """Wait until it can be sent again, or raise what went wrong."""
        hooks = self._hooks
        tried.count += 1
        now_s = self._clock.monotonic_s()
        is_late = tried.deadline_s is not None and now_s + (wait_s or 0) >= tried.deadline_s
        if wait_s is None or tried.count > _RETRIES_MAX or is_late:
            if hooks is not None:
                hooks.request(tried.method, self._host, code, now_s - tried.began_s)
                if tried.count > 1:
                    hooks.retry(tried.method, self._host, code)
            raise error
        if hooks is not None:
            hooks.answer(tried.method, self._host, code)
            if tried.count > 1:
                hooks.retry(tried.method, self._host, code)
        self._log.info(
            "Got a Retry-After response",
            level=4,
            delay=timedelta(seconds=wait_s),
            attempt=tried.count,
            url=self._shown_server + tried.target,
        )
        if wait_s:
            await self._clock.sleep(wait_s)
        reason = f"retries: {tried.count}, retry-after: {wait_s:.0f}s - retry-reason: {code}"
        await self._wait_turn(tried.lane, tried.method, tried.target, reason)

    async def _wait_turn(self, lane: Lane, method: str, target: str, reason: str) -> None:
        began_s = self._clock.monotonic_s()
        await self.lanes.enter(lane)
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
            # Parity: rest/request.go throttledLogger, v1.36: seldom at the levels that many read.
            level, every_s = (2, 1.0) if self._log.enabled(2) else (0, 10.0)
            if now_s - self._said_s >= every_s:
                self._said_s = now_s
                self._log.info("Waited before sending request", level=level, **fields)

    def _headers_for(self, credential: Credential, content_type: str) -> CIMultiDict[str]:
        """Return the headers of a request; made once for each credential and type of body."""
        if credential is not self._headers_of:
            self._headers.clear()
            self._headers_of = credential
        headers = self._headers.get(content_type)
        if headers is None:
            headers = CIMultiDict(
                [
                    ("Accept", JSON),
                    ("Accept-Encoding", "identity"),
                    ("User-Agent", self._user_agent),
                ]
            )
            if content_type:
                headers.add("Content-Type", content_type)
            if authorization := credential.authorization or self._basic:
                headers.add("Authorization", authorization)
            headers.extend(self._access.headers)
            self._headers[content_type] = headers
        return headers

    def _observe(self, tried: _Try, code: str, turn_s: float, size: int) -> None:
        hooks = self._hooks
        assert hooks is not None
        verb, host = tried.method, self._host
        hooks.request(verb, host, code, self._clock.monotonic_s() - tried.began_s)
        hooks.rate_limiter(verb, host, turn_s)
        hooks.sizes(verb, host, len(tried.body or b""), size)
        if tried.count:
            hooks.retry(verb, host, code)

    def _warn(self, answer: Answer) -> None:
        """Log what the server warns of: a deprecated version, an odd field."""
        _, _, quoted = answer.headers["Warning"].partition('"')
        text = quoted.removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")
        self._log.info(f"Warning: {text}")


def _basic_of(user: str | None, password: str | None) -> str:
    """Return the header that says who is named in an address; empty for nobody."""
    # Parity: Go's net/http/client.go send: it counts where nothing else says who we are.
    if not user and not password:
        return ""
    pair = f"{unquote(user or '')}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def encode_query(query: Query) -> str:
    """Return the parameters of a request as they stand in its address."""
    return "&".join(f"{name}={quote_plus(_shown(value))}" for name, value in query.items())


def _shown(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refusal(answer: Answer, data: bytes, method: str) -> ApiError:
    return error_of_answer(
        answer.status,
        data,
        verb=method,
        content_type=answer.headers.get("Content-Type", ""),
        retry_after_s=_retry_after_s(answer),
    )


def _retry_after_s(answer: Answer) -> float | None:
    """Return the seconds of the Retry-After header; None where there is no whole number."""
    try:
        return float(int(answer.headers.get("Retry-After", "")))
    except ValueError:
        return None


def _wait_after_answer(answer: Answer) -> float | None:
    """Return how long to wait before sending again; None for never.

    Parity: rest/with_retry.go checkWait, v1.36.
    """
    return _retry_after_s(answer) if answer.status == 429 or answer.status >= 500 else None


def _wait_after_error(method: str, error: TransportError) -> float | None:
    """Return how long to wait before sending again where there was no answer; None for never.

    Parity: rest/request.go request, v1.36: reading is tried again when a connection was cut.
    """
    return _RETRY_RESET_S if method == "GET" and error.is_reset else None


def _hooks_of(metrics: RequestMetrics) -> _Hooks:
    def hook(name: str) -> Callable[..., None]:
        found: Callable[..., None] = getattr(metrics, name, _ignore)
        return found

    return _Hooks(
        request=metrics.observe_request,
        answer=hook("count_answer"),
        retry=hook("observe_retry"),
        rate_limiter=hook("observe_rate_limiter"),
        sizes=hook("observe_sizes"),
    )


def _ignore(*_: Any) -> None:
    """Do nothing, for what the metrics do not keep."""
