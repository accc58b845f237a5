"""What plans have in common whose pods differ in little more than what they ask for.

Owns what plugins say of a pod before they look at single rows, asked once for each family of pods
where that is all it depends on, and the lists that follow from it. Never judges a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kubesched.columns.view import NodeTable
from kubesched.framework.adapt import ColumnFilter, ColumnScore, guarded
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads
from kubesched.framework.kept_columns import Fixed, PlanParts, declared_reads
from kubesched.framework.status import SKIP
from kubesched.model.pod_info import PodInfo

AnyPluginT = TypeVar("AnyPluginT", bound=Any)
PluginT = TypeVar("PluginT", ColumnFilter, ColumnScore)
Calls: TypeAlias = "list[tuple[str, Callable[..., Any]]]"
"""What to call, by plugin."""


class NotLocalError(Exception):
    """The attempt is not one that kept verdicts can answer; the ordinary way must be gone."""


class Frame:
    """Who is asked about rows, who is left out and what is fixed."""

    def __init__(
        self,
        parts: PlanParts,
        reads: dict[str, Reads | None],
        skipped_filters: Sequence[str],
        skipped_scores: Sequence[str],
        of_family: frozenset[str],
    ) -> None:
        self.reads = reads
        """What each plugin reads; None for those to be asked in every attempt."""
        self.skipped_filters = frozenset(skipped_filters)
        self.skipped_scores = frozenset(skipped_scores)
        stores = {store for one in reads.values() if one is not None for store in one.objects}
        self.stores = sorted(stores)
        self.by_terms = [name for name, one in reads.items() if one is not None and one.terms]
        filters = self._local(parts.filters, self.skipped_filters)
        scores = self._local(parts.column_scores, self.skipped_scores)
        self.still_filters = [one for one in filters if not one[1].usage]
        self.still_scores = [one for one in scores if not one[1].usage]
        self.moving_filters = [one for one in filters if one[1].usage]
        self.moving_scores = [one for one in scores if one[1].usage]
        still = [plugin.name for plugin, _ in self.still_filters]
        still += [plugin.name for plugin, _ in self.still_scores]
        self.is_still_by_family = of_family.issuperset(still)
        """Whether what is fixed is so for the whole family."""
        self.fixed: Fixed | None = None
        self.is_all_kept = None not in reads.values()
        """Whether no plugin has to be asked anew."""
        self.live_pre_filters = self._live(parts.pre_filters)
        self.live_filters = self._live(parts.filters)
        self.live_pre_scores = self._live(parts.pre_scores)
        self.live_scores = self._live(parts.scores)
        self._skipping: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}

    def _local(
        self, plugins: Sequence[PluginT], skipped: frozenset[str]
    ) -> list[tuple[PluginT, Reads]]:
        """Return the local plugins that are not skipped, with what they read."""
        found: list[tuple[PluginT, Reads]] = []
        for plugin in plugins:
            reads = self.reads[plugin.name]
            if reads is not None and plugin.name not in skipped:
                found.append((plugin, reads))
        return found

    def _live(self, plugins: Sequence[AnyPluginT]) -> list[AnyPluginT]:
        """Return those that have to be asked anew."""
        return [plugin for plugin in plugins if self.reads[plugin.name] is None]

    def skipping(self, point: str, live: tuple[str, ...]) -> frozenset[str]:
        """Return who is left out of an attempt's filters or scores.

        Args:
            point: `filter` or `score`.
            live: those among the plugins asked anew that said so.
        """
        key = (point, live)
        found = self._skipping.get(key)
        if found is None:
            kept = self.skipped_filters if point == "filter" else self.skipped_scores
            found = self._skipping[key] = frozenset((*kept, *live))
        return found


class _Way(NamedTuple):
    """Whom to ask about pods for which plugins declare the same."""

    declared: Sequence[Reads | None]
    reads: dict[str, Reads | None]
    """The same by plugin, with what is so for the family."""
    pre_filters: Calls
    idle_filters: tuple[str, ...]
    pre_scores: Calls
    idle_scores: tuple[str, ...]
    frames: dict[tuple[tuple[str, ...], tuple[str, ...]], Frame]
    """By who else says that it is to be left out."""


class Family:
    """What plugins say of every pod of a family, and whom to ask about each pod beside that.

    True for as long as the nodes stay as they are.
    """

    def __init__(self, parts: PlanParts, pod: PodInfo, nodes: NodeTable) -> None:
        self._parts = parts
        self._reads: dict[str, Reads | None] = {}
        self._state = CycleState()
        # Before anything else: a pod that is refused or sent to named nodes has no plan.
        pre_filters = self._of_family(parts.pre_filters, pod)
        skipped_filters = prepared("pre_filter", pre_filters, self._reads, self._state, pod, nodes)
        for name in parts.names:
            self._is_of_family(name, pod)
        pre_scores = self._of_family(parts.pre_scores, pod)
        skipped_scores = prepared("pre_score", pre_scores, self._reads, self._state, pod, nodes)
        self._skipped = (skipped_filters, skipped_scores)
        self._others = [name for name in parts.names if name not in self._reads]
        self._declare = [parts.declarations[name] for name in self._others]
        self._other_pre_filters = [p for p in parts.pre_filters if p.name not in self._reads]
        self._other_pre_scores = [p for p in parts.pre_scores if p.name not in self._reads]
        self._ways: dict[tuple[Reads | None, ...], _Way] = {}
        self._way: _Way | None = None
        """That of the pod before."""

    def _of_family(self, plugins: Iterable[Any], pod: PodInfo) -> Iterator[Any]:
        return (plugin for plugin in plugins if self._is_of_family(plugin.name, pod))

    def _is_of_family(self, name: str, pod: PodInfo) -> bool:
        """Return whether a plugin says the same of the whole family; note what it reads."""
        if name not in self._reads and name in self._parts.same_for_family:
            reads = self._parts.reads_of(name, pod)
            if reads is not None and not reads.objects and not reads.terms:
                self._reads[name] = reads
        return name in self._reads

    def frame_of(self, pod: PodInfo, nodes: NodeTable) -> tuple[Frame, CycleState]:
        """Return the frame of a pod of this family, and what plugins wrote for the pod.

        Raises:
            NotLocalError: Somebody has something to say of the pod as a whole.
        """
        declared = [declared_reads(declare, pod) for declare in self._declare]
        way = self._way
        if way is None or not all(map(is_, declared, way.declared)):
            way = self._way = self._way_by(declared)
        state = CycleState()
        state.adopt(self._state)
        skipped = (
            prepare(way.pre_filters, state, pod, nodes),
            prepare(way.pre_scores, state, pod, nodes),
        )
        frame = way.frames.get(skipped)
        if frame is None:
            frame = way.frames[skipped] = Frame(
                self._parts,
                way.reads,
                (*self._skipped[0], *way.idle_filters, *skipped[0]),
                (*self._skipped[1], *way.idle_scores, *skipped[1]),
                frozenset(self._reads),
            )
        state.skip_filter_plugins = frame.skipped_filters
        state.skip_score_plugins = frame.skipped_scores
        return frame, state

    def _way_by(self, declared: Sequence[Reads | None]) -> _Way:
        """Return whom to ask about pods for which the others declare this."""
        key = tuple(declared)
        way = self._ways.get(key)
        if way is None:
            others = dict(zip(self._others, declared, strict=True))
            reads = {name: others.get(name, self._reads.get(name)) for name in self._parts.names}
            way = self._ways[key] = _Way(
                declared,
                reads,
                *to_prepare("pre_filter", self._other_pre_filters, reads),
                *to_prepare("pre_score", self._other_pre_scores, reads),
                {},
            )
        return way


def prepared(
    method: str,
    plugins: Iterable[Any],
    reads: Mapping[str, Reads | None],
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
) -> tuple[str, ...]:
    """Have the local ones among plugins prepare for a pod; return who is to be left out.

    Args:
        method: `pre_filter` or `pre_score`.
        plugins: to be asked, in order.
        reads: what each of them reads.
        state: what they write to.
        pod: which pod it is.
        nodes: all rows.
    """
    calls, idle = to_prepare(method, plugins, reads)
    return (*idle, *prepare(calls, state, pod, nodes))


def to_prepare(
    method: str, plugins: Iterable[Any], reads: Mapping[str, Reads | None]
) -> tuple[Calls, tuple[str, ...]]:
    """Return whom of plugins to have prepare, and who is left out without that."""
    calls: Calls = []
    idle: tuple[str, ...] = ()
    for plugin in plugins:
        declared = reads[plugin.name]
        if declared is not None and declared.idle:
            idle += (plugin.name,)
        elif declared is not None:
            calls.append((plugin.name, getattr(plugin, method)))
    return calls, idle


def prepare(calls: Calls, state: CycleState, pod: PodInfo, nodes: NodeTable) -> tuple[str, ...]:
    """Have plugins prepare for a pod; return who of them is to be left out."""
    skipped: tuple[str, ...] = ()
    for name, call in calls:
        result = guarded(call, state, pod, nodes)
        if result is SKIP:
            skipped += (name,)
        elif result is not None:
            # Whatever it says of the pod as a whole is said in the ordinary way.
            raise NotLocalError
    return skipped
