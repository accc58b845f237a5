"""NodeAffinity: keeps pods to nodes that their node selector and node affinity allow.

Also scores preferences, and applies the affinity that an administrator adds to a whole profile.
Upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from kubesched.api.affinity import NodeSelector as WireNodeSelector
from kubesched.api.affinity import NodeSelectorRequirement, NodeSelectorTerm
from kubesched.api.label_selectors import selector_from_set
from kubesched.api.node_selectors import (
    NodeSelector,
    PreferredTerms,
    compile_node_selector,
    compile_preferred_terms,
)
from kubesched.config.types import NodeAffinityArgs
from kubesched.config.validate_args import validate_node_affinity_args
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    PreFilterResult,
    Reads,
    Rejected,
)
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import SKIP, Status, StatusError, error, unresolvable
from kubesched.plugins.pod_changes import (
    REQUIRED,
    PodChange,
    RejectedPod,
    with_affinity,
    with_spec,
    without_one,
)
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin, checked_args
from kubesched.snapshot.expressions import (
    is_allowed,
    match_node_selector,
    match_term,
    negate,
)
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

_PRE_SCORE_KEY = "PreScoreNodeAffinity"
_NAME_FIELD = "metadata.name"
_NOT_ALLOWED = unresolvable("node(s) didn't match Pod's node affinity/selector")
_NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT = unresolvable("pod affinity terms conflict")
_READS = Reads(nodes=True)


class NodeAffinity:
    """Rejects nodes that the pod or the profile excludes, and scores preferences."""

    name = "NodeAffinity"
    takes_rows = True
    normalizes_by_scaling = True

    def __init__(self, args: object) -> None:
        wrong_type = "args are not of type {}, got {}"
        own_args = checked_args(args, NodeAffinityArgs, validate_node_affinity_args, wrong_type)
        self._added_selector: NodeSelector | None = None
        self._added_preferred: PreferredTerms | None = None
        added = own_args.added_affinity
        if added is not None:
            required = added.required_during_scheduling_ignored_during_execution
            preferred = added.preferred_during_scheduling_ignored_during_execution
            self._added_selector = compile_node_selector(required) if required else None
            self._added_preferred = compile_preferred_terms(preferred) if preferred else None

    def reads(self, pod: PodInfo) -> Reads | None:
        """Verdicts depend on labels and name of the node."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what verdicts depend on: the node selector and node affinity."""
        shape = pod.shape
        labels = tuple(sorted((shape.node_selector or {}).items()))
        named = shape.node_selector is not None
        return (named, labels, shape.required_node_affinity, shape.preferred_node_affinity)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | PreFilterResult | None:
        """Narrow the search to named nodes if every term names some."""
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
        """Reject nodes by the profile's affinity, then by the pod's."""
        verdict = []
        if self._added_selector is not None:
            enforced = match_node_selector(nodes, self._added_selector)
            verdict.append(Rejected(negate(enforced), _NOT_ENFORCED))
        verdict.append(Rejected(negate(is_allowed(nodes, pod)), _NOT_ALLOWED))
        return verdict

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Compile the preferences; skip the score if there are none."""
        try:
            preferred = _preferred_terms(pod)
        except ValueError as problem:
            return error(str(problem))
        if preferred is None and self._added_preferred is None:
            return SKIP
        state.write(_PRE_SCORE_KEY, preferred)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of all preferences a node meets."""
        try:
            own: PreferredTerms | None = state.get(_PRE_SCORE_KEY) or _preferred_terms(pod)
        except ValueError as problem:
            raise StatusError(error(str(problem))) from problem
        scores = np.zeros(len(nodes), dtype=np.int64)
        for preferred in (self._added_preferred, own):
            for weight, term in preferred.terms if preferred is not None else ():
                scores += weight * match_term(nodes, term)
        return scores

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Give the node with the highest sum 100."""
        return default_normalize(scores)

    def events_to_register(self) -> Sequence[EventRegistration]:
        change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [on(EventResource.NODE, change, self._after_node_change, reads="shape")]

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
        added = self._added_selector
        if added is not None and not added.matches(new.labels, new.name):
            return QueueingHint.QUEUE_SKIP
        # A term that does not parse makes upstream's hint fail, and a failing hint queues the pod.
        matched = _allows(pod, new)
        if matched is None:
            return QueueingHint.QUEUE
        return queue_if(matched and (old is None or not _allows(pod, old)))


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


def node_affinity_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield the pod without each label of its node selector, and each part of its affinity."""
    spec = rejected.pod.object.spec
    for key, value in sorted(spec.node_selector.items()):
        yield PodChange(
            "node-selector",
            f"spec.nodeSelector[{key}]",
            f"without the node selector {key}={value}",
            _without_label(key),
        )
    terms = _required_terms(rejected.pod)
    if terms is None:
        return
    if len(terms) == 1:
        yield from _expression_changes(terms[0])
    if len(terms) != 1 or len((*terms[0].match_expressions, *terms[0].match_fields)) != 1:
        yield PodChange(
            "node-affinity",
            f"spec.affinity.nodeAffinity.{REQUIRED}",
            "without the required node affinity",
            lambda pod: _with_required_terms(pod, ()),
        )


def _expression_changes(term: NodeSelectorTerm) -> Iterator[PodChange]:
    for attribute, wire_name in (
        ("match_expressions", "matchExpressions"),
        ("match_fields", "matchFields"),
    ):
        parts: tuple[NodeSelectorRequirement, ...] = getattr(term, attribute)
        for number, part in enumerate(parts):
            yield PodChange(
                "node-affinity",
                f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].{wire_name}[{number}]",
                f"without the node affinity {_expression_text(part)}",
                _without_expression(attribute, part),
            )


def _expression_text(part: NodeSelectorRequirement) -> str:
    values = part.values or ()
    listed = ", ".join(values[:3]) + (", ..." if len(values) > 3 else "")
    return f"{part.key} {part.operator}{f' ({listed})' if values else ''}"


def _without_label(key: str) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        spec = pod.object.spec
        others = {k: v for k, v in spec.node_selector.items() if k != key}
        return with_spec(pod, replace(spec, node_selector=others))

    return edit


def _without_expression(attribute: str, part: object) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        terms = _required_terms(pod)
        if not terms:
            return pod
        fewer = replace(terms[0], **{attribute: without_one(getattr(terms[0], attribute), part)})
        # An empty term matches nothing: without its last part, the term is dropped.
        return _with_required_terms(
            pod, (fewer,) if fewer.match_expressions or fewer.match_fields else ()
        )

    return edit


def _required_terms(pod: PodInfo) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = pod.object.spec.affinity
    own = None if affinity is None else affinity.node_affinity
    required = None if own is None else own.required_during_scheduling_ignored_during_execution
    return None if required is None else required.node_selector_terms


def _with_required_terms(pod: PodInfo, terms: tuple[NodeSelectorTerm, ...]) -> PodInfo:
    affinity = pod.object.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = WireNodeSelector(node_selector_terms=terms) if terms else None
    own = replace(
        affinity.node_affinity, required_during_scheduling_ignored_during_execution=required
    )
    return with_affinity(pod, node_affinity=own)


PLUGIN = InTreePlugin(plugin=NodeAffinity, pod_changes=node_affinity_changes)
