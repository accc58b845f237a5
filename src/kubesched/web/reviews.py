"""Questions to the API server: whose token is this, and may they do that.

Owns the request, its retries and a memory of answers. Never decides what an answer means.
Upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/webhook.go,
plugin/pkg/authenticator/token/webhook, plugin/pkg/authorizer/webhook
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.client.errors import (
    ApiError,
    InternalServerError,
    TimeoutApiError,
    TooManyRequestsError,
    TransportError,
)
from kubesched.client.resources import Resource
from kubesched.kit.clock import Clock
from kubesched.kit.rng import Generator
from kubesched.web.parts import Requests

T = TypeVar("T")
_TIMEOUT_S = 10.0
# Parity: options/authentication.go DefaultAuthWebhookRetryBackoff, v1.36.
_DELAY_S = 0.5
_FACTOR = 1.5
_JITTER = 0.2
_STEPS = 5
_JITTER_STEPS = 1 << 20


class ReviewError(Exception):
    """The API server could not be asked, or refused to be."""


class Reviews:
    """Asks one kind of question."""

    def __init__(
        self,
        client: Requests,
        resource: Resource,
        *,
        clock: Clock,
        rng: Generator,
        counts: Callable[[str, float], None],
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._rng = rng
        self._counts = counts

    async def create(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status of a review; ReviewError with the server's words.

        Parity: webhook.go WithExponentialBackoff and DefaultShouldRetry, v1.36.
        """
        review = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "spec": spec,
        }
        body = msgspec.json.encode(review)
        deadline_s = self._clock.monotonic_s() + _TIMEOUT_S
        delay_s = _DELAY_S
        for step in range(1, _STEPS + 1):
            try:
                return await self._send(body)
            except (ApiError, TransportError) as error:
                late = self._clock.monotonic_s() + delay_s >= deadline_s
                if step == _STEPS or late or not _is_worth_retrying(error):
                    raise ReviewError(str(error)) from error
            jitter = self._rng.below(_JITTER_STEPS) / _JITTER_STEPS * _JITTER
            await self._clock.sleep(delay_s * (1 + jitter))
            delay_s *= _FACTOR
        raise AssertionError("the last step returns or raises")

    async def _send(self, body: bytes) -> dict[str, Any]:
        start_s = self._clock.monotonic_s()
        code = "<error>"
        try:
            path = self._resource.path()
            answer = await self._client.request("POST", path, body=body, timeout_s=_TIMEOUT_S)
            code = "201"
        except ApiError as error:
            code = str(error.code)
            raise
        finally:
            self._counts(code, self._clock.monotonic_s() - start_s)
        status: dict[str, Any] = msgspec.json.decode(answer).get("status") or {}
        return status


class Remembered(Generic[T]):
    """Answers for a while; who asks what is being asked already waits for that answer."""

    def __init__(self, clock: Clock, *, count_max: int) -> None:
        self._clock = clock
        self._count_max = count_max
        self._known: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Future[T]] = {}

    def get(self, key: bytes) -> T | None:
        """Return an answer that is still good."""
        found = self._known.get(key)
        if found is None:
            return None
        until_s, answer = found
        if self._clock.monotonic_s() >= until_s:
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return answer

    async def ask(
        self,
        key: bytes,
        ask: Callable[[], Awaitable[T]],
        ttl_s: Callable[[T], float],
    ) -> T:
        """Return an answer, asked for if it is not known; what the asking raises is not kept."""
        known = self.get(key)
        if known is not None:
            return known
        if (under_way := self._asking.get(key)) is not None:
            return await asyncio.shield(under_way)
        promised: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asking[key] = promised
        try:
            answer = await ask()
        except BaseException as error:
            reason = ReviewError("the request that asked was given up")
            promised.set_exception(error if isinstance(error, Exception) else reason)
            promised.exception()  # Nobody may be waiting.
            raise
        finally:
            del self._asking[key]
        promised.set_result(answer)
        self._keep(key, answer, ttl_s(answer))
        return answer

    def _keep(self, key: bytes, answer: T, ttl_s: float) -> None:
        if ttl_s <= 0:
            return
        self._known[key] = (self._clock.monotonic_s() + ttl_s, answer)
        self._known.move_to_end(key)
        while len(self._known) > self._count_max:
            self._known.popitem(last=False)


def _is_worth_retrying(error: ApiError | TransportError) -> bool:
    if isinstance(error, TransportError):
        return error.is_reset
    transient = (InternalServerError, TimeoutApiError, TooManyRequestsError)
    return isinstance(error, transient) or error.retry_after_s is not None
