"""What the ops server shows, handed in by whoever runs the scheduler.

Owns the list of it. Never knows where any of it comes from.
Upstream: cmd/kube-scheduler/app/server.go newEndpointsHandler
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.measures import Measures
from kubesched.model.process_metrics import SliMetrics
from kubesched.model.serving_metrics import ServingMetrics

HealthCheck: TypeAlias = Callable[[], str | None]
"""Returns what is wrong, or None."""


class Requests(Protocol):
    """What the server needs of an API client: reviews and one ConfigMap."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        timeout_s: float | None = None,
    ) -> bytes: ...


class MetricPages(Protocol):
    """What /metrics shows."""

    def text(self) -> str: ...
    def openmetrics(self) -> str: ...
    def reset(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StatuszInfo:
    """What /statusz says of the process."""

    start_time_s: float
    """Since the epoch."""
    binary_version: str = "1.36.4"
    emulation_version: str = "1.36"
    go_version: str = field(default_factory=lambda: f"python{platform.python_version()}")
    """Of the runtime, under the name that the page has for it."""
    notes: Callable[[], Mapping[str, str]] = dict
    """What is to be said beside, by its title; upstream's page has nothing of it."""


@dataclass(frozen=True, slots=True)
class OpsParts:
    """Everything that is shown."""

    log: Log
    """Its verbosity is what /debug/flags/v sets."""
    clock: Clock
    metrics: MetricPages
    slis: SliMetrics
    configz: Callable[[], Mapping[str, Any]]
    """The v1 KubeSchedulerConfiguration in force, as JSON, in the order of upstream's fields."""
    statusz: StatuszInfo
    healthz: Mapping[str, HealthCheck] = field(default_factory=dict)
    """By name, in order; `ping` if there is none."""
    livez: Mapping[str, HealthCheck] = field(default_factory=dict)
    readyz: Mapping[str, HealthCheck] = field(default_factory=dict)
    resource_metrics: Callable[[], str | Iterable[str] | None] = lambda: None
    """What /metrics/resources shows; in parts, so that others run in between; None while somebody
    else leads."""
    flagz: Callable[[], Mapping[str, str]] | None = None
    """Every flag with its value; no /flagz if None."""
    explain: Callable[[str], bytes | None] | None = None
    """The last decision on `namespace/name` as JSON, None for a pod that is not known."""
    has_statusz: bool = True
    authentication_client: Requests | None = None
    """Asks the API server who a token belongs to; tokens are not looked at if None."""
    authorization_client: Requests | None = None
    """Asks the API server who may do what; only what is always allowed is, if None."""
    serving_metrics: ServingMetrics = field(default_factory=lambda: ServingMetrics(Measures()))
    """Where the server counts who asked it; shown by nobody if not given."""
