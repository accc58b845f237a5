"""Strategy of PodDisruptionBudgets.

Upstream: pkg/apis/policy/validation/validation.go,
pkg/registry/policy/poddisruptionbudget/strategy.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import InOrder, Problem, invalid, not_supported
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector
from kubesched.cluster.apiserver.kinds.workload_rules import (
    check_counts,
    check_int_or_percent,
    check_percent_limit,
)
from kubesched.cluster.apiserver.strategy import Request, Strategy


def policy_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of the group."""
    return {("policy", "poddisruptionbudgets"): PodDisruptionBudgetStrategy()}


class PodDisruptionBudgetStrategy(Strategy):
    """Strategy of disruption budgets."""

    allows_unconditional_update = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        spec = document.get("spec") or {}
        out: list[Problem] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            # Parity: upstream prints the internal type, whose fields have no JSON names.
            internal = InOrder(
                {
                    "MinAvailable": spec["minAvailable"],
                    "Selector": spec.get("selector"),
                    "MaxUnavailable": spec["maxUnavailable"],
                    "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
                }
            )
            text = "minAvailable and maxUnavailable cannot be both set"
            out.append(invalid("spec", internal, text))
        for field in ("minAvailable", "maxUnavailable"):
            if spec.get(field) is not None:
                check_int_or_percent(spec[field], f"spec.{field}", out)
                check_percent_limit(spec[field], f"spec.{field}", out)
        check_label_selector(spec.get("selector"), "spec.selector", out)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in {"AlwaysAllow", "IfHealthyBudget"}:
            known = ["AlwaysAllow", "IfHealthyBudget"]
            out.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, known))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        out: list[Problem] = []
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        check_counts(new.get("status") or {}, counts, out)
        return out
