"""Plugins as the runtime sees them: adapters, optional hooks, and the guard around every call.

Owns the wrapping, done once when a profile is built, the lookup of optional hooks, and the checks
of what a plugin returns. No other module looks for a hook of `framework.fast`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fast import (
    IncrementalFilter,
    IncrementalScore,
    MatrixRule,
    RoomRule,
    RowRule,
)
from kubesched.framework.interface import (
    NODE_SCORE_MAX,
    NODE_SCORE_MIN,
    AllReasons,
    FilterVerdict,
    Reads,
    Rejected,
)
from kubesched.framework.runtime.registry import MUST_NOT_AWAIT
from kubesched.framework.sandbox.budget import INVALID_RESULT, RAISED, Sandbox
from kubesched.framework.sandbox.read_only import as_read_only
from kubesched.framework.status import Code, Status, StatusError, error, unschedulable
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeRow, NodeTable, Rows

ResultT = TypeVar("ResultT")
RuleT = TypeVar("RuleT")
RuleMaker: TypeAlias = Callable[[CycleState, PodInfo], RuleT | None]
_FEW_REJECTIONS = 12
_REJECTED_BEFORE = unschedulable()
"""The rejection by an earlier filter."""


class ColumnFilter:
    """A filter over all nodes at once."""

    one_node = False

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._judge: Callable[..., FilterVerdict] = plugin.filter_nodes
        self.reads: Callable[[PodInfo], Any] | None = getattr(plugin, "reads", None)
        self.fragment: Callable[[PodInfo], Hashable] | None = getattr(plugin, "fragment", None)
        self.takes_rows = bool(getattr(plugin, "takes_rows", False))
        self.row_rejects: RuleMaker[RowRule] = _hook(plugin, "row_rejects") or _no_rule
        self.any_row_rejected: RuleMaker[RoomRule] = _hook(plugin, "any_row_rejected") or _no_rule
        self.incremental: Callable[[PodInfo, ClusterView], IncrementalFilter | None] | None = (
            _incremental(plugin, "incremental_filter", ("pre_filter", "filter_nodes"))
        )

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeTable, verdicts: Verdicts) -> None:
        """Reject nodes that are not rejected yet."""
        self.apply(self.verdict(state, pod, nodes), verdicts)

    def apply(self, verdict: FilterVerdict | IncrementalFilter, verdicts: Verdicts) -> None:
        """Reject nodes that are not rejected yet, by a verdict of the filter."""
        if isinstance(verdict, AllReasons):
            if verdict.rejections:
                _collect(self.name, verdict, verdicts)
            return
        for rejected in verdict:
            verdicts.reject(rejected.mask, attributed(self.name, rejected.status))

    def clear_rejected(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, fits: BoolColumn
    ) -> bool:
        """Clear the rejected nodes of a mask, without their statuses.

        Return whether nothing failed; a node whose verdict is an error is cleared too.
        """
        verdict = call_plugin("Filter", self.name, self._checked, state, pod, nodes)
        if isinstance(verdict, Status):
            fits[:] = False
            return False
        succeeded = True
        for rejected in verdict.rejections if isinstance(verdict, AllReasons) else verdict:
            # A node that fits and is not in the mask is greater than the mask.
            np.greater(fits, rejected.mask, out=fits)
            succeeded = succeeded and rejected.status.is_rejected
        return succeeded

    def verdict(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Return the filter's verdict in its own form."""
        verdict: FilterVerdict | Status
        verdict = call_plugin("Filter", self.name, self._checked, state, pod, nodes)
        if isinstance(verdict, Status):
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), verdict)]
        return verdict

    def judge_row(self, state: CycleState, pod: PodInfo, node: NodeRow) -> Status | None:
        """Evaluate one row with plain values, at a tenth of the cost of a table."""
        try:
            verdict: Any = self._judge(state, pod, node)
        except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per row
            verdict = status_of(problem)
        if not verdict:
            return None
        if isinstance(verdict, Status):
            return attributed(self.name, verdict)
        if isinstance(verdict, AllReasons):
            held = [rejected.status for rejected in verdict.rejections if rejected.mask]
            return attributed(self.name, _joined(held)) if held else None
        status = next((rejected.status for rejected in verdict if rejected.mask), None)
        return None if status is None else attributed(self.name, status)

    def _checked(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        verdict = self._judge(state, pod, nodes)
        check_verdict(verdict, len(nodes))
        return verdict


class OneNodeFilter:
    """A filter for one node, run on the nodes that no filter before it rejects."""

    one_node = True

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._filter: Callable[..., Status | None] = plugin.filter
        self._sandbox: Sandbox | None = getattr(plugin, "kubesched_sandbox", None)
        self.reads: Callable[[PodInfo], Any] | None = getattr(plugin, "reads", None)

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeTable, verdicts: Verdicts) -> None:
        """Reject nodes that are not rejected yet."""
        self.judge_at(state, pod, nodes, np.flatnonzero(verdicts.fits), verdicts)

    def judge_at(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, positions: Rows, verdicts: Verdicts
    ) -> None:
        """Reject some of the nodes at these positions, none of which is rejected yet."""
        sandbox = self._sandbox
        if sandbox is None:
            self._judge_each(state, pod, nodes, positions, verdicts)
            return
        arguments = (state, as_read_only(pod), as_read_only(nodes), positions, verdicts)
        try:
            # All nodes are measured as one call: a single one takes far less than measuring it.
            sandbox.call("Filter", "filter", self._judge_each, *arguments)
        except StatusError as slow:
            verdicts.ids[positions] = verdicts.id_for(attributed(self.name, slow.status))

    def _judge_each(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, positions: Rows, verdicts: Verdicts
    ) -> None:
        call = _measured("Filter", self.name, self._filter, state)
        faults: set[str] = set()
        ids: dict[Status, int] = {}
        for position, node in zip(positions.tolist(), nodes.at(positions), strict=True):
            try:
                status = call(state, pod, node)
            except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per node
                status = status_of(problem)
                faults.add(RAISED)
            if status is None:
                continue
            # Most rejections of a filter are equal.
            status_id = ids.get(status) if status.__class__ is Status else None
            if status_id is None:
                status_id = self._id_for(status, verdicts, faults)
                if status.__class__ is Status:
                    ids[status] = status_id
            verdicts.ids[position] = status_id
        _count(self._sandbox, "Filter", faults)

    def _id_for(self, answer: Any, verdicts: Verdicts, faults: set[str]) -> int:
        """Return the id of a filter's status; of an error if it is not a valid one."""
        status = as_status(answer, "filter")
        if status is not None and not isinstance(status.code, Code):
            status = error(f"filter() returned a status of code {status.code!r}, expected a Code")
        if status is not answer:
            faults.add(INVALID_RESULT)
        if status is None or status.is_success:
            return FITS
        return verdicts.id_for(attributed(self.name, status))

    def clear_rejected(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, fits: BoolColumn
    ) -> None:
        """Clear the rejected nodes of a mask, without their statuses."""
        verdicts = Verdicts(len(nodes))
        verdicts.ids[~fits] = verdicts.id_for(_REJECTED_BEFORE)
        self.judge(state, pod, nodes, verdicts)
        fits &= verdicts.fits


class ColumnScore:
    """A score over all fitting nodes at once."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._score: Callable[..., Any] = plugin.score_nodes
        self._compact_score = _hook(plugin, "compact_scores") or self._score
        self.normalize: Callable[..., IntColumn] | None = getattr(plugin, "normalize_scores", None)
        self.normalizes_by_scaling = bool(getattr(plugin, "normalizes_by_scaling", False))
        self.row_score: RuleMaker[RowRule] = _hook(plugin, "row_score") or _no_rule
        self.matrix_score: RuleMaker[MatrixRule] = _hook(plugin, "matrix_score") or _no_rule
        calls = ("pre_score", "score_nodes", "normalize_scores")
        self.incremental: Callable[[PodInfo, ClusterView], IncrementalScore | None] | None = (
            _incremental(plugin, "incremental_score", calls)
        )
        self.fragment: Callable[[PodInfo], Hashable] | None = getattr(plugin, "fragment", None)

    def score_row(self, state: CycleState, pod: PodInfo, node: NodeRow) -> int | Status:
        """Score one row with plain values, at a tenth of the cost of a table."""
        try:
            score: int | Status = self._score(state, pod, node)
        except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per row
            return status_of(problem)
        return score

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn | Status:
        """Return a raw score per node, or the status of a failure."""
        scores = call_plugin("Score", self.name, self._score, state, pod, nodes)
        return as_scores(scores, len(nodes))

    def compact_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> NDArray[Any] | Status:
        """Return the same scores in integers of the plugin's choice."""
        scores = call_plugin("Score", self.name, self._compact_score, state, pod, nodes)
        return _as_integers(scores, len(nodes))


class OneNodeScore:
    """A score for one node, called for each feasible node."""

    incremental = None

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._score: Callable[..., int] = plugin.score
        self._sandbox: Sandbox | None = getattr(plugin, "kubesched_sandbox", None)
        self.normalize: Callable[..., IntColumn] | None = getattr(plugin, "normalize_scores", None)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn | Status:
        """Return a raw score per node, or the status of a failure."""
        sandbox = self._sandbox
        if sandbox is None:
            return self._score_each(state, pod, nodes, set())
        faults: set[str] = set()
        arguments = (state, as_read_only(pod), as_read_only(nodes), faults)
        answer: IntColumn | Status
        try:
            answer = sandbox.call("Score", "score", self._score_each, *arguments)
        except StatusError as failure:
            return failure.status
        _count(sandbox, "Score", faults)
        if isinstance(answer, Status):
            sandbox.keep_failure("Score", (state,), StatusError(answer))
        elif self.normalize is None and has_out_of_range(answer):
            sandbox.count_out_of_range("Score", state)  # The score phase rejects it, as upstream.
        return answer

    def _score_each(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, faults: set[str]
    ) -> IntColumn | Status:
        call = _measured("Score", self.name, self._score, state)
        scores: list[Any] = []
        try:
            for node in nodes:
                score: Any = call(state, pod, node)
                if isinstance(score, Status):
                    return score
                scores.append(score)
        except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per node
            faults.add(RAISED)
            return status_of(problem)
        answer = as_scores(scores, len(nodes)) if scores else np.zeros(0, np.int64)
        if isinstance(answer, Status):
            faults.add(INVALID_RESULT)
        return answer


def _hook(plugin: Any, method: str) -> Any | None:
    """Return an optional hook, None for a sandboxed plugin: its calls pass through the sandbox."""
    sandbox = getattr(plugin, "kubesched_sandbox", None)
    return getattr(plugin, method, None) if sandbox is None else None


def _no_rule(state: CycleState, pod: PodInfo) -> None:
    """Replace a hook that a plugin does not have."""


def _incremental(plugin: Any, method: str, replaced: Sequence[str]) -> Any | None:
    """Return an incremental hook if the class that defines it defines the replaced methods too."""
    definers = {
        next((cls for cls in type(plugin).__mro__ if name in vars(cls)), None)
        for name in (method, *replaced)
    }
    return _hook(plugin, method) if len(definers) == 1 and None not in definers else None


def declared_reads(plugin: Any, pod: PodInfo) -> Reads | None:
    """Return what a plugin reads for a pod; None if it does not declare that, or fails to."""
    declare = getattr(plugin, "reads", None)
    if declare is None:
        return None
    try:
        reads = declare(pod)
    except Exception:  # noqa: BLE001 - the plugin is then called in every attempt, and fails there
        return None
    return reads if isinstance(reads, Reads) else None


def reserves_if_skipped(plugin: Any) -> bool:
    """Return whether a plugin may reserve for a pod that it skipped; see `fast.FastReserve`."""
    # Not by inheritance: a derived class may have more to reserve.
    return vars(type(plugin)).get("reserves_if_skipped") is not False


def binds_at_once(plugin: Any) -> bool:
    """Return whether a plugin only writes the binding; see `fast.FastBind`."""
    return bool(getattr(plugin, "binds_at_once", False))


class PodExtensions:
    """A plugin's AddPod and RemovePod, for one or for many nodes."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.one_node = not hasattr(plugin, "add_pods")
        self._plugin = plugin

    def change(
        self, verb: str, state: CycleState, pod: PodInfo, pods: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Run `add` or `remove` for one pod on each node."""
        point = f"PreFilterExtension{verb.capitalize()}Pod"
        if not self.one_node:
            change = getattr(self._plugin, f"{verb}_pods")
            return call_plugin(point, self.name, change, state, pod, pods, nodes)
        assert len(nodes) == 1, "the state of a one-node plugin is about one node at a time"
        changed = pods[0]
        if changed is None:
            return None
        change = getattr(self._plugin, f"{verb}_pod")
        return call_plugin(point, self.name, change, state, pod, changed, nodes[0])


def guarded(call: Callable[..., ResultT], *arguments: Any) -> ResultT | Any:
    """Call a plugin; turn an exception into a status, so that only this pod fails."""
    try:
        return call(*arguments)
    except Exception as problem:  # noqa: BLE001 - a fault of a plugin must not end the scheduler
        return status_of(problem)


def call_plugin(
    point: str, plugin: str, call: Callable[..., Any], state: CycleState, *rest: Any
) -> Any:
    """Call a plugin as `guarded` does, measured if this attempt is sampled."""
    times = state.plugin_times
    if times is not None:
        return times.call(point, plugin, call, state, *rest)
    try:
        return call(state, *rest)
    except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost
        return status_of(problem)


def _measured(
    point: str, plugin: str, call: Callable[..., Any], state: CycleState
) -> Callable[..., Any]:
    """Return a plugin's method, wrapped if this attempt is sampled."""
    times = state.plugin_times
    return call if times is None else partial(times.call, point, plugin, call)


def status_of(problem: Exception) -> Status:
    """Return the status of a plugin call that raised an exception."""
    if isinstance(problem, StatusError):
        return problem.status
    return error(f"{type(problem).__name__}: {problem}")


def as_status(answer: Any, method: str) -> Status | None:
    """Check what a plugin returned: a status, or nothing for success."""
    if answer is None or isinstance(answer, Status):
        return answer
    awaits = _awaitable_error((answer,), f"{method}()")
    return awaits or error(
        f"{method}() returned {type(answer).__name__}, expected a Status or None"
    )


def attributed(plugin: str, status: Status) -> Status:
    """Return a filter's status under its plugin's name, an error in upstream's words."""
    if status.is_rejected:
        return status.by(plugin)
    return Status(Code.ERROR, (f'running "{plugin}" filter plugin: {status.message}',), plugin)


def as_scores(scores: Any, count: int) -> IntColumn | Status:
    """Check what a score returned: one integer per node."""
    checked = _as_integers(scores, count)
    return checked if isinstance(checked, Status) else checked.astype(np.int64, copy=False)


def _as_integers(scores: Any, count: int) -> NDArray[Any] | Status:
    if isinstance(scores, Status):
        return scores
    try:
        array = np.asarray(scores)
    except (TypeError, ValueError, OverflowError) as problem:
        return error(f"returned scores that are not a column: {problem}")
    if array.dtype.kind == "O":
        awaits = _awaitable_error(array.flat, "scoring")
        if awaits is not None:
            return awaits
    if array.shape != (count,):
        return error(f"returned scores of shape {array.shape}, expected ({count},)")
    if array.dtype.kind not in "iu":
        return error(f"returned scores of type {array.dtype}, expected integers")
    return array


def _awaitable_error(answers: Iterable[Any], subject: str) -> Status | None:
    """Return an error if a plugin returned an awaitable where nothing can be awaited."""
    awaitables = [answer for answer in answers if inspect.isawaitable(answer)]
    for awaitable in awaitables:
        if inspect.iscoroutine(awaitable):
            awaitable.close()  # Else Python warns that it was never awaited.
    return error(f"{subject} returned an awaitable, but {MUST_NOT_AWAIT}") if awaitables else None


def _count(sandbox: Sandbox | None, point: str, faults: set[str]) -> None:
    """Count the faults over all nodes, each kind once."""
    if sandbox is not None:
        for fault in sorted(faults):
            sandbox.count(point, fault)


def has_out_of_range(scores: Any) -> bool:
    """Return whether a score is not between 0 and 100."""
    column = np.asarray(scores)
    return bool(((column > NODE_SCORE_MAX) | (column < NODE_SCORE_MIN)).any())


def _collect(plugin: str, verdict: AllReasons, verdicts: Verdicts) -> None:
    """Give each node all reasons that hold for it, and the worst code among them."""
    rejections = list(verdict.rejections)
    # A bit per rejection, a number per node; distinct numbers are few.
    few = len(rejections) < _FEW_REJECTIONS
    dtype: type = np.int16 if few else np.int64 if len(rejections) < 63 else object
    patterns: NDArray[Any] = np.zeros(len(verdicts), dtype=dtype)
    for number, rejected in enumerate(rejections):
        patterns += rejected.mask.astype(dtype) * (1 << number)
    patterns *= verdicts.fits
    for pattern in _distinct(patterns, few=few):
        held = [r.status for number, r in enumerate(rejections) if pattern >> number & 1]
        verdicts.ids[patterns == pattern] = verdicts.id_for(attributed(plugin, _joined(held)))


def _distinct(patterns: NDArray[Any], *, few: bool) -> list[int]:
    """Return the distinct numbers except zero, in ascending order."""
    # Counting is many times as fast as sorting if the numbers are small.
    distinct = np.flatnonzero(np.bincount(patterns)) if few else np.unique(patterns)
    return [pattern for pattern in distinct.tolist() if pattern]


def _joined(held: Sequence[Status]) -> Status:
    """Return one status with all reasons; an error among them makes it an error."""
    worst = next((s for s in held if not s.is_rejected), None) or max(
        held, key=lambda status: status.code
    )
    return Status(worst.code, tuple(reason for status in held for reason in status.reasons))


def check_verdict(verdict: Any, count: int) -> None:
    """Raise TypeError unless a column filter returned masks of the right shape."""
    rejections = verdict.rejections if isinstance(verdict, AllReasons) else verdict
    if not isinstance(rejections, Sequence):
        awaits = _awaitable_error((verdict,), "filter_nodes()")
        if awaits is not None:
            raise StatusError(awaits)
        raise TypeError(
            f"filter_nodes() returned {type(verdict).__name__}, expected a list of Rejected"
        )
    for rejected in rejections:
        mask: Any = getattr(rejected, "mask", None)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,):
            got = f"{getattr(mask, 'dtype', type(mask).__name__)} of shape {np.shape(mask)}"
            raise TypeError(f"a mask must be bool of shape ({count},), not {got}")
