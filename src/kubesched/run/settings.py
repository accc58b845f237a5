"""Settings of a live scheduler, and its environment: client, clock, log, metrics.

Upstream: cmd/kube-scheduler/app/config/config.go, pkg/scheduler/scheduler.go (options)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubesched.client.rest import Client
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.sandbox.budget import Budgets, Guard
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.metrics.process import ProcessMetrics
from kubesched.metrics.scheduler import PluginFaults, SchedulerMetrics


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """The configuration of a live scheduler."""

    config: KubeSchedulerConfiguration
    hostname: str
    out_of_tree: Registry | None = None
    is_enabled: Callable[[str], bool] = lambda _gate: True
    """Returns whether a feature gate is enabled."""
    max_in_unschedulable_s: float = 300.0
    seed: int = 0
    budgets: Budgets = field(default_factory=Budgets)
    """Time limits for calls of out-of-tree plugins."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a live scheduler uses of its process: client, clock, log, metrics."""

    client: Client
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    measured: ProcessMetrics | None = None
    guard: Guard = field(init=False)
    """Enforces the limits of out-of-tree plugins."""

    def __post_init__(self) -> None:
        faults = PluginFaults(self.metrics.measures)
        object.__setattr__(self, "guard", Guard(self.clock, self.log, faults))
