"""The data sources of the ops server's pages.

Owns their types. Implementations are passed in.
Upstream: cmd/kube-scheduler/app/server.go newEndpointsHandler
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.metrics.exposition import Exposed
from kubesched.metrics.instruments import Measures
from kubesched.metrics.process import SliMetrics
from kubesched.metrics.serving import ServingMetrics

HealthCheck: TypeAlias = Callable[[], str | None]
"""Returns the problem, or None."""


class Requests(Protocol):
    """The API client of the server, for reviews and one ConfigMap."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        timeout_s: float | None = None,
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class StatuszInfo:
    """The content of /statusz."""

    start_time_s: float
    """Since the epoch."""
    binary_version: str = "1.36.4"
    emulation_version: str = "1.36"
    go_version: str = field(default_factory=lambda: f"python{platform.python_version()}")
    """The version of Python, under upstream's name."""
    notes: Callable[[], Mapping[str, str]] = dict
    """More lines by title, which upstream's page does not have."""


@dataclass(frozen=True, slots=True)
class OpsSources:
    """All data sources."""

    log: Log
    """/debug/flags/v sets its verbosity."""
    clock: Clock
    metrics: Exposed
    slis: SliMetrics
    configz: Callable[[], Mapping[str, Any]]
    """The current v1 KubeSchedulerConfiguration as JSON, with fields in upstream's order."""
    statusz: StatuszInfo
    healthz: Mapping[str, HealthCheck] = field(default_factory=dict)
    """By name, in order; `ping` if there is none."""
    livez: Mapping[str, HealthCheck] = field(default_factory=dict)
    readyz: Mapping[str, HealthCheck] = field(default_factory=dict)
    resource_metrics: Callable[[], Iterable[str] | None] = lambda: None
    """The content of /metrics/resources, in parts between which the event loop runs; None without
    leadership."""
    flagz: Callable[[], Mapping[str, str]] | None = None
    """All flags with their values; no /flagz if None."""
    explain: Callable[[str], bytes | None] | None = None
    """The last decision on `namespace/name` as JSON; None for an unknown pod."""
    has_statusz: bool = True
    authentication_client: Requests | None = None
    """Sends TokenReviews; tokens are ignored if None."""
    authorization_client: Requests | None = None
    """Sends SubjectAccessReviews; without it, only paths that are always allowed are served."""
    serving_metrics: ServingMetrics = field(default_factory=lambda: ServingMetrics(Measures()))
    """Metrics of the server."""
