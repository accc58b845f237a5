"""The extension points of InterPodAffinity; the rules are in the modules of this package.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api.namespace import Namespace
from kubesched.config.types import InterPodAffinityArgs
from kubesched.config.validate_args import validate_inter_pod_affinity_args
from kubesched.framework.cluster_event import ActionType, EventResource
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.inter_pod_affinity.filtering import (
    PRE_FILTER_KEY,
    FilterPlan,
    PreFilterState,
)
from kubesched.plugins.inter_pod_affinity.hints import (
    after_node_change,
    after_pod_change,
    reads_after_pod_change,
)
from kubesched.plugins.inter_pod_affinity.incremental import (
    IncrementalPreferences,
    IncrementalTerms,
)
from kubesched.plugins.inter_pod_affinity.matching import affinity_changes
from kubesched.plugins.inter_pod_affinity.scoring import PRE_SCORE_KEY, PreScoreState, ScorePlan
from kubesched.plugins.queueing_hints import on
from kubesched.plugins.record import InTreePlugin, checked_args
from kubesched.plugins.topology_plugin import TopologyPlugin, state_not_found
from kubesched.snapshot.affinity_terms import NO_TERMS
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.term_index import TermPostings
from kubesched.snapshot.view import ClusterView, NodeTable

_READS = Reads(terms=True)
_IDLE = Reads(terms=True, idle=True)


class InterPodAffinity(TopologyPlugin):
    """Keeps pods near to, or away from, the pods that their own and existing pods' terms select."""

    name = "InterPodAffinity"
    pre_filter_key = PRE_FILTER_KEY
    pre_score_key = PRE_SCORE_KEY
    no_filter_state = state_not_found("error reading", PRE_FILTER_KEY)
    no_score_state = state_not_found("failed to read", PRE_SCORE_KEY)

    def __init__(self, args: object, handle: Handle) -> None:
        own_args = checked_args(args, InterPodAffinityArgs, validate_inter_pod_affinity_args)
        self._handle = handle
        self._hard_pod_affinity_weight = own_args.hard_pod_affinity_weight
        self._ignores_existing = own_args.ignore_preferred_terms_of_existing_pods

    def reads(self, pod: PodInfo) -> Reads | None:
        """Declare that a pod without terms that no term can match is skipped."""
        if pod.terms is not NO_TERMS:
            return None
        postings = self._handle.snapshot.counters.term_postings.follow()
        if not self._can_match(postings):
            return _IDLE
        return None if postings.candidates(pod.labels) else _READS

    def _can_match(self, postings: TermPostings) -> bool:
        """Return whether existing pods have terms that count for a pod without terms."""
        return postings.has_required_anti_affinity or self._can_add(postings)

    def _can_add(self, postings: TermPostings) -> bool:
        weighs_required = self._hard_pod_affinity_weight > 0
        return postings.has_preferred or (postings.has_required_affinity and weighs_required)

    # -- filter -------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Count the pods that required terms match, the pod's own and existing pods'."""
        if pod.terms.error:
            return unresolvable(f"parsing pod: {pod.terms.error}")
        view, terms = nodes.view, pod.terms
        concerned = bool(terms.required_affinity or terms.required_anti_affinity)
        # Most clusters have no such term, and few pods match one.
        if not concerned and not view.counters.term_postings.follow().has_required_anti_affinity:
            return SKIP
        plan = self._filter_plan(view, pod)
        if plan.is_idle:
            return SKIP
        state.write(PRE_FILTER_KEY, PreFilterState(plan))
        return None

    def _filter_plan(self, view: ClusterView, pod: PodInfo) -> FilterPlan:
        counters, key = view.counters, (self, "filter", pod.template)
        plan: FilterPlan | None = counters.kept(key)
        if plan is None or plan.namespaces_epoch != view.objects.store_of(Namespace).epoch:
            plan = FilterPlan(view, pod)
            counters.keep(key, plan, plan.nbytes)
        else:
            plan.follow(counters.topology)
        return plan

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Reject nodes that break a required term, the pod's own or an existing pod's."""
        return self._rejections(state, nodes)

    def incremental_filter(self, pod: PodInfo, view: ClusterView) -> IncrementalTerms | None:
        """Return the kept verdict of a template; None if it cannot be kept."""
        if pod.terms.error or not view.counters.keeps:
            return None
        return IncrementalTerms(self._filter_plan(view, pod), view.whole())

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
        weights = PreScoreState(self._score_plan(nodes.view, pod), counters.topology)
        if weights.is_untouched:
            return SKIP
        state.write(PRE_SCORE_KEY, weights)
        return None

    def _score_plan(self, view: ClusterView, pod: PodInfo) -> ScorePlan:
        counters, key = view.counters, (self, "score", pod.template)
        plan: ScorePlan | None = counters.kept(key)
        if plan is None or plan.namespaces_epoch != view.objects.store_of(Namespace).epoch:
            plan = ScorePlan(view, pod, self._hard_pod_affinity_weight)
            plan.weights(counters.topology)
            counters.keep(key, plan, plan.nbytes)
        return plan

    def incremental_score(self, pod: PodInfo, view: ClusterView) -> IncrementalPreferences | None:
        """Return the kept scores of a template; None if they cannot be kept."""
        if pod.terms.error or not view.counters.keeps:
            return None
        if self._ignores_existing and not _has_preferred_terms(pod):
            return IncrementalPreferences(None)
        plan = self._score_plan(view, pod)
        plan.tables(view.counters.topology)
        return IncrementalPreferences(plan)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of each node's domains."""
        return self._score_state(state).raw_scores(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Scale the scores to 0 to 100."""
        return self._score_state(state).normalized(scores)

    # -- queue --------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        pod_actions = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            on(EventResource.POD, pod_actions, after_pod_change, reads=reads_after_pod_change),
            on(EventResource.NODE, node_actions, after_node_change, reads="shape"),
        ]


def _has_preferred_terms(pod: PodInfo) -> bool:
    terms = pod.terms
    if terms.preferred_affinity or terms.preferred_anti_affinity:
        return True
    if not terms.error or pod.spec.affinity is None:
        return False
    # Terms that cannot be parsed count as well.
    wires = (pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity)
    return any(w and w.preferred_during_scheduling_ignored_during_execution for w in wires)


PLUGIN = InTreePlugin(plugin=InterPodAffinity, pod_changes=affinity_changes)
