"""The plugin: its extension points, each a few lines over the modules beside it.

Owns the texts of errors and what is written into an attempt's state. Never counts by itself.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.config.types import PodTopologySpreadArgs
from kubesched.config.validate_args import validate_pod_topology_spread_args
from kubesched.framework.cycle_state import CycleState, StateNotFoundError
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import SKIP, Status, StatusError, error, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text
from kubesched.plugins.pod_topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SELECTING_STORES,
    SYSTEM_DEFAULTS,
    Constraints,
    ConstraintSource,
)
from kubesched.plugins.pod_topology_spread.filtering import (
    PRE_FILTER_KEY,
    HardPlan,
    PreFilterState,
)
from kubesched.plugins.pod_topology_spread.following import Given, HardFollower, SoftFollower
from kubesched.plugins.pod_topology_spread.hints import (
    AnyPod,
    after_node_change,
    after_pod_change,
    is_involved,
    reads_after_node_change,
    reads_after_pod_change,
)
from kubesched.plugins.pod_topology_spread.scoring import (
    PRE_SCORE_KEY,
    PreScoreState,
    SoftPlan,
)

_IDLE = Reads(idle=True)
_IDLE_BY_DEFAULTS = Reads(objects=SELECTING_STORES, idle=True)


class PodTopologySpread:
    """Keeps the number of matching pods even over the values of node labels."""

    name = "PodTopologySpread"

    def __init__(self, args: object, handle: Handle) -> None:
        if not isinstance(args, PodTopologySpreadArgs):
            got = "<nil>" if args is None else "*runtime.Unknown"
            raise ValueError(f"want args to be of type PodTopologySpreadArgs, got {got}")
        problems = validate_pod_topology_spread_args(args)
        if problems:
            raise ValueError(aggregate_text(problems))
        self._system_defaulted = args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._system_defaulted else args.default_constraints
        self._source = ConstraintSource(lambda: handle.snapshot.objects, defaults)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Return that a pod without constraints is nothing to this plugin; else, ask anew."""
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
        """Refuse nodes that lack a key or would skew the spread."""
        found = _pre_filter_state(state)
        if isinstance(found, Status):
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), found)]
        return found.rejections(nodes)

    def filter_follower(self, pod: PodInfo, view: ClusterView) -> HardFollower | None:
        """Return what refuses nodes for all pods of a template; None to be asked each time."""
        given = self._given(pod, view, DO_NOT_SCHEDULE)
        if given is None:
            return None
        constraints = given.constraints
        plan = self._hard_plan(view, pod, constraints) if constraints else None
        return HardFollower(given, plan, view.whole())

    def _given(self, pod: PodInfo, view: ClusterView, action: str) -> Given | None:
        if not view.counters.keeps:
            return None
        try:
            return Given(view, partial(self._source.constraints_of, pod, action))
        except ValueError:
            return None  # Whoever asks is told.

    def add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Suppose one more pod on each node."""
        return self._shift(state, added, nodes, 1)

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Suppose one pod less on each node."""
        return self._shift(state, removed, nodes, -1)

    def _shift(
        self, state: CycleState, pods: PodRows, nodes: NodeTable, sign: int
    ) -> Status | None:
        found = _pre_filter_state(state)
        if isinstance(found, Status):
            return found
        found.shift(pods, nodes, sign)
        return None

    # -- score --------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Count the matching pods of the fitting nodes' domains; skip without soft constraints."""
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

    def score_follower(self, pod: PodInfo, view: ClusterView) -> SoftFollower | None:
        """Return what scores nodes for all pods of a template; None to be asked each time."""
        given = self._given(pod, view, SCHEDULE_ANYWAY)
        if given is None:
            return None
        constraints = given.constraints
        return SoftFollower(given, self._soft_plan(view, pod, constraints) if constraints else None)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the weighted number of matching pods near each node."""
        return _pre_score_state(state).raw_scores(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Turn the scores round."""
        return _pre_score_state(state).normalized(scores)

    # -- queue --------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events that may cure a refusal."""
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
            EventRegistration(
                ClusterEvent(EventResource.POD, pod_actions),
                self._is_schedulable_after_pod_change,
                reads=reads_after_pod_change,
            ),
            EventRegistration(
                ClusterEvent(EventResource.NODE, node_actions),
                self._is_schedulable_after_node_change,
                reads=reads_after_node_change,
            ),
        ]

    def _is_schedulable_after_pod_change(
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

    def _is_schedulable_after_node_change(
        self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo | None
    ) -> QueueingHint:
        try:
            constraints = self._source.constraints_of(pod, DO_NOT_SCHEDULE)
        except ValueError:
            return QueueingHint.QUEUE
        return after_node_change(constraints, old, new)

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Return nothing to sign, or why the pod depends on where others are."""
        if pod.shape.spread_constraints:
            return unschedulable("pods with topology constraints are not signable")
        if self._source.defaults:
            return unschedulable("pods with default topology constraints are not signable")
        return []


def _pre_filter_state(state: CycleState) -> PreFilterState | Status:
    try:
        found = state.read(PRE_FILTER_KEY)
    except StateNotFoundError as problem:
        return error(f'reading "{PRE_FILTER_KEY}" from cycleState: {problem}')
    assert isinstance(found, PreFilterState)
    return found


def _pre_score_state(state: CycleState) -> PreScoreState:
    try:
        found = state.read(PRE_SCORE_KEY)
    except StateNotFoundError as problem:
        text = f'error reading "{PRE_SCORE_KEY}" from cycleState: {problem}'
        raise StatusError(error(text)) from problem
    assert isinstance(found, PreScoreState)
    return found
