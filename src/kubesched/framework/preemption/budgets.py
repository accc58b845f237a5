"""Which evictions a disruption budget forbids.

Owns the rule over one node's potential victims.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
filterPodsWithPDBViolation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubesched.columns.object_store import ObjectStore
from kubesched.columns.pod_columns import BoundPod
from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.selectors import Selector, label_selector


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget as far as evictions go."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted_pods: frozenset[str]

    def covers(self, pod: BoundPod) -> bool:
        """Return whether evicting the pod takes from this budget."""
        return (
            self.namespace == pod.namespace
            and pod.name not in self.disrupted_pods
            and self.selector.matches(pod.labels)
        )


def budgets_of(store: ObjectStore[PodDisruptionBudget]) -> list[Budget]:
    """Return the budgets that can forbid anything: those whose selector says something."""
    budgets = []
    for pdb in store:
        try:
            selector = label_selector(pdb.spec.selector)
        except ValueError:
            continue  # Parity: a budget with an invalid selector matches nothing.
        if selector.is_empty or not selector.selectable:
            continue
        budgets.append(
            Budget(
                pdb.metadata.namespace or "",
                selector,
                pdb.status.disruptions_allowed,
                frozenset(pdb.status.disrupted_pods or ()),
            )
        )
    return budgets


def violating(victims: Sequence[BoundPod], budgets: Sequence[Budget]) -> list[bool]:
    """Return, for each victim in order, whether evicting all up to it breaks a budget of it."""
    left = [budget.allowed for budget in budgets]
    result = []
    for pod in victims:
        broken = False
        if pod.labels:  # A pod without labels matches no budget.
            for number, budget in enumerate(budgets):
                if budget.covers(pod):
                    left[number] -= 1
                    broken |= left[number] < 0
        result.append(broken)
    return result
