"""Wire structs of pod disruption budgets.

Upstream: staging/src/k8s.io/api/policy/v1/types.go
"""

from typing import ClassVar, Final

from kubesched.api.meta import KubeResource, LabelSelector
from kubesched.api.wire import Int32, Int64, Time, Wire


class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """The protected pods, and how many must stay."""

    min_available: Int32 | str | None = None
    selector: LabelSelector | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """How many pods may be evicted now."""

    observed_generation: Int64 = 0
    disrupted_pods: dict[str, Time] = {}
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0


NO_STATUS: Final = PodDisruptionBudgetStatus()
"""The status of a budget that has none; it is compared by identity."""


class PodDisruptionBudget(KubeResource, frozen=True, kw_only=True):
    """A limit on voluntary disruptions."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = NO_STATUS
