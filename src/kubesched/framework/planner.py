"""Plans by template, least recently used dropped first.

Owns how long a plan lives. Never decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.kept_columns import PlanParts
from kubesched.framework.plan import Plan
from kubesched.model.pod_info import PodInfo

BYTES_MAX = 64 * 1024 * 1024
# Verdict ids, refusals, raw scores, sums and keys of one row.
BYTES_PER_ROW = 40


class Planner:
    """The plans of one profile, for one cluster at a time."""

    def __init__(self, parts: PlanParts) -> None:
        self.parts = parts
        self.total_max = NODE_SCORE_MAX * sum(abs(weight) for weight in parts.weights.values())
        """How far from zero a total can be."""
        self._plans: dict[Hashable, Plan] = {}
        self._cluster: object = None

    def __len__(self) -> int:
        return len(self._plans)

    def plan_for(self, view: ClusterView, pod: PodInfo) -> tuple[Plan, Sequence[int] | Rows | None]:
        """Return an up-to-date plan and the positions that changed; None for all of them.

        Raises:
            NotLocalError: Kept verdicts cannot answer for this pod.
        """
        if self._cluster is not view.identity:
            self._plans.clear()
            self.parts.shared.clear()
            self._cluster = view.identity
        key = pod.template
        plan = self._plans.pop(key, None)
        if plan is not None:
            changed = plan.follow(view)
            if changed is not None:
                self._plans[key] = plan  # Most recently used stands last.
                return plan, changed
        plan = Plan(self.parts, view, pod)
        self._plans[key] = plan
        self._drop_oldest(view)
        return plan, None

    def _drop_oldest(self, view: ClusterView) -> None:
        count_max = max(BYTES_MAX // (BYTES_PER_ROW * max(view.row_count, 1)), 4)
        while len(self._plans) > count_max:
            del self._plans[next(iter(self._plans))]
