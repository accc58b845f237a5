"""What the server counts of those who ask it.

Owns how a request is counted. Never shows a number: model has the metrics.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/metrics.go,
authentication/token/cache/stats.go
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubesched.kit.clock import Clock
from kubesched.model.serving_metrics import ServingMetrics

_KNOWN_NAMES = {
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
}


class ServingCounts:
    """Counts."""

    def __init__(self, metrics: ServingMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    def authentication(self, result: str, took_s: float, name: str = "") -> None:
        """Count one answer to who asks: `success` with a name, or `error`."""
        if result == "success":
            shown = _compressed(name)
            self._metrics.authenticated_user_requests.labels(shown).inc()
        self._metrics.authentication_attempts.labels(result).inc()
        self._metrics.authentication_duration_seconds.labels(result).observe(took_s)

    def authorization(self, result: str, took_s: float) -> None:
        """Count one answer to whether they may."""
        self._metrics.authorization_attempts_total.labels(result).inc()
        self._metrics.authorization_duration_seconds.labels(result).observe(took_s)

    def token_review(self, code: str, took_s: float) -> None:
        """Count one TokenReview."""
        self._metrics.apiserver_delegated_authn_request_total.labels(code).inc()
        latency = self._metrics.apiserver_delegated_authn_request_duration_seconds
        latency.labels(code).observe(took_s)

    def access_review(self, code: str, took_s: float) -> None:
        """Count one SubjectAccessReview."""
        self._metrics.apiserver_delegated_authz_request_total.labels(code).inc()
        latency = self._metrics.apiserver_delegated_authz_request_duration_seconds
        latency.labels(code).observe(took_s)

    def saw_certificate(self, remaining_s: float) -> None:
        """Count how long a client's certificate is still good."""
        self._metrics.apiserver_client_certificate_expiration_seconds.observe(remaining_s)

    @contextmanager
    def token_lookup(self, *, is_known: bool) -> Iterator[None]:
        """Count a token that is looked up, and whether it was remembered."""
        status = "hit" if is_known else "miss"
        start_s = self._clock.monotonic_s()
        waiting = self._metrics.authentication_token_cache_active_fetch_count.labels("blocked")
        if not is_known:
            waiting.inc()
        try:
            yield
        finally:
            if not is_known:
                waiting.dec()
            self._metrics.authentication_token_cache_request_total.labels(status).inc()
            # Parity: stats.go rounds to whole milliseconds, v1.36.
            took_s = int((self._clock.monotonic_s() - start_s) * 1000) / 1000
            latency = self._metrics.authentication_token_cache_request_duration_seconds
            latency.labels(status).observe(took_s)

    @contextmanager
    def token_fetch(self) -> Iterator[None]:
        """Count a token that the API server is asked about."""
        under_way = self._metrics.authentication_token_cache_active_fetch_count.labels("in_flight")
        under_way.inc()
        status = "error"
        try:
            yield
            status = "ok"
        finally:
            under_way.dec()
            self._metrics.authentication_token_cache_fetch_total.labels(status).inc()


def _compressed(name: str) -> str:
    """Return a name, or what kind of name it is: there may be too many.

    Parity: filters/metrics.go compressUsername, v1.36.
    """
    if name in _KNOWN_NAMES:
        return name
    return "email_id" if "@" in name else "other"
