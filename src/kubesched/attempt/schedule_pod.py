"""One attempt: from a pod to the chosen node, or to the reason why there is none.

Owns the order of the scheduling cycle up to the choice. An attempt is a generator that yields only
requests to extenders; its driver responds with `send`, or throws a SchedulingError. It never writes
a table.
Upstream: pkg/scheduler/schedule_one.go schedulePod, findNodesThatFitPod, prioritizeNodes
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from kubesched.attempt.diagnosis import Diagnosis, FitError, NoNodesError, SchedulingError
from kubesched.attempt.kept.fast_path import schedule_by_kept_verdicts
from kubesched.attempt.request import Detail, ScheduleResult, Search, nodes_to_evaluate
from kubesched.attempt.select_host import select_by_lot, select_host
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.adapters import ColumnFilter
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.score_phase import Scores
from kubesched.framework.runtime.timing import Filtering
from kubesched.framework.status import SUCCESS, Code, Status, unresolvable
from kubesched.framework.verdicts import NodeToStatus, Verdicts
from kubesched.kit.log import Ref
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeRow, NodeTable, Rows

EXTENDER_PLUGIN = "Extender"
_LEFT_OUT = unresolvable("left out by the extender, which gave no reason")
# At most this many nodes are evaluated one by one.
FEW_ROWS_MAX = 4


@dataclass(frozen=True, slots=True)
class ExtenderFilter:
    """A request to have extenders filter nodes."""

    pod: PodInfo
    nodes: NodeTable


@dataclass(frozen=True, slots=True)
class ExtenderFilterOutcome:
    """The nodes that extenders accept, and their verdicts on others."""

    nodes: NodeTable
    """In their order; placeholder rows where an extender returned nodes of its own."""
    statuses: Mapping[str, Status] = field(default_factory=dict)
    """By node name; a name may belong to no node."""
    rejected_by: Mapping[str, str] = field(default_factory=dict)
    """For explanations: the extender that rejected a node or left it out, by node name."""


@dataclass(frozen=True, slots=True)
class ExtenderPrioritize:
    """A request to have extenders score nodes."""

    pod: PodInfo
    nodes: NodeTable


@dataclass(frozen=True, slots=True)
class ExtenderPrioritizeOutcome:
    """The weighted scores of extenders."""

    added: Mapping[str, IntColumn]
    """By extender."""
    scored: BoolColumn
    """Which nodes have a score of some extender, even zero."""


ExtenderRequest: TypeAlias = ExtenderFilter | ExtenderPrioritize
ExtenderOutcome: TypeAlias = ExtenderFilterOutcome | ExtenderPrioritizeOutcome
PodScheduling: TypeAlias = "Generator[ExtenderRequest, ExtenderOutcome, ScheduleResult]"


def schedule_pod(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> PodScheduling:
    """Choose a node; raise FitError if none fits, SchedulingError if something went wrong."""
    if view.node_count == 0:
        raise NoNodesError
    result = schedule_by_kept_verdicts(profile, view, state, pod, search)
    if result is not None:
        return result
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
) -> Generator[ExtenderRequest, ExtenderOutcome, tuple[NodeTable, Diagnosis]]:
    """Return the feasible nodes, in visiting order, and the verdicts on the others."""
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
        # Parity: upstream's set of plugins is the diagnosis' own, so that it includes the plugin
        # that rejected the nominated node.
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
    # Before extenders, whose verdicts may replace those of plugins.
    diagnosis.unschedulable_plugins |= diagnosis.node_to_status.plugins()
    diagnosis.pending_plugins |= diagnosis.node_to_status.plugins(Code.PENDING)
    left = yield from _pass_extenders(pod, feasible, diagnosis, search)
    if len(left) != len(feasible):
        diagnosis.unschedulable_plugins.add(EXTENDER_PLUGIN)
    return left, diagnosis


def prioritize_nodes(
    profile: Profile, state: CycleState, pod: PodInfo, nodes: NodeTable, search: Search
) -> Generator[ExtenderRequest, ExtenderOutcome, Scores]:
    """Score the feasible nodes."""
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
        assert isinstance(answer, ExtenderPrioritizeOutcome)
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
) -> Generator[ExtenderRequest, ExtenderOutcome, NodeTable | None]:
    """Return the node that the pod is nominated for, alone, if it still fits."""
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
    """Return the verdict on one node, by plain numbers if no other pod is nominated for it."""
    view, row = node.view, node.rows.item(0)
    by_row = None
    if all(view.bound_pod(index).uid == pod.uid for index in view.nominated_on(row)):
        by_row = profile.filters.row_filters(state)
    if by_row is None:
        return profile.run_filter_plugins_with_nominated_pods(state, pod, node)[0]
    return _first_rejection(by_row, state, pod, view.row(row)) or SUCCESS


def _first_rejection(
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
    """Return the first feasible nodes, each evaluated by plain numbers."""
    fitting: list[int] = []
    for row in nodes.rows.tolist():
        if len(fitting) >= want:
            break
        status = _first_rejection(filters, state, pod, nodes.view.row(row))
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
    """Return the first feasible nodes from the rotating start, as many as are wanted."""
    if len(nodes) == 0:
        return nodes
    want = search.want(profile, len(nodes))
    if not search.all_nodes:
        nodes = nodes.take(np.roll(np.arange(len(nodes)), -(search.next_start_index % len(nodes))))
    if len(nodes) <= FEW_ROWS_MAX and not any(map(nodes.view.nominated_on, nodes.rows.tolist())):
        by_row = profile.filters.row_filters(state)
        if by_row is not None:
            return _pass_one_by_one(by_row, state, pod, nodes, diagnosis, want)
    # Columns are evaluated whole. A one-node filter is slow, and must not see nodes that upstream
    # would not visit.
    one_by_one = profile.filters.has_one_node_filters
    verdicts, judged, found = Verdicts(len(nodes)), 0, 0
    while judged < len(nodes) and found < want:
        size = nodes_to_evaluate(want, judged, found) if one_by_one else len(nodes)
        chunk = np.arange(judged, min(judged + size, len(nodes)))
        part = nodes if len(chunk) == len(nodes) else nodes.take(chunk)
        verdicts.add_rejections(
            chunk, profile.run_filter_plugins_with_nominated_pods(state, pod, part)
        )
        judged += len(chunk)
        found = int(np.count_nonzero(verdicts.fits[:judged]))
    fitting: Rows = np.flatnonzero(verdicts.fits[:judged])[:want]
    if len(fitting) == want:
        judged = int(fitting[-1]) + 1  # Nodes after the last one wanted are not visited.
    visited = verdicts.at(slice(judged))
    failure = visited.first_error()
    if failure is not None:
        raise SchedulingError(failure.message)
    diagnosis.node_to_status.set_all(nodes.rows[:judged], visited)
    return nodes.take(fitting)


def _filtering(profile: Profile, state: CycleState) -> Filtering:
    """Return a context that measures the filtering of all nodes."""
    # Parity: schedule_one.go findNodesThatPassFilters, v1.36.
    measuring = profile.measuring if profile.has_filter_plugins else None
    return Filtering(measuring, state)


def _pass_extenders(
    pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis, search: Search
) -> Generator[ExtenderRequest, ExtenderOutcome, NodeTable]:
    if not search.has_extender_filters or len(nodes) == 0:
        return nodes
    answer = yield ExtenderFilter(pod, nodes)
    assert isinstance(answer, ExtenderFilterOutcome)
    if answer.statuses:
        diagnosis.node_to_status.set_named(answer.statuses)
    view = nodes.view
    for name in answer.nodes.names if diagnosis.by_extender else ():
        diagnosis.by_extender.pop(view.row_of(name), None)
    for name, extender in answer.rejected_by.items():
        row = view.row_of(name)
        if row >= 0:
            status = answer.statuses.get(name, _LEFT_OUT)
            diagnosis.by_extender[row] = status.by(extender)
    return answer.nodes


def run_without_extenders(attempt: PodScheduling) -> ScheduleResult:
    """Run an attempt that makes no request to extenders."""
    try:
        request = next(attempt)
    except StopIteration as done:
        result: ScheduleResult = done.value
        return result
    raise AssertionError(f"an attempt without extenders made the request {request}")


def best_names(nodes: NodeTable, positions: Sequence[int]) -> list[str]:
    """Return the names at some positions, sorted."""
    names = nodes.names
    return sorted(names[position] for position in positions)
