"""Plans by template, least recently used dropped first.

Owns how long a plan lives. Never decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.columns.view import ClusterView
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.plan import Plan, PlanParts
from kubesched.model.pod_info import PodInfo

BYTES_MAX = 64 * 1024 * 1024
# Measured over a default profile: verdict ids, refusals, raw scores and sums of a row take 16
# bytes, a ranking 24 more; sets, states and the heads of columns do not depend on the rows.
BYTES_PER_ROW = 40
BYTES_PER_PLAN = 8_000


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

    def plan_for(self, view: ClusterView, pod: PodInfo) -> tuple[Plan, Sequence[int] | None]:
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
        count_max = max(BYTES_MAX // (BYTES_PER_PLAN + BYTES_PER_ROW * view.row_count), 4)
        while len(self._plans) > count_max:
            del self._plans[next(iter(self._plans))]
