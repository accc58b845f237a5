"""TokenReview and SubjectAccessReview requests to the API server, with retries and a cache.

Owns the request, its retries and the cache. Never interprets a status.
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
from kubesched.kit.rng import RandomStream
from kubesched.ops.sources import Requests

T = TypeVar("T")
_TIMEOUT_S = 10.0
# Parity: options/authentication.go DefaultAuthWebhookRetryBackoff, v1.36.
_DELAY_S = 0.5
_FACTOR = 1.5
_JITTER = 0.2
_STEPS = 5
_JITTER_STEPS = 1 << 20


class ReviewError(Exception):
    """A review failed or was rejected."""


class Reviews:
    """Sends reviews of one kind."""

    def __init__(
        self,
        client: Requests,
        resource: Resource,
        *,
        clock: Clock,
        rng: RandomStream,
        observe: Callable[[str, float], None],
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._rng = rng
        self._observe = observe

    async def create(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status of a review; ReviewError with the server's message.

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
            value = await self._client.request("POST", path, body=body, timeout_s=_TIMEOUT_S)
            code = "201"
        except ApiError as error:
            code = str(error.code)
            raise
        finally:
            self._observe(code, self._clock.monotonic_s() - start_s)
        status: dict[str, Any] = msgspec.json.decode(value).get("status") or {}
        return status


class ReviewCache(Generic[T]):
    """A cache with expiry; concurrent lookups of a key share one request."""

    def __init__(self, clock: Clock, *, count_max: int) -> None:
        self._clock = clock
        self._count_max = count_max
        self._entries: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._pending: dict[bytes, asyncio.Future[T]] = {}

    def get(self, key: bytes) -> T | None:
        """Return a value that has not expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        until_s, value = entry
        if self._clock.monotonic_s() >= until_s:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    async def fetch(
        self,
        key: bytes,
        fetch: Callable[[], Awaitable[T]],
        ttl_s: Callable[[T], float],
    ) -> T:
        """Return a value, fetched if it is not cached; exceptions are not cached."""
        cached = self.get(key)
        if cached is not None:
            return cached
        if (running := self._pending.get(key)) is not None:
            return await asyncio.shield(running)
        pending: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[key] = pending
        try:
            value = await fetch()
        except BaseException as error:
            reason = ReviewError("the request was cancelled")
            pending.set_exception(error if isinstance(error, Exception) else reason)
            pending.exception()  # Possibly without a waiter.
            raise
        finally:
            del self._pending[key]
        pending.set_result(value)
        self._keep(key, value, ttl_s(value))
        return value

    def _keep(self, key: bytes, value: T, ttl_s: float) -> None:
        if ttl_s <= 0:
            return
        self._entries[key] = (self._clock.monotonic_s() + ttl_s, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._count_max:
            self._entries.popitem(last=False)


def _is_worth_retrying(error: ApiError | TransportError) -> bool:
    if isinstance(error, TransportError):
        return error.is_reset
    transient = (InternalServerError, TimeoutApiError, TooManyRequestsError)
    return isinstance(error, transient) or error.retry_after_s is not None
