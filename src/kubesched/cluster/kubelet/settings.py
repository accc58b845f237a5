"""Settings of the kubelets.

Owns the settings and their defaults. Annotations of single pods and nodes are `annotations`'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kubesched.cluster.informers.context import ControllerContext

VERSION: Final = "v1.36.4"
_HEARTBEAT_S: Final = 10.0
_HEARTBEAT_S_MAX: Final = 30.0
_RENEWALS_PER_S: Final = 10.0
_REPORT_S: Final = 300.0
_REPORTS_PER_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Timing of pods and the addresses of the kubelets.

    Durations are those of a real cluster; `speed` divides them.
    """

    speed: float = 1.0
    """Divides all durations."""
    address: str = "127.0.0.1"
    """Address of the kubelets' HTTPS server, reported by every Node."""
    port: int = 0
    """0 selects a free port."""
    node_cidr: str = "10.200.0.0/16"
    """Range for nodes without an InternalIP."""
    pod_cidr: str = "10.64.0.0/10"
    """Range divided into blocks of 256 for nodes without a podCIDR."""
    heartbeat_s: float | None = None
    """Interval of lease renewals; None: 10 s, longer for many nodes."""
    lease_s: int = 40
    start_s: float = 0.3
    """Time that a pod's containers take to start."""
    run_s: float = 1.0
    """Run time of containers that exit by themselves, unless known otherwise."""
    stop_s: float = 1.0
    """Time that containers take to stop, at most the grace period."""
    backoff_s: float = 10.0
    """Backoff before the second restart of a container; doubled each time."""
    backoff_s_max: float = 300.0
    reconcile_s: float = 10.0
    """How long another client's change of a pod's status stays."""
    shown_max: int = 50
    """Above this many pods in transition, intermediate statuses are skipped."""
    workers: int = 16
    """Number of pods written at the same time."""
    capacity: dict[str, str] = field(
        default_factory=lambda: {
            "cpu": "4",
            "memory": "16Gi",
            "ephemeral-storage": "100Gi",
            "pods": "110",
        }
    )
    """Capacity of nodes that report none."""

    def heartbeat_every_s(self, node_count: int) -> float:
        """Return the interval of lease renewals for a number of nodes."""
        if self.heartbeat_s is not None:
            return self.heartbeat_s / self.speed
        # A node is unhealthy after 50 s without heartbeat.
        interval_s = max(_HEARTBEAT_S, node_count / _RENEWALS_PER_S)
        return min(interval_s, _HEARTBEAT_S_MAX) / self.speed

    def report_every_s(self, node_count: int) -> float:
        """Return the interval of unchanged status reports for a number of nodes."""
        # Parity: pkg/kubelet/apis/config/v1beta1/defaults.go nodeStatusReportFrequency, v1.36, for
        # small clusters: every report is delivered to all watchers of nodes.
        return max(_REPORT_S, node_count / _REPORTS_PER_S) / self.speed


Context: TypeAlias = ControllerContext[KubeletSettings]
