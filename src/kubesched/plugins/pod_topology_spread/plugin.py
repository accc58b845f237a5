"""The extension points of PodTopologySpread; the rules are in the modules of this package.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kubesched.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kubesched.config.types import PodTopologySpreadArgs
from kubesched.config.validate_args import validate_pod_topology_spread_args
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads
from kubesched.framework.status import SKIP, Status, error
from kubesched.plugins.pod_topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SELECTING_STORES,
    SYSTEM_DEFAULTS,
    Constraints,
    ConstraintSource,
    spread_changes,
)
from kubesched.plugins.pod_topology_spread.filtering import PRE_FILTER_KEY, HardPlan, PreFilterState
from kubesched.plugins.pod_topology_spread.hints import (
    after_node_change,
    after_pod_change,
    is_involved,
    reads_after_node_change,
    reads_after_pod_change,
)
from kubesched.plugins.pod_topology_spread.incremental import (
    IncrementalHardSpread,
    IncrementalSoftSpread,
    TemplateConstraints,
)
from kubesched.plugins.pod_topology_spread.scoring import PRE_SCORE_KEY, PreScoreState, SoftPlan
from kubesched.plugins.queueing_hints import AnyPod, on
from kubesched.plugins.record import InTreePlugin, checked_args
from kubesched.plugins.topology_plugin import TopologyPlugin, state_not_found
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable

_IDLE = Reads(idle=True)
_IDLE_BY_DEFAULTS = Reads(objects=SELECTING_STORES, idle=True)


class PodTopologySpread(TopologyPlugin):
    """Keeps the number of matching pods even over the values of node labels."""

    name = "PodTopologySpread"
    pre_filter_key = PRE_FILTER_KEY
    pre_score_key = PRE_SCORE_KEY
    no_filter_state = state_not_found("reading", PRE_FILTER_KEY)
    no_score_state = state_not_found("error reading", PRE_SCORE_KEY)

    def __init__(self, args: object, handle: Handle) -> None:
        own_args = checked_args(args, PodTopologySpreadArgs, validate_pod_topology_spread_args)
        self._system_defaulted = own_args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._system_defaulted else own_args.default_constraints
        self._source = ConstraintSource(lambda: handle.snapshot.objects, defaults)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Declare that a pod without constraints is skipped; otherwise keep nothing."""
        if pod.shape.spread_constraints:
            return None
        for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
            if self._source.constraints_of(pod, action):
                return None
        return _IDLE_BY_DEFAULTS if self._source.defaults else _IDLE

    # -- filter -------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Count the matching pods of every domain; skip a pod without hard constraints."""
        try:
            constraints = self._source.constraints_of(pod, DO_NOT_SCHEDULE)
        except ValueError as problem:
            return error(f"get constraints from pod: {problem}")
        if not constraints:
            return SKIP
        state.write(PRE_FILTER_KEY, PreFilterState(self._hard_plan(nodes.view, pod, constraints)))
        return None

    def _hard_plan(self, view: ClusterView, pod: PodInfo, constraints: Constraints) -> HardPlan:
        counters, key = view.counters, (self, DO_NOT_SCHEDULE, pod.template)
        plan = counters.kept(key)
        if (
            plan is None
            or plan.constraints is not constraints
            or plan.topology is not counters.topology
        ):
            plan = HardPlan(view, pod, constraints)
            counters.keep(key, plan, plan.nbytes)
        return plan

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Reject nodes that lack a topology key or would skew the spread."""
        return self._rejections(state, nodes)

    def incremental_filter(self, pod: PodInfo, view: ClusterView) -> IncrementalHardSpread | None:
        """Return the kept verdict of a template; None if it cannot be kept."""
        of_template = self._template_constraints(pod, view, DO_NOT_SCHEDULE)
        if of_template is None:
            return None
        constraints = of_template.constraints
        plan = self._hard_plan(view, pod, constraints) if constraints else None
        return IncrementalHardSpread(of_template, plan, view.whole())

    def _template_constraints(
        self, pod: PodInfo, view: ClusterView, action: str
    ) -> TemplateConstraints | None:
        if not view.counters.keeps:
            return None
        try:
            return TemplateConstraints(view, partial(self._source.constraints_of, pod, action))
        except ValueError:
            return None  # PreFilter and PreScore report it.

    # -- score --------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Count the matching pods in the feasible nodes' domains; skip without soft constraints."""
        if nodes.view.node_count == 0:
            return SKIP
        try:
            constraints = self._source.constraints_of(pod, SCHEDULE_ANYWAY)
        except ValueError as problem:
            return error(f"calculating preScoreState: {problem}")
        if not constraints:
            return SKIP
        plan = self._soft_plan(nodes.view, pod, constraints)
        state.write(PRE_SCORE_KEY, PreScoreState(plan, nodes))
        return None

    def _soft_plan(self, view: ClusterView, pod: PodInfo, constraints: Constraints) -> SoftPlan:
        counters, key = view.counters, (self, SCHEDULE_ANYWAY, pod.template)
        plan = counters.kept(key)
        if (
            plan is None
            or plan.constraints is not constraints
            or plan.topology is not counters.topology
        ):
            # Under the system's defaults a node without a zone still spreads over hosts.
            require_all = bool(pod.shape.spread_constraints) or not self._system_defaulted
            plan = SoftPlan(view, pod, constraints, require_all=require_all)
            counters.keep(key, plan, plan.nbytes)
        return plan

    def incremental_score(self, pod: PodInfo, view: ClusterView) -> IncrementalSoftSpread | None:
        """Return the kept scores of a template; None if they cannot be kept."""
        of_template = self._template_constraints(pod, view, SCHEDULE_ANYWAY)
        if of_template is None:
            return None
        constraints = of_template.constraints
        plan = self._soft_plan(view, pod, constraints) if constraints else None
        return IncrementalSoftSpread(of_template, plan)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the weighted number of matching pods in each node's domains."""
        return self._score_state(state).raw_scores(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Scale the scores to 0 to 100; the fewest pods get 100."""
        return self._score_state(state).normalized(scores)

    # -- queue --------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        pods, nodes = EventResource.POD, EventResource.NODE
        pod_actions = (
            ActionType.ADD
            | ActionType.UPDATE_POD_LABEL
            | ActionType.UPDATE_POD_TOLERATION
            | ActionType.DELETE
        )
        node_actions = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
        )
        return [
            on(pods, pod_actions, self._after_pod_change, reads=reads_after_pod_change),
            on(nodes, node_actions, self._after_node_change, reads=reads_after_node_change),
        ]

    def _after_pod_change(
        self, pod: PodInfo, old: AnyPod | None, new: AnyPod | None
    ) -> QueueingHint:
        if not is_involved(pod, old, new):
            return QueueingHint.QUEUE_SKIP
        try:
            constraints = self._source.constraints_of(pod, DO_NOT_SCHEDULE)
        except ValueError:
            # Parity: a hint that fails has the pod tried again.
            return QueueingHint.QUEUE
        return after_pod_change(pod, constraints, old, new)

    def _after_node_change(
        self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo | None
    ) -> QueueingHint:
        try:
            constraints = self._source.constraints_of(pod, DO_NOT_SCHEDULE)
        except ValueError:
            return QueueingHint.QUEUE
        return after_node_change(constraints, old, new)


PLUGIN = InTreePlugin(
    plugin=PodTopologySpread,
    watches=(Service, ReplicationController, ReplicaSet, StatefulSet),
    pod_changes=spread_changes,
)
