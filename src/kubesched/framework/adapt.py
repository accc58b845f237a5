"""One-node plugins behind the column contract, and the guard around every plugin's call.

Owns the wrapping, done once when a profile is built, and the checks of what a plugin returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn, IntColumn, NodeCells, NodeLines, Room
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeRow, NodeTable, Rows
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fence import NONSENSE as _NONSENSE
from kubesched.framework.fence import RAISED as _RAISED
from kubesched.framework.fence import Fence
from kubesched.framework.interface import (
    NODE_SCORE_MAX,
    NODE_SCORE_MIN,
    AllReasons,
    FilterVerdict,
    Rejected,
)
from kubesched.framework.registry import AT_ONCE
from kubesched.framework.sealed import sealed
from kubesched.framework.status import Code, Status, StatusError, error, unschedulable
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.model.pod_info import PodInfo

ResultT = TypeVar("ResultT")
CellsRuleMaker: TypeAlias = "Callable[[CycleState, PodInfo], Callable[[NodeCells], Any] | None]"
LinesRuleMaker: TypeAlias = "Callable[[CycleState, PodInfo], Callable[[NodeLines], Any] | None]"
RoomRuleMaker: TypeAlias = "Callable[[CycleState, PodInfo], Callable[[Room], Any] | None]"
_FEW_REJECTIONS = 12
_OUT = unschedulable()
"""Stands for what refused a node before."""


class ColumnFilter:
    """A filter over all nodes at once."""

    one_node = False

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._judge: Callable[..., FilterVerdict] = plugin.filter_nodes
        self.reads: Callable[[PodInfo], Any] | None = getattr(plugin, "reads", None)
        self.fragment: Callable[[PodInfo], Hashable] | None = getattr(plugin, "fragment", None)
        self.takes_rows = bool(getattr(plugin, "takes_rows", False))
        self.refuses_by_cells: CellsRuleMaker | None = _unfenced(plugin, "refuses_by_cells")
        """Makes what tells quickly, by a row's numbers, that the row is certainly not refused."""
        self.refuses_by_lines: RoomRuleMaker | None = _unfenced(plugin, "refuses_by_lines")
        """Makes what tells quickly that certainly none of some rows is refused."""
        self.follower = _follower_maker(plugin, "filter_follower", ("pre_filter", "filter_nodes"))
        """Makes what keeps the verdict of a template current; see `followers`."""

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeTable, verdicts: Verdicts) -> None:
        """Refuse nodes among those still standing."""
        verdict = asked("Filter", self.name, self._checked, state, pod, nodes)
        if not verdict:
            return
        if isinstance(verdict, Status):
            verdict = [Rejected(np.ones(len(nodes), dtype=np.bool_), verdict)]
        self.tell(verdict, verdicts)

    def tell(self, said: FilterVerdict, verdicts: Verdicts) -> None:
        """Refuse the nodes among those still standing that the filter said it refuses."""
        if isinstance(said, AllReasons):
            _collect(self.name, said, verdicts)
            return
        for rejected in said:
            verdicts.refuse(rejected.mask, attributed(self.name, rejected.status))

    def narrow(self, state: CycleState, pod: PodInfo, nodes: NodeTable, fits: BoolColumn) -> bool:
        """Strike out the nodes that are refused; the same rule, where nobody asks why.

        Return whether nothing failed; a node whose verdict is an error is struck out, too.
        """
        verdict = asked("Filter", self.name, self._checked, state, pod, nodes)
        if isinstance(verdict, Status):
            fits[:] = False
            return False
        succeeded = True
        for rejected in verdict.rejections if isinstance(verdict, AllReasons) else verdict:
            # What fits and is not in the mask is greater than the mask.
            np.greater(fits, rejected.mask, out=fits)
            succeeded = succeeded and rejected.status.is_rejected
        return succeeded

    def ask(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Return what the filter says, in its own form."""
        verdict = asked("Filter", self.name, self._checked, state, pod, nodes)
        if isinstance(verdict, Status):
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), verdict)]
        said: FilterVerdict = verdict
        return said

    def judge_row(self, state: CycleState, pod: PodInfo, node: NodeRow) -> Status | None:
        """Judge one row by plain values; the same rule, a tenth of the cost."""
        try:
            verdict: Any = self._judge(state, pod, node)
        except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per row
            verdict = _status_of(problem)
        if not verdict:
            return None
        if isinstance(verdict, Status):
            return attributed(self.name, verdict)
        if isinstance(verdict, AllReasons):
            held = [rejected.status for rejected in verdict.rejections if rejected.mask]
            return attributed(self.name, _joined(held)) if held else None
        for rejected in verdict:
            if rejected.mask:
                return attributed(self.name, rejected.status)
        return None

    def _checked(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        verdict = self._judge(state, pod, nodes)
        check_verdict(verdict, len(nodes))
        return verdict


class OneNodeFilter:
    """A filter for one node, run on the nodes still standing."""

    one_node = True

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._filter: Callable[..., Status | None] = plugin.filter
        self._fence: Fence | None = getattr(plugin, "kubesched_fence", None)
        self.reads: Callable[[PodInfo], Any] | None = getattr(plugin, "reads", None)

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeTable, verdicts: Verdicts) -> None:
        """Refuse nodes among those still standing."""
        self.judge_at(state, pod, nodes, np.flatnonzero(verdicts.fits), verdicts)

    def judge_at(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, asked: Rows, verdicts: Verdicts
    ) -> None:
        """Refuse nodes among those asked about, by their positions; all of them still stand."""
        fence = self._fence
        if fence is None:
            self._judge_each(state, pod, nodes, asked, verdicts)
            return
        try:
            # All nodes together are one call: what each takes is far less than measuring it.
            handed = (state, sealed(pod), sealed(nodes), asked, verdicts)
            fence.ask("Filter", "filter", self._judge_each, *handed)
        except StatusError as slow:
            verdicts.ids[asked] = verdicts.id_for(attributed(self.name, slow.status))

    def _judge_each(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, asked: Rows, verdicts: Verdicts
    ) -> None:
        call = _measured("Filter", self.name, self._filter, state)
        faults: set[str] = set()
        known: dict[Status, int] = {}
        for position, node in zip(asked.tolist(), nodes.at(asked), strict=True):
            try:
                status = call(state, pod, node)
            except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per node
                status = _status_of(problem)
                faults.add(_RAISED)
            if status is None:
                continue
            # Most refusals of a filter are equal.
            found = known.get(status) if status.__class__ is Status else None
            if found is None:
                found = self._id_for(status, verdicts, faults)
                if status.__class__ is Status:
                    known[status] = found
            verdicts.ids[position] = found
        _count(self._fence, "Filter", faults)

    def _id_for(self, answer: Any, verdicts: Verdicts, faults: set[str]) -> int:
        status = self._sound(answer, faults)
        if status is None or status.is_success:
            return FITS
        return verdicts.id_for(attributed(self.name, status))

    def narrow(self, state: CycleState, pod: PodInfo, nodes: NodeTable, fits: BoolColumn) -> None:
        """Strike out the nodes that are refused; the same rule, where nobody asks why."""
        verdicts = Verdicts(len(nodes))
        verdicts.ids[~fits] = verdicts.id_for(_OUT)
        self.judge(state, pod, nodes, verdicts)
        fits &= verdicts.fits

    def _sound(self, answer: Any, faults: set[str]) -> Status | None:
        """Return a filter's answer, or an error in place of nonsense."""
        status = as_status(answer, "filter")
        if status is not None and not isinstance(status.code, Code):
            status = error(f"filter() returned a status of code {status.code!r}, expected a Code")
        if status is not answer:
            faults.add(_NONSENSE)
        return status


class ColumnScore:
    """A score over all fitting nodes at once."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._score: Callable[..., Any] = plugin.score_nodes
        # Nobody but plans wants them narrow, and what is behind a fence is asked through it.
        self._narrow_score = _unfenced(plugin, "narrow_scores") or self._score
        self.normalize: Callable[..., IntColumn] | None = getattr(plugin, "normalize_scores", None)
        # Whether rows of one raw score stay equal whatever their number: true of all scaling.
        self.keeps_equals_equal = bool(getattr(plugin, "normalizes_by_scaling", False))
        self.scores_by_cells: CellsRuleMaker | None = _unfenced(plugin, "scores_by_cells")
        """Makes what scores a row by its numbers, where none of them is large."""
        self.scores_by_lines: LinesRuleMaker | None = _unfenced(plugin, "scores_by_lines")
        """Makes what scores some rows by their numbers, never leaving the range of scores."""
        calls = ("pre_score", "score_nodes", "normalize_scores")
        self.follower = _follower_maker(plugin, "score_follower", calls)
        """Makes what keeps the scores of a template current; see `followers`."""
        self.fragment: Callable[[PodInfo], Hashable] | None = getattr(plugin, "fragment", None)

    def score_row(self, state: CycleState, pod: PodInfo, node: NodeRow) -> int | Status:
        """Score one row by plain values; the same rule, a tenth of the cost."""
        try:
            score: int | Status = self._score(state, pod, node)
        except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost per row
            return _status_of(problem)
        return score

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn | Status:
        """Return a raw score per node, or why there is none."""
        return as_scores(asked("Score", self.name, self._score, state, pod, nodes), len(nodes))

    def narrow_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> NDArray[Any] | Status:
        """Return the same as integers of whatever width the plugin gives."""
        found = asked("Score", self.name, self._narrow_score, state, pod, nodes)
        return _as_integers(found, len(nodes))


class OneNodeScore:
    """A score for one node, asked for each fitting node."""

    follower = None
    """Nothing is kept of it."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._score: Callable[..., int] = plugin.score
        self._fence: Fence | None = getattr(plugin, "kubesched_fence", None)
        self.normalize: Callable[..., IntColumn] | None = getattr(plugin, "normalize_scores", None)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn | Status:
        """Return a raw score per node, or why there is none."""
        fence = self._fence
        if fence is None:
            return self._score_each(state, pod, nodes, set())
        faults: set[str] = set()
        try:
            answer: IntColumn | Status = fence.ask(
                "Score", "score", self._score_each, state, sealed(pod), sealed(nodes), faults
            )
        except StatusError as failed:
            return failed.status
        _count(fence, "Score", faults)
        if isinstance(answer, Status):
            fence.keep_failure("Score", (state,), StatusError(answer))
        elif self.normalize is None and _is_outside(answer):
            fence.count_out_of_range("Score", state)  # The score phase refuses it, as upstream.
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
            faults.add(_RAISED)
            return _status_of(problem)
        answer = as_scores(scores, len(nodes)) if scores else np.zeros(0, np.int64)
        if isinstance(answer, Status):
            faults.add(_NONSENSE)
        return answer


def _unfenced(plugin: Any, method: str) -> Any | None:
    # What is behind a fence is asked through it, which takes longer than this saves.
    fence = getattr(plugin, "kubesched_fence", None)
    return getattr(plugin, method, None) if fence is None else None


def _follower_maker(
    plugin: Any, method: str, in_place_of: Sequence[str]
) -> Callable[[PodInfo, ClusterView], Any] | None:
    """Return a plugin's maker of followers, if it speaks for the calls it takes the place of."""
    if getattr(plugin, "kubesched_fence", None) is not None:
        return None
    # A class made from another may have given these calls another meaning.
    kinds = type(plugin).__mro__
    makers = {_first_with(name, kinds) for name in (method, *in_place_of)}
    return getattr(plugin, method) if len(makers) == 1 and None not in makers else None


def _first_with(name: str, kinds: Iterable[type]) -> type | None:
    return next((kind for kind in kinds if name in vars(kind)), None)


def column_filter(plugin: Any) -> ColumnFilter | OneNodeFilter:
    """Return the plugin's filter as the runtime sees it."""
    return ColumnFilter(plugin) if hasattr(plugin, "filter_nodes") else OneNodeFilter(plugin)


def column_score(plugin: Any) -> ColumnScore | OneNodeScore:
    """Return the plugin's score as the runtime sees it."""
    return ColumnScore(plugin) if hasattr(plugin, "score_nodes") else OneNodeScore(plugin)


class PodExtensions:
    """A plugin's way to suppose pods on nodes, or gone from them."""

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
            status: Status | None = asked(point, self.name, change, state, pod, pods, nodes)
            return status
        assert len(nodes) == 1, "a one-node plugin's state speaks of one node at a time"
        changed = pods[0]
        if changed is None:
            return None
        change = getattr(self._plugin, f"{verb}_pod")
        one: Status | None = asked(point, self.name, change, state, pod, changed, nodes[0])
        return one


def pod_extensions(plugin: Any) -> PodExtensions | None:
    """Return the plugin's add and remove, if it has them."""
    has_any = hasattr(plugin, "add_pods") or hasattr(plugin, "add_pod")
    return PodExtensions(plugin) if has_any else None


def guarded(call: Callable[..., ResultT], *arguments: Any) -> ResultT | Any:
    """Call a plugin; an exception becomes a status, so that it fails this pod and no more."""
    try:
        return call(*arguments)
    except Exception as problem:  # noqa: BLE001 - any fault of a plugin ends its call, not the scheduler
        return _status_of(problem)


def asked(point: str, plugin: str, call: Callable[..., Any], state: CycleState, *rest: Any) -> Any:
    """Call a plugin as `guarded` does, and have it measured if this attempt's plugins are.

    Args:
        point: as metrics spell it.
        plugin: its name.
        call: what to call, with the state and the rest.
        state: of the attempt.
        rest: of the arguments.
    """
    times = state.plugin_times
    if times is not None:
        return times.ask(point, plugin, call, state, *rest)
    try:
        return call(state, *rest)
    except Exception as problem:  # noqa: BLE001 - as in `guarded`, without its cost
        return _status_of(problem)


def _measured(
    point: str, plugin: str, call: Callable[..., Any], state: CycleState
) -> Callable[..., Any]:
    """Return what to call in place of a plugin's method, the method itself in most attempts."""
    times = state.plugin_times
    return call if times is None else partial(times.ask, point, plugin, call)


def _status_of(problem: Exception) -> Status:
    if isinstance(problem, StatusError):
        return problem.status
    return error(f"{type(problem).__name__}: {problem}")


def as_status(answer: Any, method: str) -> Status | None:
    """Check what a plugin returned: a status, or nothing for success."""
    if answer is None or isinstance(answer, Status):
        return answer
    awaits = _refusal_to_wait((answer,), f"{method}()")
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
        return error(f"returned scores that are no column: {problem}")
    if array.dtype.kind == "O":
        awaits = _refusal_to_wait(array.flat, "scoring")
        if awaits is not None:
            return awaits
    if array.shape != (count,):
        return error(f"returned scores of shape {array.shape}, expected ({count},)")
    if array.dtype.kind not in "iu":
        return error(f"returned scores of type {array.dtype}, expected integers")
    return array


def _refusal_to_wait(answers: Iterable[Any], what: str) -> Status | None:
    """Return an error if a plugin wants to be waited for where nobody can."""
    awaited = [one for one in answers if inspect.isawaitable(one)]
    for one in awaited:
        if inspect.iscoroutine(one):
            one.close()  # Else Python warns that it was never awaited.
    return error(f"{what} returned an awaitable, but {AT_ONCE}") if awaited else None


def _count(fence: Fence | None, point: str, faults: set[str]) -> None:
    """Count what went wrong over all nodes, each kind once."""
    if fence is not None:
        for fault in sorted(faults):
            fence.count(point, fault)


def _is_outside(scores: IntColumn) -> bool:
    return bool(((scores > NODE_SCORE_MAX) | (scores < NODE_SCORE_MIN)).any())


def _collect(plugin: str, verdict: AllReasons, verdicts: Verdicts) -> None:
    """Give each node all reasons that hold for it, and the worst code among them."""
    rejections = list(verdict.rejections)
    # Which of the rejections hold, as a number per node; distinct numbers are few.
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
    """Return the numbers that there are beside zero, in their order."""
    # Counting is many times as fast as sorting, where there are few to count.
    found = np.flatnonzero(np.bincount(patterns)) if few else np.unique(patterns)
    return [pattern for pattern in found.tolist() if pattern]


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
        awaits = _refusal_to_wait((verdict,), "filter_nodes()")
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
