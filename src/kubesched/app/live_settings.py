"""What a live scheduler is told, and what it is given of the world.

Owns these values and nothing else.
Upstream: cmd/kube-scheduler/app/config/config.go, pkg/scheduler/scheduler.go (options)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubesched.client.rest import Client
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.fence import Budgets, Guard
from kubesched.framework.registry import Registry
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.plugin_metrics import PluginFaults
from kubesched.model.process_metrics import ProcessMetrics


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How to schedule."""

    config: KubeSchedulerConfiguration
    hostname: str
    out_of_tree: Registry | None = None
    is_enabled: Callable[[str], bool] = lambda _gate: True
    """Says whether a feature that this scheduler can do without is on, by the name of its gate."""
    max_in_unschedulable_s: float = 300.0
    seed: int = 0
    budgets: Budgets = field(default_factory=Budgets)
    """How long calls of plugins from outside may take."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a live scheduler is given of the world."""

    client: Client
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    measured: ProcessMetrics | None = None
    guard: Guard = field(init=False)
    """Watches over plugins from outside."""

    def __post_init__(self) -> None:
        faults = PluginFaults(self.metrics.measures)
        object.__setattr__(self, "guard", Guard(self.clock, self.log, faults))
