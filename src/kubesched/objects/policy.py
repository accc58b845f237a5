"""Disruption budgets.

Owns PodDisruptionBudget. Never counts disruptions: preemption does.
Upstream: staging/src/k8s.io/api/policy/v1/types.go
"""

from typing import ClassVar, Final

from kubesched.objects.meta import KubeResource, LabelSelector
from kubesched.objects.wire import Int32, Int64, Time, Wire


class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """Which pods are guarded, and how many of them."""

    min_available: Int32 | str | None = None
    selector: LabelSelector | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """How many pods may go now."""

    observed_generation: Int64 = 0
    disrupted_pods: dict[str, Time] = {}
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0


NO_STATUS: Final = PodDisruptionBudgetStatus()
"""Of a budget that says nothing of it, which is not a budget that says zero."""


class PodDisruptionBudget(KubeResource, frozen=True, kw_only=True):
    """A limit to voluntary disruption."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = NO_STATUS
