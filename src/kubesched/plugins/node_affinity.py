"""Keeps pods to the nodes their node selector and node affinity allow, and prefers those they like.

Owns the filter, the score, and the affinity an administrator adds for a whole profile. Never evicts
when labels change later.
Upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.rules import is_allowed, match_term, matches_node_selector, negate
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.config.types import NodeAffinityArgs
from kubesched.config.validate_args import validate_node_affinity_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    PreFilterResult,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import SKIP, Status, StatusError, error, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.objects.affinity import NodeSelectorRequirement, NodeSelectorTerm
from kubesched.objects.field_errors import aggregate_text
from kubesched.objects.selectors import (
    NodeSelector,
    PreferredTerms,
    compile_node_selector,
    compile_preferred_terms,
    selector_from_set,
)

_PRE_SCORE_KEY = "PreScoreNodeAffinity"
_NAME_FIELD = "metadata.name"
_NOT_ALLOWED = unresolvable("node(s) didn't match Pod's node affinity/selector")
_NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT = unresolvable("pod affinity terms conflict")
_READS = Reads(nodes=True)


@dataclass(frozen=True, slots=True)
class _PreScoreState:
    preferred: PreferredTerms | None


class NodeAffinity:
    """Refuses nodes the pod or the profile does not allow, and sums the weights of preferences."""

    name = "NodeAffinity"
    same_for_family = True
    takes_rows = True
    normalizes_by_scaling = True

    def __init__(self, args: object, handle: Handle) -> None:
        if not isinstance(args, NodeAffinityArgs):
            raise ValueError(f"args are not of type NodeAffinityArgs, got {_go_type(args)}")
        problems = validate_node_affinity_args(args)
        if problems:
            raise ValueError(aggregate_text(problems))
        self._added_selector: NodeSelector | None = None
        self._added_preferred: PreferredTerms | None = None
        added = args.added_affinity
        if added is not None:
            required = added.required_during_scheduling_ignored_during_execution
            preferred = added.preferred_during_scheduling_ignored_during_execution
            self._added_selector = compile_node_selector(required) if required else None
            self._added_preferred = compile_preferred_terms(preferred) if preferred else None

    def reads(self, pod: PodInfo) -> Reads | None:
        """Labels and name are the node's own."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod verdicts depend on: its node selector and node affinity."""
        shape = pod.shape
        wanted = tuple(sorted((shape.node_selector or {}).items()))
        named = shape.node_selector is not None
        return (named, wanted, shape.required_node_affinity, shape.preferred_node_affinity)

    def named_node(self, pod: PodInfo) -> str:
        """Return the node that is named before any is filtered, if all there is to say is that."""
        return pod.shape.named_node

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | PreFilterResult | None:
        """Name the only nodes worth a look if every term names some."""
        required = pod.shape.required_node_affinity
        if required is None:
            restricted = self._added_selector is not None or pod.shape.node_selector
            return None if restricted else SKIP
        if not required.node_selector_terms:
            return None
        names: set[str] = set()
        for term in required.node_selector_terms:
            of_term = _named_nodes(term)
            if of_term is None:
                return None
            names |= of_term
        return PreFilterResult(frozenset(names)) if names else _CONFLICT

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Refuse nodes by the profile's affinity, then by the pod's."""
        verdict = []
        if self._added_selector is not None:
            enforced = matches_node_selector(nodes, self._added_selector)
            verdict.append(Rejected(negate(enforced), _NOT_ENFORCED))
        verdict.append(Rejected(negate(is_allowed(nodes, pod)), _NOT_ALLOWED))
        return verdict

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Compile the preferences; have the score skipped if there are none."""
        try:
            preferred = _preferred_terms(pod)
        except ValueError as problem:
            return error(str(problem))
        if preferred is None and self._added_preferred is None:
            return SKIP
        state.write(_PRE_SCORE_KEY, _PreScoreState(preferred))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of all preferences a node meets."""
        known: _PreScoreState | None = state.get(_PRE_SCORE_KEY)
        try:
            own = _preferred_terms(pod) if known is None else known.preferred
        except ValueError as problem:
            raise StatusError(error(str(problem))) from problem
        scores = np.zeros(len(nodes), dtype=np.int64)
        for preferred in (self._added_preferred, own):
            for weight, term in preferred.terms if preferred is not None else ():
                scores += weight * match_term(nodes, term)
        return scores

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Give the node that is liked most 100."""
        return default_normalize(scores)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a node may have the labels."""
        change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        event = ClusterEvent(EventResource.NODE, change)
        return [EventRegistration(event, self._after_node_change, reads="shape")]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name node affinity and node selector, in an order of our own."""
        return [
            SignFragment("v1.Pod.Spec.Affinity.NodeAffinity", _signed_affinity(pod)),
            SignFragment(
                "v1.Pod.Spec.Affinity.NodeSelector", dict(pod.shape.node_selector or {}) or None
            ),
        ]

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
        added = self._added_selector
        if added is not None and not added.matches(new.labels, new.name):
            return QueueingHint.QUEUE_SKIP
        # A term that does not parse makes upstream's hint fail, and a failing hint queues the pod.
        matched = _allows(pod, new)
        if matched is None:
            return QueueingHint.QUEUE
        if not matched:
            return QueueingHint.QUEUE_SKIP
        changed = old is None or not _allows(pod, old)
        return QueueingHint.QUEUE if changed else QueueingHint.QUEUE_SKIP


def _named_nodes(term: NodeSelectorTerm) -> set[str] | None:
    """Return the names a term restricts nodes to, None if it does not."""
    names: set[str] | None = None
    for field in term.match_fields:
        if field.key == _NAME_FIELD and field.operator == "In":
            names = set(field.values) if names is None else names & set(field.values)
    return names


def _preferred_terms(pod: PodInfo) -> PreferredTerms | None:
    terms = pod.shape.preferred_node_affinity
    return compile_preferred_terms(terms) if terms else None


def _allows(pod: PodInfo, node: NodeInfo) -> bool | None:
    """Return whether the pod's own rules allow a node; None if a malformed one decides."""
    # Parity: component-helpers nodeaffinity.go RequiredNodeAffinity.Match, v1.36.
    labels = pod.shape.node_selector
    if labels and not selector_from_set(labels).matches(node.labels):
        return False
    required = pod.shape.required_node_affinity
    if required is None:
        return True
    selector = compile_node_selector(required)
    if selector.matches(node.labels, node.name):
        return True
    return None if selector.errors else False


def _signed_affinity(pod: PodInfo) -> dict[str, list[str]] | None:
    affinity = pod.spec.affinity
    own = affinity.node_affinity if affinity is not None else None
    if own is None:
        return None
    required = own.required_during_scheduling_ignored_during_execution
    preferred = own.preferred_during_scheduling_ignored_during_execution
    return {
        "Required": sorted(
            _json(_signed_term(term)) for term in (required.node_selector_terms if required else ())
        ),
        "Preferred": sorted(
            _json({"Weight": one.weight, "Preference": _signed_term(one.preference)})
            for one in preferred
        ),
    }


def _signed_term(term: NodeSelectorTerm) -> dict[str, list[str]]:
    return {
        "MatchExpressions": _signed_requirements(term.match_expressions),
        "MatchFields": _signed_requirements(term.match_fields),
    }


def _signed_requirements(requirements: Iterable[NodeSelectorRequirement]) -> list[str]:
    return sorted(
        _json(msgspec.structs.replace(one, values=tuple(sorted(one.values))))
        for one in requirements
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _go_type(args: object) -> str:
    return "<nil>" if args is None else "*runtime.Unknown"
