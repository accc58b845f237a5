"""Plans by template, least recently used dropped first.

Owns how long a plan lives. Never decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.kept_columns import PlanParts
from kubesched.framework.named_rows import NamedRows
from kubesched.framework.plan import Plan
from kubesched.kit.memory import budget
from kubesched.model.pod_info import PodInfo

BYTES_MAX = 128 * 1024 * 1024
PLANS_MIN = 4
# Up to here a plan is kept from the first meeting on; what takes new memory costs more to make.
FRESH_BYTES_MAX = BYTES_MAX // 3
# Measured over a default profile: verdict ids, refusals, sums and keys of a row take 13 bytes, with
# what others are added to in place of keys where others are asked to score. Each set of rows that
# fit which filters asked anew have narrowed takes 22, why no row fits 20. Followers count pods by
# row and host, and note each row's way: 24. States and the heads of columns do not depend on the
# rows.
BYTES_PER_ROW = 13
BYTES_PER_ROW_NARROWED = 22
BYTES_PER_ROW_REFUSED = 20
BYTES_PER_ROW_FOLLOWED = 24
BYTES_PER_PLAN = 8_000
MET_ONCE_MAX = 4096


class Planner:
    """The plans of one profile, for one cluster at a time.

    Many templates are met once: where there is no room left, a new plan makes way for the next new
    one, and is kept from the second meeting on. So its memory is used again at once, while the
    processor has it at hand.
    """

    def __init__(self, parts: PlanParts) -> None:
        self.parts = parts
        self.named_rows = NamedRows(parts) if parts.naming_plugin is not None else None
        """For pods that name a node; None where that has no meaning."""
        self.total_max = NODE_SCORE_MAX * sum(abs(weight) for weight in parts.weights.values())
        """How far from zero a total can be."""
        self._plans: dict[Hashable, Plan] = {}
        self._latest: Plan | None = None
        self._met_once: dict[Hashable, None] = {}
        self._new: Hashable = None
        """The template whose plan makes way for the next."""
        self._cluster: object = None
        self._bytes = 0
        """About how much memory the plans take."""

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
            changed = None
            try:
                changed = plan.follow(view)
            finally:
                if changed is None:  # Changes are told once: what broke off is of no use.
                    self._drop(key)
            if changed is not None:
                if plan is not self._latest or self._new is not None:
                    self._keep(key, plan)
                return plan, changed
        if self._new is not None:
            self._drop(self._new)
            self._new = self._latest = None
        # While there is room, a template may come again before its plan is in anybody's way.
        is_known = plan is not None or key in self._met_once
        plan = Plan(self.parts, view, pod)
        size = _bytes_of(plan)
        fresh_max = min(FRESH_BYTES_MAX, BYTES_MAX)
        if is_known or self._bytes + size <= fresh_max or len(self._plans) < PLANS_MIN:
            self._keep(key, plan)
        else:
            self._plans[key] = self._latest = plan
            self._bytes += size
            plan.counted_bytes = size
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

    def _keep(self, key: Hashable, plan: Plan) -> None:
        """Keep a plan as the most recently used, which stands last."""
        self._plans.pop(key, None)
        self._plans[key] = self._latest = plan
        size = _bytes_of(plan)
        if size != plan.counted_bytes:
            self._bytes += size - plan.counted_bytes
            plan.counted_bytes = size
        if self._met_once:
            self._met_once.pop(key, None)
        if self._new == key:
            self._new = None
        bytes_max = budget(BYTES_MAX, len(plan.rows))
        while self._bytes > bytes_max and len(self._plans) > PLANS_MIN:
            # A plan that was used once only goes first.
            self._drop(next(iter(self._plans)) if self._new is None else self._new)
            self._new = None

    def _drop(self, key: Hashable) -> None:
        plan = self._plans.pop(key, None)
        if plan is not None:
            self._bytes -= plan.counted_bytes
            plan.counted_bytes = 0
            plan.release()


def _bytes_of(plan: Plan) -> int:
    """Return about how much memory a plan takes."""
    per_row, ranking_count = BYTES_PER_ROW, len(plan.rankings)
    if ranking_count > 1:
        per_row += BYTES_PER_ROW_NARROWED * (ranking_count - 1)
    if plan.refused is not None:
        per_row += BYTES_PER_ROW_REFUSED
    if plan.followers is not None:
        per_row += BYTES_PER_ROW_FOLLOWED
    return BYTES_PER_PLAN + per_row * len(plan.rows)
