"""One attempt: from a pod to the node chosen for it, or to why there is none.

Owns the order of the scheduling cycle up to the choice. Where there may be extenders, it is a
generator that gives way in two places only, when they are to be asked; whoever drives it answers
with `send`, or throws a SchedulingError where there is no answer. It never writes a table.
Upstream: pkg/scheduler/schedule_one.go schedulePod, findNodesThatFitPod, prioritizeNodes
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeRow, NodeTable, Rows
from kubesched.engine.diagnosis import Diagnosis, FitError, NoNodesError, SchedulingError
from kubesched.engine.planned import schedule_planned
from kubesched.engine.sampling import nodes_to_ask
from kubesched.engine.search import Detail, ScheduleResult, Search
from kubesched.engine.selection import select_by_lot, select_host
from kubesched.framework.adapt import ColumnFilter
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.measured import Filtering
from kubesched.framework.profile import Profile
from kubesched.framework.score_phase import Scores
from kubesched.framework.status import SUCCESS, Code, Status, unresolvable
from kubesched.framework.verdicts import NodeToStatus, Verdicts
from kubesched.kit.log import Ref
from kubesched.model.pod_info import PodInfo

EXTENDER_PLUGIN = "Extender"
_LEFT_OUT = unresolvable("left out by the extender, which gave no reason")
# Up to so many nodes are judged one by one.
FEW_ROWS_MAX = 4


@dataclass(frozen=True, slots=True)
class ExtenderFilter:
    """Asks whoever drives the attempt to have extenders filter these nodes."""

    pod: PodInfo
    nodes: NodeTable


@dataclass(frozen=True, slots=True)
class ExtenderFilterAnswer:
    """The nodes that extenders left over, and what they said of others."""

    nodes: NodeTable
    """In their order; of rows that stand in for nodes where an extender gave nodes of its own."""
    statuses: Mapping[str, Status] = field(default_factory=dict)
    """By node name, the names of no node included."""
    refused_by: Mapping[str, str] = field(default_factory=dict)
    """For people: which extender a node was refused by, or left out by without a word."""


@dataclass(frozen=True, slots=True)
class ExtenderPrioritize:
    """Asks whoever drives the attempt to have extenders score these nodes."""

    pod: PodInfo
    nodes: NodeTable


@dataclass(frozen=True, slots=True)
class ExtenderPrioritizeAnswer:
    """What extenders add to each node's total, weighted."""

    added: Mapping[str, IntColumn]
    """By extender."""
    scored: BoolColumn
    """Which nodes some extender gave a score, be it zero."""


Question: TypeAlias = ExtenderFilter | ExtenderPrioritize
Answer: TypeAlias = ExtenderFilterAnswer | ExtenderPrioritizeAnswer
ResultT: TypeAlias = "Generator[Question, Answer, ScheduleResult]"


def schedule_pod(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ResultT:
    """Choose a node; raise FitError if none fits, SchedulingError if something went wrong."""
    if view.node_count == 0:
        raise NoNodesError
    planned = schedule_planned(profile, view, state, pod, search)
    return planned or (yield from _schedule_asking_all(profile, view, state, pod, search))


def schedule_without_extenders(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult:
    """Choose a node as `schedule_pod` does, where nobody outside is asked."""
    if view.node_count == 0:
        raise NoNodesError
    planned = schedule_planned(profile, view, state, pod, search)
    return planned or run_without_extenders(_schedule_asking_all(profile, view, state, pod, search))


def _schedule_asking_all(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ResultT:
    """Choose a node the ordinary way."""
    feasible, diagnosis = yield from find_nodes_that_fit(profile, view, state, pod, search)
    if len(feasible) == 0:
        raise FitError(view.node_count, diagnosis)
    scores: Scores | None = None
    chosen = 0
    if len(feasible) > 1:
        try:
            scores = yield from prioritize_nodes(profile, state, pod, feasible, search)
        except SchedulingError as failure:
            failure.feasible, failure.diagnosis = feasible, diagnosis
            raise
        if scores.lots is None:
            chosen = select_host(scores.total)
        else:
            chosen = select_by_lot(scores.total, scores.lots, search.draw)
    return ScheduleResult(
        feasible.name(chosen),
        len(feasible),
        len(feasible) + len(diagnosis.node_to_status),
        Detail(feasible, scores, diagnosis, chosen),
    )


def find_nodes_that_fit(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> Generator[Question, Answer, tuple[NodeTable, Diagnosis]]:
    """Return the nodes that fit, in the order in which they were found, and why others do not."""
    nodes = view.all_nodes()
    diagnosis = Diagnosis(NodeToStatus(view))
    outcome = profile.run_pre_filter_plugins(state, pod, nodes)
    if outcome.status is not None:
        if not outcome.status.is_rejected:
            raise SchedulingError(outcome.status.message)
        diagnosis.node_to_status.absent = outcome.status
        diagnosis.pre_filter_status = outcome.status
        diagnosis.unschedulable_plugins = {*outcome.plugins_with_nodes, outcome.status.plugin} - {
            ""
        }
        return nodes.take(np.zeros(0, dtype=np.int64)), diagnosis
    diagnosis.unschedulable_plugins = set(outcome.plugins_with_nodes)
    if pod.nominated_node_name:
        found = yield from _evaluate_nominated(profile, view, state, pod, diagnosis, search)
        if found is not None:
            return found, diagnosis
    if outcome.node_names is not None:
        rows = [row for name in sorted(outcome.node_names) if (row := view.row_of(name)) >= 0]
        nodes = view.nodes_at(np.array(rows, dtype=np.int64))
        diagnosis.candidates = nodes.rows
        # Parity: upstream's set of plugins is the diagnosis' own, so that who refused the nominated
        # node is named here too.
        listed = " ".join(sorted(diagnosis.unschedulable_plugins))
        diagnosis.node_to_status.absent = unresolvable(
            f"node(s) didn't satisfy plugin(s) [{listed}]"
        )
    before = len(diagnosis.node_to_status)
    with _filtering(profile, state) as filtering:
        feasible = _pass_filters(profile, state, pod, nodes, diagnosis, search)
        processed = len(feasible) + len(diagnosis.node_to_status)
        filtering.visited_count = processed - before
    search.next_start_index = (search.next_start_index + processed) % view.node_count
    # Before extenders speak, whose verdicts may take the place of plugins'.
    diagnosis.unschedulable_plugins |= diagnosis.node_to_status.plugins()
    diagnosis.pending_plugins |= diagnosis.node_to_status.plugins(Code.PENDING)
    left = yield from _pass_extenders(pod, feasible, diagnosis, search)
    if len(left) != len(feasible):
        diagnosis.unschedulable_plugins.add(EXTENDER_PLUGIN)
    return left, diagnosis


def prioritize_nodes(
    profile: Profile, state: CycleState, pod: PodInfo, nodes: NodeTable, search: Search
) -> Generator[Question, Answer, Scores]:
    """Score the nodes that fit."""
    if not profile.has_score_plugins and search.extender_count == 0:
        return Scores({}, np.ones(len(nodes), dtype=np.int64))
    failure = profile.run_pre_score_plugins(state, pod, nodes)
    if failure is not None:
        raise SchedulingError(failure.message)
    scores = profile.run_score_plugins(state, pod, nodes)
    if isinstance(scores, Status):
        raise SchedulingError(scores.message)
    if search.extender_count:
        answer = yield ExtenderPrioritize(pod, nodes)
        assert isinstance(answer, ExtenderPrioritizeAnswer)
        total = scores.total.copy()
        for column in answer.added.values():
            total += column  # Overflows as Go's integers do.
        return Scores({**scores.by_plugin, **answer.added}, total, answer.scored)
    return scores


def _evaluate_nominated(
    profile: Profile,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    diagnosis: Diagnosis,
    search: Search,
) -> Generator[Question, Answer, NodeTable | None]:
    """Return the node the pod was promised, alone, if it still fits."""
    # Parity: schedule_one.go evaluateNominatedNode, v1.36: errors here are passed over.
    row = view.row_of(pod.nominated_node_name)
    if row < 0:
        return None
    node = view.nodes_at(np.array([row], dtype=np.int64))
    with _filtering(profile, state) as filtering:
        verdict = _verdict_on(profile, state, pod, node)
        filtering.visited_count = 1
        filtering.failed = not verdict.is_success and not verdict.is_rejected
    if not verdict.is_success:
        if verdict.is_rejected:
            diagnosis.node_to_status.set_one(row, verdict)
            diagnosis.unschedulable_plugins.add(verdict.plugin)
        return None
    try:
        left = yield from _pass_extenders(pod, node, diagnosis, search)
    except SchedulingError as failure:
        profile.log.error(
            "Evaluation failed on nominated node",
            err=failure,
            pod=Ref(pod.namespace, pod.name),
            node=pod.nominated_node_name,
        )
        return None
    return left if len(left) else None


def _verdict_on(profile: Profile, state: CycleState, pod: PodInfo, node: NodeTable) -> Status:
    """Return the verdict on one node, by plain numbers where nobody else was promised it."""
    view, row = node.view, node.rows.item(0)
    by_row = None
    if all(view.bound_pod(index).uid == pod.uid for index in view.nominated_on(row)):
        by_row = profile.filters.row_filters(state)
    if by_row is None:
        return profile.run_filter_plugins_with_nominated_pods(state, pod, node)[0]
    return _first_refusal(by_row, state, pod, view.row(row)) or SUCCESS


def _first_refusal(
    filters: Sequence[ColumnFilter], state: CycleState, pod: PodInfo, node: NodeRow
) -> Status | None:
    return next(filter(None, (plugin.judge_row(state, pod, node) for plugin in filters)), None)


def _pass_one_by_one(
    filters: Sequence[ColumnFilter],
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    diagnosis: Diagnosis,
    want: int,
) -> NodeTable:
    """Return the first nodes that fit, each judged by plain numbers."""
    fitting: list[int] = []
    for row in nodes.rows.tolist():
        if len(fitting) >= want:
            break
        status = _first_refusal(filters, state, pod, nodes.view.row(row))
        if status is None:
            fitting.append(row)
        elif status.is_rejected:
            diagnosis.node_to_status.set_one(row, status)
        else:
            raise SchedulingError(status.message)
    return (
        nodes
        if len(fitting) == len(nodes)
        else nodes.view.nodes_at(np.array(fitting, dtype=np.int64))
    )


def _pass_filters(
    profile: Profile,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    diagnosis: Diagnosis,
    search: Search,
) -> NodeTable:
    """Return the first nodes that fit, as many as are enough, from the rotating start."""
    if len(nodes) == 0:
        return nodes
    want = search.want(profile, len(nodes))
    if not search.all_nodes:
        nodes = nodes.take(np.roll(np.arange(len(nodes)), -(search.next_start_index % len(nodes))))
    if len(nodes) <= FEW_ROWS_MAX and not any(map(nodes.view.nominated_on, nodes.rows.tolist())):
        by_row = profile.filters.row_filters(state)
        if by_row is not None:
            return _pass_one_by_one(by_row, state, pod, nodes, diagnosis, want)
    # Columns are judged whole; a filter for one node is slow, and not asked about nodes that
    # upstream would never visit.
    one_by_one = profile.filters.has_one_node_filters
    verdicts, judged, found = Verdicts(len(nodes)), 0, 0
    while judged < len(nodes) and found < want:
        size = nodes_to_ask(want, judged, found) if one_by_one else len(nodes)
        chunk = np.arange(judged, min(judged + size, len(nodes)))
        part = nodes if len(chunk) == len(nodes) else nodes.take(chunk)
        verdicts.override(chunk, profile.run_filter_plugins_with_nominated_pods(state, pod, part))
        judged += len(chunk)
        found = int(np.count_nonzero(verdicts.fits[:judged]))
    fitting: Rows = np.flatnonzero(verdicts.fits[:judged])[:want]
    if len(fitting) == want:
        judged = int(fitting[-1]) + 1  # Nodes after the last one wanted were never visited.
    visited = verdicts.first(judged)
    failure = visited.first_error()
    if failure is not None:
        raise SchedulingError(failure.message)
    diagnosis.node_to_status.set_all(nodes.rows[:judged], visited)
    return nodes.take(fitting)


def _filtering(profile: Profile, state: CycleState) -> Filtering:
    """Return what filtering is measured by, of all nodes together."""
    # Parity: schedule_one.go findNodesThatPassFilters, v1.36.
    measuring = profile.measuring if profile.has_filter_plugins else None
    return Filtering(measuring, state)


def _pass_extenders(
    pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis, search: Search
) -> Generator[Question, Answer, NodeTable]:
    if not search.has_extender_filters or len(nodes) == 0:
        return nodes
    answer = yield ExtenderFilter(pod, nodes)
    assert isinstance(answer, ExtenderFilterAnswer)
    if answer.statuses:
        diagnosis.node_to_status.set_named(answer.statuses)
    view = nodes.view
    for name in answer.nodes.names if diagnosis.by_extender else ():
        diagnosis.by_extender.pop(view.row_of(name), None)
    for name, extender in answer.refused_by.items():
        row = view.row_of(name)
        if row >= 0:
            said = answer.statuses.get(name, _LEFT_OUT)
            diagnosis.by_extender[row] = said.by(extender)
    return answer.nodes


def run_without_extenders(attempt: ResultT) -> ScheduleResult:
    """Drive an attempt that asks nobody outside."""
    try:
        question = next(attempt)
    except StopIteration as done:
        result: ScheduleResult = done.value
        return result
    raise AssertionError(f"an attempt without extenders asked {question}")


def best_names(nodes: NodeTable, positions: Sequence[int]) -> list[str]:
    """Return the names at some positions, sorted."""
    names = nodes.names
    return sorted(names[position] for position in positions)
