"""One node beside the chosen one, and one configuration beside another.

Owns the two comparisons as plain values. Never decides: both sides are attempts already made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kubesched.columns.view import NodeView, Rows
from kubesched.engine.counterfactual import changes_for
from kubesched.engine.evidence import DetailEvidence, Standing
from kubesched.engine.explanation import (
    EXAMPLES,
    GROUPS_MAX,
    TOP,
    Attempt,
    Change,
    Explanation,
    Hold,
    Value,
    difference,
)
from kubesched.engine.filtered_anew import verdicts_by_plugin
from kubesched.engine.naming import nearest
from kubesched.framework.nominated import promised_pods
from kubesched.framework.status import Status
from kubesched.model.resources import PODS


class Verdict(Value, frozen=True, kw_only=True):
    """What one filter says of a node by itself."""

    plugin: str
    code: str
    """`Success`, `Skip` if it has nothing to do with the pod, or the code of its refusal."""
    reasons: tuple[str, ...] = ()
    whole: bool = False
    """Whether it refuses the pod as a whole, before any node is looked at."""


class Points(Value, frozen=True, kw_only=True):
    """One plugin's weighted scores of a node and of the chosen one."""

    plugin: str
    weight: int
    node: int
    chosen: int


class Room(Value, frozen=True, kw_only=True):
    """One resource on a node: millicores, bytes, units."""

    resource: str
    asked: int
    free: int
    """What the pods on the node leave."""
    promised: int
    """What of that was promised to pods that come before this one."""
    allocatable: int


class NodeReport(Value, frozen=True, kw_only=True):
    """Everything about one node and one pod."""

    pod: str
    node: str
    chosen: str
    """The node taken instead; empty if none is."""
    held: tuple[Hold, ...] | None = None
    """Who keeps the pod from being tried at all."""
    fits: bool
    place: int | None
    """Among the fitting nodes by total; nodes of equal totals share one."""
    fit_count: int
    total: int | None
    behind: int | None
    """How many points the chosen node has more."""
    refused: Verdict | None
    """The verdict that counts: the first refusal."""
    verdicts: tuple[Verdict, ...]
    scores: tuple[Points, ...]
    room: tuple[Room, ...]
    changes: tuple[Change, ...] | None
    """What would open this node; None: not asked for."""


class VerdictChange(Value, frozen=True, kw_only=True):
    """Nodes that fit under one configuration and are refused under the other."""

    refused_under: int
    """1 or 2: which of the two refuses."""
    plugin: str
    reasons: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]


class ScoreChange(Value, frozen=True, kw_only=True):
    """How many points one plugin gives one node more than another, under both configurations."""

    plugin: str
    first: int
    second: int
    moved: int
    """How many of them the second configuration takes from the lead."""


class Comparison(Value, frozen=True, kw_only=True):
    """Two decisions about one pod."""

    same: bool
    first: Explanation
    second: Explanation
    verdicts: tuple[VerdictChange, ...]
    verdicts_left_out: int
    between: tuple[str, str] | None
    """The nodes chosen, or the one chosen by both and its runner-up; None where not both scored."""
    scores: tuple[ScoreChange, ...]
    """What the plugins give the first of these nodes more than the second, where it differs."""


# -- one node ---------------------------------------------------------------------------------


def report_on(one: Attempt, node: str, *, changes: bool = True) -> NodeReport:
    """Return what every plugin says of one node.

    Args:
        one: an attempt whose columns still stand, made with its detail.
        node: the node.
        changes: also try out what would open it.

    Raises:
        LookupError: There is no such node.
    """
    view = one.view
    row = view.row_of(node)
    if row < 0:
        names = view.all_nodes().names
        hint = f"there are {nearest(names, node)}" if names else "there is none at all"
        raise LookupError(f"there is no node {node}; {hint}")
    standing, winner = _standing(one, row), _winner(one)
    refused = _refusal_of(one, row)
    total = None if standing is None else standing.total
    found = view.node(node)
    assert found is not None
    return NodeReport(
        pod=one.pod.key,
        node=node,
        chosen="" if one.result is None else one.result.suggested_host,
        held=one.held(),
        fits=refused is None and row in one.fitting_rows(),
        place=_place(one, row) if total is not None else None,
        fit_count=len(one.fitting_rows()),
        total=total,
        behind=None if total is None or winner is None else winner.total - total,
        refused=refused,
        verdicts=tuple(_verdicts(one, row)),
        scores=tuple(_points(one, standing, winner)),
        room=tuple(_room(one, row, found)),
        changes=_changes(one, node, refused) if changes else None,
    )


def _changes(one: Attempt, node: str, refused: Verdict | None) -> tuple[Change, ...]:
    return () if refused is None else changes_for(one, node=node)


def _evidence(one: Attempt) -> DetailEvidence | None:
    if one.result is None:
        return None
    evidence = one.evidence()
    assert isinstance(evidence, DetailEvidence), "comparing needs the detail"
    return evidence


def _standing(one: Attempt, row: int) -> Standing | None:
    evidence = _evidence(one)
    return None if evidence is None else evidence.of_row(row)


def _winner(one: Attempt) -> Standing | None:
    return (
        None if one.result is None else _standing(one, one.view.row_of(one.result.suggested_host))
    )


def _place(one: Attempt, row: int) -> int:
    evidence = _evidence(one)
    assert evidence is not None
    return evidence.place_of(row)


def _refusal_of(one: Attempt, row: int) -> Verdict | None:
    for status, rows in one.groups():
        if row in rows:
            return _verdict(status.plugin, status)
    from_pre_filter = getattr(getattr(one.failure, "diagnosis", None), "pre_filter_status", None)
    if not isinstance(from_pre_filter, Status):
        return None
    return _verdict(from_pre_filter.plugin, from_pre_filter, whole=True)


def _verdicts(one: Attempt, row: int) -> Iterator[Verdict]:
    rows: Rows = np.array([row])
    for said in verdicts_by_plugin(one.profile, one.view, one.pod, rows):
        if said.verdicts is None:
            yield Verdict(plugin=said.plugin, code="Skip")
        else:
            yield _verdict(said.plugin, said.verdicts[0], whole=said.is_whole)


def _verdict(plugin: str, status: Status, *, whole: bool = False) -> Verdict:
    reasons = tuple(sorted(status.reasons))
    return Verdict(plugin=plugin, code=status.code.wire_name, reasons=reasons, whole=whole)


def _points(one: Attempt, standing: Standing | None, winner: Standing | None) -> Iterator[Points]:
    if standing is None or winner is None:
        return
    for name, points in standing.scores.items():
        weight = one.profile.score_weights.get(name, 1)
        yield Points(plugin=name, weight=weight, node=points, chosen=winner.scores.get(name, 0))


def _room(one: Attempt, row: int, node: NodeView) -> Iterator[Room]:
    (promised,) = promised_pods(one.view.nodes_at(np.array([row])), one.pod)
    for name, asked in one.pod.requests.items():
        offered = node.allocatable[name]
        yield Room(
            resource=name,
            asked=asked,
            free=offered - node.requested[name],
            promised=sum(pod.requests[name] for pod in promised),
            allocatable=offered,
        )
    allowed = node.allowed_pods
    yield Room(
        resource=PODS,
        asked=1,
        free=allowed - node.pod_count,
        promised=len(promised),
        allocatable=allowed,
    )


# -- two configurations -----------------------------------------------------------------------


def compare(first: Attempt, second: Attempt, *, top: int | None = TOP) -> Comparison:
    """Return what two configurations make of one pod in one cluster."""
    explained = (first.explanation(top=top), second.explanation(top=top))
    changes = sorted(
        (*_verdict_changes(first, second, 2), *_verdict_changes(second, first, 1)),
        key=lambda change: (-change.count, change.refused_under, change.plugin),
    )
    shown = changes[:GROUPS_MAX]
    between = _between(*explained)
    margins = None if between is None else _margins((first, second), between)
    return Comparison(
        same=_outcome(explained[0]) == _outcome(explained[1]),
        first=explained[0],
        second=explained[1],
        verdicts=tuple(shown),
        verdicts_left_out=sum(c.count for c in changes) - sum(c.count for c in shown),
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
    fitting: Attempt, refusing: Attempt, refused_under: int
) -> Iterator[VerdictChange]:
    fits = np.zeros(fitting.view.row_count, dtype=np.bool_)
    fits[fitting.fitting_rows()] = True
    for status, rows in refusing.groups():
        changed = rows[fits[rows]]
        if len(changed):
            yield VerdictChange(
                refused_under=refused_under,
                plugin=status.plugin,
                reasons=tuple(sorted(status.reasons)),
                count=len(changed),
                nodes=tuple(fitting.view.name_of(r) for r in changed[:EXAMPLES].tolist()),
            )


def _margins(
    attempts: tuple[Attempt, Attempt], nodes: tuple[str, str]
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return by plugin what each gives the first node more; None where one was not scored."""
    margins = []
    for one in attempts:
        ours, theirs = (_standing(one, one.view.row_of(node)) for node in nodes)
        if ours is None or theirs is None:
            return None
        margins.append(difference(ours.scores, theirs.scores))
    return margins[0], margins[1]


def _score_changes(first: Mapping[str, int], second: Mapping[str, int]) -> Iterator[ScoreChange]:
    for plugin, moved in difference(first, second).items():
        yield ScoreChange(
            plugin=plugin,
            first=first.get(plugin, 0),
            second=second.get(plugin, 0),
            moved=moved,
        )
