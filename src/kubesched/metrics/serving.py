"""Metrics of authentication and authorization on the ops server.

Owns the list, and how a request is counted.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/metrics.go,
pkg/authentication/{authenticatorfactory,token/cache,request/x509},
pkg/authorization/authorizerfactory
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubesched.kit.clock import Clock
from kubesched.metrics.instruments import Maker, Measures, exponential_buckets

_REQUEST_BUCKETS = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_DURATION_BUCKETS = exponential_buckets(0.001, 2, 15)
# Prometheus' defaults.
_DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DAY_S = 86400.0
_EXPIRATION_BUCKETS = (
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    *(_DAY_S * days for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)


_KNOWN_NAMES = {
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
}


class ServingMetrics:
    """One attribute for each metric, by its full name."""

    def __init__(self, measures: Measures) -> None:
        make = Maker(measures)
        self._make_filters(make)
        self._make_delegated(make)
        self._make_token_cache(make)

    def observe_authentication(self, result: str, took_s: float, name: str = "") -> None:
        """Count an authentication: `success` with a user name, or `error`."""
        if result == "success":
            shown = _compressed(name)
            self.authenticated_user_requests.labels(shown).inc()
        self.authentication_attempts.labels(result).inc()
        self.authentication_duration_seconds.labels(result).observe(took_s)

    def observe_authorization(self, result: str, took_s: float) -> None:
        """Count an authorization."""
        self.authorization_attempts_total.labels(result).inc()
        self.authorization_duration_seconds.labels(result).observe(took_s)

    def observe_token_review(self, code: str, took_s: float) -> None:
        """Count one TokenReview."""
        self.apiserver_delegated_authn_request_total.labels(code).inc()
        latency = self.apiserver_delegated_authn_request_duration_seconds
        latency.labels(code).observe(took_s)

    def observe_access_review(self, code: str, took_s: float) -> None:
        """Count one SubjectAccessReview."""
        self.apiserver_delegated_authz_request_total.labels(code).inc()
        latency = self.apiserver_delegated_authz_request_duration_seconds
        latency.labels(code).observe(took_s)

    def observe_certificate(self, remaining_s: float) -> None:
        """Observe the remaining lifetime of a client certificate."""
        self.apiserver_client_certificate_expiration_seconds.observe(remaining_s)

    @contextmanager
    def token_lookup(self, clock: Clock, *, is_cached: bool) -> Iterator[None]:
        """Count a lookup in the token cache."""
        status = "hit" if is_cached else "miss"
        start_s = clock.monotonic_s()
        waiting = self.authentication_token_cache_active_fetch_count.labels("blocked")
        if not is_cached:
            waiting.inc()
        try:
            yield
        finally:
            if not is_cached:
                waiting.dec()
            self.authentication_token_cache_request_total.labels(status).inc()
            # Parity: stats.go rounds to whole milliseconds, v1.36.
            took_s = int((clock.monotonic_s() - start_s) * 1000) / 1000
            latency = self.authentication_token_cache_request_duration_seconds
            latency.labels(status).observe(took_s)

    @contextmanager
    def token_fetch(self) -> Iterator[None]:
        """Count a token review request."""
        under_way = self.authentication_token_cache_active_fetch_count.labels("in_flight")
        under_way.inc()
        status = "error"
        try:
            yield
            status = "ok"
        finally:
            under_way.dec()
            self.authentication_token_cache_fetch_total.labels(status).inc()

    def _make_filters(self, make: Maker) -> None:
        self.authenticated_user_requests = make.counter_vec(
            "authenticated_user_requests",
            "Counter of authenticated requests broken out by username.",
            "ALPHA",
            ("username",),
        )
        self.authentication_attempts = make.counter_vec(
            "authentication_attempts", "Counter of authenticated attempts.", "ALPHA", ("result",)
        )
        self.authentication_duration_seconds = make.histogram_vec(
            "authentication_duration_seconds",
            "Authentication duration in seconds broken out by result.",
            "ALPHA",
            ("result",),
            _DURATION_BUCKETS,
        )
        self.authorization_attempts_total = make.counter_vec(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result. It can be either 'allowed',"
            " 'denied', 'no-opinion' or 'error'.",
            "ALPHA",
            ("result",),
        )
        self.authorization_duration_seconds = make.histogram_vec(
            "authorization_duration_seconds",
            "Authorization duration in seconds broken out by result.",
            "ALPHA",
            ("result",),
            _DURATION_BUCKETS,
        )

    def _make_delegated(self, make: Maker) -> None:
        total = "Number of HTTP requests partitioned by status code."
        latency = "Request latency in seconds. Broken down by status code."
        self.apiserver_delegated_authn_request_total = make.counter_vec(
            "apiserver_delegated_authn_request_total", total, "ALPHA", ("code",)
        )
        self.apiserver_delegated_authn_request_duration_seconds = make.histogram_vec(
            "apiserver_delegated_authn_request_duration_seconds",
            latency,
            "ALPHA",
            ("code",),
            _REQUEST_BUCKETS,
        )
        self.apiserver_delegated_authz_request_total = make.counter_vec(
            "apiserver_delegated_authz_request_total", total, "ALPHA", ("code",)
        )
        self.apiserver_delegated_authz_request_duration_seconds = make.histogram_vec(
            "apiserver_delegated_authz_request_duration_seconds",
            latency,
            "ALPHA",
            ("code",),
            _REQUEST_BUCKETS,
        )
        self.apiserver_client_certificate_expiration_seconds = make.histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a"
            " request.",
            "ALPHA",
            _EXPIRATION_BUCKETS,
        )

    def _make_token_cache(self, make: Maker) -> None:
        # Upstream has no help texts for these.
        self.authentication_token_cache_request_duration_seconds = make.histogram_vec(
            "authentication_token_cache_request_duration_seconds",
            "",
            "ALPHA",
            ("status",),
            _DEFAULT_BUCKETS,
        )
        self.authentication_token_cache_request_total = make.counter_vec(
            "authentication_token_cache_request_total", "", "ALPHA", ("status",)
        )
        self.authentication_token_cache_fetch_total = make.counter_vec(
            "authentication_token_cache_fetch_total", "", "ALPHA", ("status",)
        )
        self.authentication_token_cache_active_fetch_count = make.gauge_vec(
            "authentication_token_cache_active_fetch_count", "", "ALPHA", ("status",)
        )


def _compressed(name: str) -> str:
    """Return a well-known name, or a class of names to limit the number of series.

    Parity: filters/metrics.go compressUsername, v1.36.
    """
    if name in _KNOWN_NAMES:
        return name
    return "email_id" if "@" in name else "other"
