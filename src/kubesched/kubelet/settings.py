"""How the kubelets of a cluster behave.

Owns the settings and their defaults. Never reads an annotation: what one pod or node asks for is
wishes'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kubesched.client.cached import parts as shared

VERSION: Final = "v1.36.4"
_HEARTBEAT_S: Final = 10.0
_HEARTBEAT_S_MAX: Final = 30.0
_RENEWALS_PER_S: Final = 10.0
_REPORT_S: Final = 300.0
_REPORTS_PER_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """How pods start, run and end, and where the kubelets are reached.

    Every duration is that of a real cluster: `speed` divides it.
    """

    speed: float = 1.0
    """How many times faster than these durations everything goes."""
    address: str = "127.0.0.1"
    """Where the kubelets' HTTPS server listens, and what every Node says it is reached at."""
    port: int = 0
    """0 takes any that is free."""
    node_cidr: str = "10.200.0.0/16"
    """Where nodes that come without an InternalIP get one from."""
    pod_cidr: str = "10.64.0.0/10"
    """What is cut into a block of 256 addresses for each node that has no podCIDR."""
    heartbeat_s: float | None = None
    """How often a node's lease is renewed; None: 10 s, and more seldom for many nodes."""
    lease_s: int = 40
    start_s: float = 0.3
    """How long a pod's containers take to start."""
    run_s: float = 1.0
    """How long containers run that end by themselves, where nothing says how long."""
    stop_s: float = 1.0
    """How long containers take to end when they are told to, if their grace allows it."""
    backoff_s: float = 10.0
    """The wait before the second restart of a container; doubled each time."""
    backoff_s_max: float = 300.0
    reconcile_s: float = 10.0
    """How long a change that somebody else made to a pod's status stays."""
    shown_max: int = 50
    """How many pods may be starting or ending for the steps in between to be shown, too."""
    workers: int = 16
    """How many pods are written at a time."""
    capacity: dict[str, str] = field(
        default_factory=lambda: {
            "cpu": "4",
            "memory": "16Gi",
            "ephemeral-storage": "100Gi",
            "pods": "110",
        }
    )
    """What nodes have that say nothing of it."""

    def heartbeat_every_s(self, node_count: int) -> float:
        """Return how often each of so many nodes renews its lease."""
        if self.heartbeat_s is not None:
            return self.heartbeat_s / self.speed
        # A node is lost after 50 s without a word.
        wanted_s = max(_HEARTBEAT_S, node_count / _RENEWALS_PER_S)
        return min(wanted_s, _HEARTBEAT_S_MAX) / self.speed

    def report_every_s(self, node_count: int) -> float:
        """Return how often each of so many nodes writes its status though nothing has changed."""
        # Parity: pkg/kubelet/apis/config/v1beta1/defaults.go nodeStatusReportFrequency, v1.36, for
        # small clusters: every report wakes whoever watches nodes.
        return max(_REPORT_S, node_count / _REPORTS_PER_S) / self.speed


Parts: TypeAlias = shared.Parts[KubeletSettings]
"""What the kubelets share."""
