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
# Measured over a default profile: verdict ids, refusals, raw scores and sums of a row take 16
# bytes, a ranking 24 more; sets, states and the heads of columns do not depend on the rows.
BYTES_PER_ROW = 40
BYTES_PER_PLAN = 8_000
MET_ONCE_MAX = 4096


class Planner:
    """The plans of one profile, for one cluster at a time.

    Many templates are met once: a new plan makes way for the next new one, and is kept from the
    second meeting on. So its memory is used again at once, while the processor has it at hand.
    """

    def __init__(self, parts: PlanParts) -> None:
        self.parts = parts
        self.total_max = NODE_SCORE_MAX * sum(abs(weight) for weight in parts.weights.values())
        """How far from zero a total can be."""
        self._plans: dict[Hashable, Plan] = {}
        self._latest: Plan | None = None
        self._met_once: dict[Hashable, None] = {}
        self._new: Hashable = None
        """The template whose plan makes way for the next."""
        self._cluster: object = None

    def __len__(self) -> int:
        return len(self._plans)

    def plan_for(self, view: ClusterView, pod: PodInfo) -> tuple[Plan, Sequence[int] | Rows | None]:
        """Return an up-to-date plan and the positions that changed; None for all of them.

        Raises:
            NotLocalError: Kept verdicts cannot answer for this pod.
        """
        if self._cluster is not view.identity:
            self._begin(view.identity)
        key = pod.template
        plan = self._plans.get(key)
        if plan is not None:
            changed = self._followed(key, plan, view)
            if changed is not None:
                if plan is not self._latest or self._new is not None:
                    self._keep(key, plan, view)
                return plan, changed
        if self._new is not None:
            self._drop(self._new)
            self._new = self._latest = None
        is_known = plan is not None or key in self._met_once
        plan = Plan(self.parts, view, pod)
        if is_known:
            self._keep(key, plan, view)
        else:
            self._plans[key] = self._latest = plan
            self._new = key
            self._met_once[key] = None
            if len(self._met_once) > MET_ONCE_MAX:
                del self._met_once[next(iter(self._met_once))]
        return plan, None

    def _begin(self, cluster: object) -> None:
        """Forget all of another cluster."""
        self._cluster = cluster
        for key in list(self._plans):
            self._drop(key)
        self._met_once.clear()
        self._new = self._latest = None
        self.parts.shared.clear()

    def _followed(
        self, key: Hashable, plan: Plan, view: ClusterView
    ) -> Sequence[int] | Rows | None:
        """Have a plan follow the changes, and drop it if it cannot."""
        changed = None
        try:
            changed = plan.follow(view)
        finally:
            if changed is None:  # Changes are told once: what broke off is of no use.
                self._drop(key)
        return changed

    def _keep(self, key: Hashable, plan: Plan, view: ClusterView) -> None:
        """Keep a plan as the most recently used, which stands last."""
        self._plans.pop(key, None)
        self._plans[key] = self._latest = plan
        self._met_once.pop(key, None)
        if self._new == key:
            self._new = None
        count_max = max(BYTES_MAX // (BYTES_PER_PLAN + BYTES_PER_ROW * view.row_count), 4)
        while len(self._plans) > count_max:
            self._drop(next(iter(self._plans)))

    def _drop(self, key: Hashable) -> None:
        plan = self._plans.pop(key, None)
        if plan is not None:
            plan.release()
