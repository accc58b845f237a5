"""The plugin: its extension points, each a few lines over the modules beside it.

Owns the texts of errors and what is written into an attempt's state. Never counts by itself.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.postings import TermPostings
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.config.types import InterPodAffinityArgs
from kubesched.config.validate_args import validate_inter_pod_affinity_args
from kubesched.framework.cycle_state import CycleState, StateNotFoundError
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import (
    SKIP,
    Status,
    StatusError,
    error,
    unresolvable,
    unschedulable,
)
from kubesched.model.affinity_terms import NO_TERMS
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text
from kubesched.plugins.inter_pod_affinity.filtering import (
    PRE_FILTER_KEY,
    FilterPlan,
    PreFilterState,
)
from kubesched.plugins.inter_pod_affinity.following import PreferredFollower, RequiredFollower
from kubesched.plugins.inter_pod_affinity.hints import (
    after_node_change,
    after_pod_change,
    reads_after_pod_change,
)
from kubesched.plugins.inter_pod_affinity.scoring import (
    PRE_SCORE_KEY,
    PreScoreState,
    ScorePlan,
)

LABELS_SIGNER = "v1.Pod.Labels"
_READS = Reads(terms=True)
_IDLE = Reads(terms=True, idle=True)


class InterPodAffinity:
    """Keeps pods near to, or away from, the pods their terms and those of others name."""

    name = "InterPodAffinity"

    def __init__(self, args: object, handle: Handle) -> None:
        if not isinstance(args, InterPodAffinityArgs):
            got = "<nil>" if args is None else "*runtime.Unknown"
            raise ValueError(f"want args to be of type InterPodAffinityArgs, got {got}")
        problems = validate_inter_pod_affinity_args(args)
        if problems:
            raise ValueError(aggregate_text(problems))
        self._handle = handle
        self._hard_pod_affinity_weight = args.hard_pod_affinity_weight
        self._ignores_existing = args.ignore_preferred_terms_of_existing_pods

    def reads(self, pod: PodInfo) -> Reads | None:
        """Return that nothing is read by a pod without terms whom no term can match."""
        if pod.terms is not NO_TERMS:
            return None
        postings = self._handle.snapshot.counters.term_postings.follow()
        if not self._can_match(postings):
            return _IDLE
        return None if postings.candidates(pod.labels) else _READS

    def _can_match(self, postings: TermPostings) -> bool:
        """Return whether existing pods have terms that count for a pod which has none."""
        return postings.has_required_anti_affinity or self._can_add(postings)

    def _can_add(self, postings: TermPostings) -> bool:
        weighs_required = self._hard_pod_affinity_weight > 0
        return postings.has_preferred or (postings.has_required_affinity and weighs_required)

    # -- filter -------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Count the pods that required terms speak of, from either side."""
        if pod.terms.error:
            return unresolvable(f"parsing pod: {pod.terms.error}")
        view, terms = nodes.view, pod.terms
        concerned = bool(terms.required_affinity or terms.required_anti_affinity)
        # Most clusters have no such term, and most pods are none of theirs.
        if not concerned and not view.counters.term_postings.follow().has_required_anti_affinity:
            return SKIP
        found = PreFilterState(self._filter_plan(view, pod))
        if found.is_idle:
            return SKIP
        state.write(PRE_FILTER_KEY, found)
        return None

    def _filter_plan(self, view: ClusterView, pod: PodInfo) -> FilterPlan:
        counters, key = view.counters, (self, "filter", pod.template)
        plan: FilterPlan | None = counters.kept(key)
        if plan is None or plan.namespaces_epoch != view.objects.namespaces.epoch:
            plan = FilterPlan(view, pod)
            counters.keep(key, plan, plan.byte_count)
        else:
            plan.follow(counters.topology)
        return plan

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes that break a required term, the pod's own or an existing pod's."""
        found = _pre_filter_state(state)
        if isinstance(found, Status):
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), found)]
        return found.rejections(nodes)

    def filter_follower(self, pod: PodInfo, view: ClusterView) -> RequiredFollower | None:
        """Return what refuses nodes for all pods of a template; None to be asked each time."""
        if pod.terms.error or not view.counters.keeps:
            return None
        return RequiredFollower(self._filter_plan(view, pod), view.whole())

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
        """Weigh the domains by preferred terms, the pod's own and those of existing pods."""
        # Parity: interpodaffinity/scoring.go PreScore, v1.36.
        if self._ignores_existing and not _has_preferred_terms(pod):
            return SKIP
        if pod.terms.error:
            return error(f"failed to parse pod: {pod.terms.error}")
        counters, terms = nodes.view.counters, pod.terms
        prefers = terms.preferred_affinity or terms.preferred_anti_affinity
        if not prefers and not self._can_add(counters.term_postings.follow()):
            return SKIP
        found = PreScoreState(self._score_plan(nodes.view, pod), counters.topology)
        if found.is_untouched:
            return SKIP
        state.write(PRE_SCORE_KEY, found)
        return None

    def _score_plan(self, view: ClusterView, pod: PodInfo) -> ScorePlan:
        counters, key = view.counters, (self, "score", pod.template)
        plan: ScorePlan | None = counters.kept(key)
        if plan is None or plan.namespaces_epoch != view.objects.namespaces.epoch:
            plan = ScorePlan(view, pod, self._hard_pod_affinity_weight)
            plan.weights(counters.topology)
            counters.keep(key, plan, plan.byte_count)
        return plan

    def score_follower(self, pod: PodInfo, view: ClusterView) -> PreferredFollower | None:
        """Return what scores nodes for all pods of a template; None to be asked each time."""
        if pod.terms.error or not view.counters.keeps:
            return None
        skips = self._ignores_existing and not _has_preferred_terms(pod)
        if skips:
            return PreferredFollower(None)
        plan = self._score_plan(view, pod)
        plan.tables(view.counters.topology)
        return PreferredFollower(plan)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of each node's domains."""
        return _pre_score_state(state).raw_scores(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Stretch the scores from 0 to 100."""
        return _pre_score_state(state).normalized(scores)

    # -- queue --------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events that may cure a refusal."""
        pod_actions = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            EventRegistration(
                ClusterEvent(EventResource.POD, pod_actions),
                after_pod_change,
                reads=reads_after_pod_change,
            ),
            EventRegistration(
                ClusterEvent(EventResource.NODE, node_actions), after_node_change, reads="shape"
            ),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Return the labels, or why the pod depends on where others are."""
        if pod.terms.declared:
            return unschedulable("pods with InterPodAffinity are not signable")
        # Without preferred terms of existing pods the labels have nothing to say.
        if self._ignores_existing:
            return []
        return [SignFragment(LABELS_SIGNER, dict(pod.labels))]


def _has_preferred_terms(pod: PodInfo) -> bool:
    terms = pod.terms
    if terms.preferred_affinity or terms.preferred_anti_affinity:
        return True
    if not terms.error or pod.spec.affinity is None:
        return False
    # Terms that did not parse are there all the same.
    wires = (pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity)
    return any(w and w.preferred_during_scheduling_ignored_during_execution for w in wires)


def _pre_filter_state(state: CycleState) -> PreFilterState | Status:
    try:
        found = state.read(PRE_FILTER_KEY)
    except StateNotFoundError as problem:
        return error(f'error reading "{PRE_FILTER_KEY}" from cycleState: {problem}')
    assert isinstance(found, PreFilterState)
    return found


def _pre_score_state(state: CycleState) -> PreScoreState:
    try:
        found = state.read(PRE_SCORE_KEY)
    except StateNotFoundError as problem:
        text = f'failed to read "{PRE_SCORE_KEY}" from cycleState: {problem}'
        raise StatusError(error(text)) from problem
    assert isinstance(found, PreScoreState)
    return found
