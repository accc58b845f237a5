"""Comparison of a node with the chosen one, and of the decisions under two configurations.

Owns both comparisons as plain values. Never decides: it reads attempts that were already made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kubesched.api.resource_requests import PODS
from kubesched.explanation.attempt_record import EXAMPLES, GROUPS_MAX, TOP, AttemptRecord
from kubesched.explanation.counterfactual import changes_for
from kubesched.explanation.ranked_nodes import DetailedNodes, RowScores
from kubesched.explanation.refilter import verdicts_by_plugin
from kubesched.explanation.report import Change, Explanation, Hold, Value, difference
from kubesched.framework.runtime.nominated_pods import nominated_by_node
from kubesched.framework.status import Status
from kubesched.kit.text import nearest
from kubesched.snapshot.view import Rows


class Verdict(Value, frozen=True, kw_only=True):
    """The verdict of one filter plugin on a node, regardless of the other filters."""

    plugin: str
    code: str
    """`Success`, `Skip` if the plugin skips the pod, or the code of its rejection."""
    reasons: tuple[str, ...] = ()
    whole: bool = False
    """Whether the plugin rejects the pod in PreFilter, before any node is visited."""


class Points(Value, frozen=True, kw_only=True):
    """One plugin's weighted scores of a node and of the chosen one."""

    plugin: str
    weight: int
    node: int
    chosen: int


class Room(Value, frozen=True, kw_only=True):
    """One resource on a node: millicores, bytes, units."""

    resource: str
    requested: int
    free: int
    """Allocatable minus the requests of the pods on the node."""
    nominated: int
    """The part of `free` that nominated pods of the same or a higher priority will take."""
    allocatable: int


class NodeReport(Value, frozen=True, kw_only=True):
    """How one node compares for one pod."""

    pod: str
    node: str
    chosen: str
    """The chosen node; empty if there is none."""
    held: tuple[Hold, ...] | None = None
    """The plugins that keep the pod out of the queue."""
    fits: bool
    place: int | None
    """The rank among the fitting nodes by total; nodes with equal totals share a rank."""
    fit_count: int
    total: int | None
    behind: int | None
    """How many points the node is behind the chosen one."""
    rejected: Verdict | None
    """The effective verdict: the first rejection."""
    verdicts: tuple[Verdict, ...]
    scores: tuple[Points, ...]
    room: tuple[Room, ...]
    changes: tuple[Change, ...] | None
    """Tested changes that would make this node fit; None if changes were not tested."""


class VerdictChange(Value, frozen=True, kw_only=True):
    """Nodes that fit under one configuration and are rejected under the other."""

    rejected_under: int
    """The configuration that rejects them, 1 or 2."""
    plugin: str
    reasons: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]


class ScoreChange(Value, frozen=True, kw_only=True):
    """The lead of one node over another by one plugin's score, under both configurations."""

    plugin: str
    first: int
    second: int
    moved: int
    """By how much the lead is smaller under the second configuration."""


class Comparison(Value, frozen=True, kw_only=True):
    """The decisions for one pod under two configurations."""

    same: bool
    first: Explanation
    second: Explanation
    verdicts: tuple[VerdictChange, ...]
    verdicts_left_out: int
    between: tuple[str, str] | None
    """The two chosen nodes, or the common one and its runner-up; None unless both were scored."""
    scores: tuple[ScoreChange, ...]
    """The plugins whose lead between these nodes differs."""


# -- one node ---------------------------------------------------------------------------------


def report_on(attempted: AttemptRecord, node: str, *, changes: bool = True) -> NodeReport:
    """Return every plugin's verdict on one node, and its scores.

    Args:
        attempted: an attempt with detail whose snapshot is still current.
        node: the node.
        changes: also test changes that would make it fit.

    Raises:
        LookupError: There is no such node.
    """
    view, result = attempted.view, attempted.result
    row = view.row_of(node)
    if row < 0:
        names = view.all_nodes().names
        hint = f"the cluster has {nearest(names, node)}" if names else "the cluster has no nodes"
        raise LookupError(f"node {node} not found; {hint}")
    chosen = "" if result is None else result.suggested_host
    scores, chosen_scores = _scores(attempted, node), _scores(attempted, chosen)
    rejected, fitting = _rejection_of(attempted, row), attempted.fitting_rows()
    return NodeReport(
        pod=attempted.pod.key,
        node=node,
        chosen=chosen,
        held=attempted.held(),
        fits=rejected is None and row in fitting,
        place=None if scores is None else scores.rank,
        fit_count=len(fitting),
        total=None if scores is None else scores.total,
        behind=None
        if scores is None or chosen_scores is None
        else chosen_scores.total - scores.total,
        rejected=rejected,
        verdicts=tuple(_verdicts(attempted, row)),
        scores=tuple(_points(attempted, scores, chosen_scores)),
        room=tuple(_room(attempted, row)),
        changes=(() if rejected is None else changes_for(attempted, node=node))
        if changes
        else None,
    )


def _scores(attempted: AttemptRecord, node: str) -> RowScores | None:
    if attempted.result is None:
        return None
    nodes = attempted.ranked_nodes()
    assert isinstance(nodes, DetailedNodes), "the attempt was made with detail"
    return nodes.scores_of(attempted.view.row_of(node))


def _rejection_of(attempted: AttemptRecord, row: int) -> Verdict | None:
    for status, rows in attempted.groups():
        if row in rows:
            return _verdict(status.plugin, status)
    diagnosis = None if attempted.failure is None else attempted.failure.diagnosis
    if diagnosis is None or diagnosis.pre_filter_status is None:
        return None
    status = diagnosis.pre_filter_status
    return _verdict(status.plugin, status, whole=True)


def _verdicts(attempted: AttemptRecord, row: int) -> Iterator[Verdict]:
    rows: Rows = np.array([row])
    profile, view, pod = attempted.profile, attempted.view, attempted.pod
    for judged in verdicts_by_plugin(profile, view, pod, rows):
        if judged.verdicts is None:
            yield Verdict(plugin=judged.plugin, code="Skip")
        else:
            yield _verdict(judged.plugin, judged.verdicts[0], whole=judged.rejects_pod)


def _verdict(plugin: str, status: Status, *, whole: bool = False) -> Verdict:
    reasons = tuple(sorted(status.reasons))
    return Verdict(plugin=plugin, code=status.code.wire_name, reasons=reasons, whole=whole)


def _points(
    attempted: AttemptRecord, scores: RowScores | None, chosen_scores: RowScores | None
) -> Iterator[Points]:
    if scores is None or chosen_scores is None:
        return
    for name, points in scores.scores.items():
        weight = attempted.profile.score_weights.get(name, 1)
        chosen = chosen_scores.scores.get(name, 0)
        yield Points(plugin=name, weight=weight, node=points, chosen=chosen)


def _room(attempted: AttemptRecord, row: int) -> Iterator[Room]:
    view, pod = attempted.view, attempted.pod
    node = view.node(view.name_of(row))
    assert node is not None
    (nominated,) = nominated_by_node(view.nodes_at(np.array([row])), pod)
    for name, requested in pod.requests.items():
        allocatable = node.allocatable[name]
        yield Room(
            resource=name,
            requested=requested,
            free=allocatable - node.requested[name],
            nominated=sum(other.requests[name] for other in nominated),
            allocatable=allocatable,
        )
    allowed = node.allowed_pods
    yield Room(
        resource=PODS,
        requested=1,
        free=allowed - node.pod_count,
        nominated=len(nominated),
        allocatable=allowed,
    )


# -- two configurations -----------------------------------------------------------------------


def compare(first: AttemptRecord, second: AttemptRecord, *, top: int | None = TOP) -> Comparison:
    """Compare the decisions for one pod in one cluster under two configurations."""
    explanations = (first.explanation(top=top), second.explanation(top=top))
    changes = sorted(
        (*_verdict_changes(first, second, 2), *_verdict_changes(second, first, 1)),
        key=lambda change: (-change.count, change.rejected_under, change.plugin),
    )
    between = _between(*explanations)
    margins = None if between is None else _margins((first, second), between)
    return Comparison(
        same=_outcome(explanations[0]) == _outcome(explanations[1]),
        first=explanations[0],
        second=explanations[1],
        verdicts=tuple(changes[:GROUPS_MAX]),
        verdicts_left_out=sum(change.count for change in changes[GROUPS_MAX:]),
        between=None if margins is None else between,
        scores=() if margins is None else tuple(_score_changes(*margins)),
    )


def _between(first: Explanation, second: Explanation) -> tuple[str, str] | None:
    if not first.node or not second.node:
        return None
    if first.node != second.node:
        return first.node, second.node
    return None if first.runner_up is None else (first.node, first.runner_up.node)


def _outcome(explanation: Explanation) -> tuple[str, str, str]:
    plan = explanation.preemption
    return explanation.outcome, explanation.node, "" if plan is None else plan.node


def _verdict_changes(
    fitting: AttemptRecord, rejecting: AttemptRecord, rejected_under: int
) -> Iterator[VerdictChange]:
    fits = np.zeros(fitting.view.row_count, dtype=np.bool_)
    fits[fitting.fitting_rows()] = True
    for status, rows in rejecting.groups():
        changed = rows[fits[rows]]
        if len(changed):
            yield VerdictChange(
                rejected_under=rejected_under,
                plugin=status.plugin,
                reasons=tuple(sorted(status.reasons)),
                count=len(changed),
                nodes=tuple(map(fitting.view.name_of, changed[:EXAMPLES].tolist())),
            )


def _margins(
    attempts: tuple[AttemptRecord, AttemptRecord], nodes: tuple[str, str]
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return the lead of the first node by plugin in each attempt; None if one was not scored."""
    margins = []
    for attempted in attempts:
        first, second = (_scores(attempted, node) for node in nodes)
        if first is None or second is None:
            return None
        margins.append(difference(first.scores, second.scores))
    return margins[0], margins[1]


def _score_changes(first: Mapping[str, int], second: Mapping[str, int]) -> Iterator[ScoreChange]:
    for plugin, moved in difference(first, second).items():
        yield ScoreChange(
            plugin=plugin,
            first=first.get(plugin, 0),
            second=second.get(plugin, 0),
            moved=moved,
        )
