"""Which plugins of a profile are kept for a pod, and which run in every attempt.

Owns the split by what plugins declare to read, and the preparation of the kept ones (PreFilter and
PreScore). Never evaluates a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any, NamedTuple, TypeVar

from kubesched.attempt.kept.columns import SharedColumns
from kubesched.attempt.select_host import width_for
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fast import IncrementalFilter, IncrementalScore
from kubesched.framework.interface import NODE_SCORE_MAX, Reads
from kubesched.framework.runtime.adapters import (
    ColumnFilter,
    ColumnScore,
    OneNodeFilter,
    declared_reads,
    guarded,
)
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import SKIP
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable

PluginT = TypeVar("PluginT", bound=Any)
LAYOUTS_MAX = 256


class ProfileLayout:
    """A profile's plugins as kept verdicts see them."""

    def __init__(self, profile: Profile) -> None:
        filters, scores = profile.filters.filters, profile.scores.scores
        self.pre_filters: Sequence[Any] = profile.filters.pre_filters
        self.filters = [f for f in filters if isinstance(f, ColumnFilter)]
        self.one_node_filters = [f for f in filters if isinstance(f, OneNodeFilter)]
        self.pre_scores: Sequence[Any] = profile.scores.pre_scores
        self.scores = scores
        self.column_scores = [s for s in scores if isinstance(s, ColumnScore)]
        self.weights = profile.scores.weights
        self.total_max = NODE_SCORE_MAX * sum(abs(weight) for weight in self.weights.values())
        """The highest absolute value of a total."""
        self.width = width_for(self.weights.values())
        """The integers that hold packed totals."""
        self.shared = SharedColumns()
        self.keys = profile.pod_keys
        # A one-node filter must come last: the nodes it sees depend on the filters before it.
        self.is_supported = bool(scores) and filters == [*self.filters, *self.one_node_filters]
        points = (self.pre_filters, filters, self.pre_scores, scores)
        self.names = tuple(dict.fromkeys(p.name for point in points for p in point))
        columns = (*self.filters, *self.column_scores)
        one_node = {p.name for p in (*filters, *scores) if p not in columns}
        self.readers = [None if name in one_node else profile.plugins[name] for name in self.names]
        self._layouts: dict[tuple[Any, ...], SignatureLayout] = {}
        self._latest: SignatureLayout | None = None

    def prepare(self, pod: PodInfo, nodes: NodeTable) -> tuple[SignatureLayout, CycleState] | None:
        """Run PreFilter and PreScore of the plugins that are kept for a pod.

        Return the layout and the state they wrote; None if a plugin rejects the pod as a whole,
        names nodes or fails.
        """
        reads = [declared_reads(reader, pod) for reader in self.readers]
        by_name = dict(zip(self.names, reads, strict=True))
        state = CycleState()
        skipped_filters = _run("pre_filter", self.pre_filters, by_name, state, pod, nodes)
        if skipped_filters is None:
            return None
        skipped_scores = _run("pre_score", self.pre_scores, by_name, state, pod, nodes)
        if skipped_scores is None:
            return None
        layout = self._layout_by(reads, by_name, skipped_filters, skipped_scores)
        state.skip_filter_plugins = layout.skipped_filters
        state.skip_score_plugins = layout.skipped_scores
        return layout, state

    def _layout_by(
        self,
        reads: list[Reads | None],
        by_name: dict[str, Reads | None],
        skipped_filters: tuple[str, ...],
        skipped_scores: tuple[str, ...],
    ) -> SignatureLayout:
        latest = self._latest
        # Most plugins declare the same object each time, which compares faster than its hash.
        if (
            latest is not None
            and latest.skipped == (skipped_filters, skipped_scores)
            and all(map(is_, latest.reads.values(), reads))
        ):
            return latest
        key = (*reads, skipped_filters, skipped_scores)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= LAYOUTS_MAX:
                self._layouts.clear()
            layout = SignatureLayout(self, by_name, skipped_filters, skipped_scores)
            self._layouts[key] = layout
        self._latest = layout
        return layout


def _run(
    method: str,
    plugins: Iterable[Any],
    reads: dict[str, Reads | None],
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
) -> tuple[str, ...] | None:
    """Run a point of the kept plugins; return those to skip, None if one has any other result."""
    skipped: list[str] = []
    for plugin in plugins:
        declared = reads[plugin.name]
        if declared is None:
            continue
        result = SKIP if declared.idle else guarded(getattr(plugin, method), state, pod, nodes)
        if result is SKIP:
            skipped.append(plugin.name)
        elif result is not None:
            return None
    return tuple(skipped)


class SignatureLayout:
    """The split of a profile's plugins for pods for which they declare the same reads."""

    def __init__(
        self,
        profile: ProfileLayout,
        reads: dict[str, Reads | None],
        skipped_filters: tuple[str, ...],
        skipped_scores: tuple[str, ...],
    ) -> None:
        self.profile = profile
        self.reads = reads
        """By plugin; None for those that run in every attempt."""
        self.skipped = (skipped_filters, skipped_scores)
        self.skipped_filters = frozenset(skipped_filters)
        self.skipped_scores = frozenset(skipped_scores)
        declared = [plugin_reads for plugin_reads in reads.values() if plugin_reads is not None]
        self.stores = tuple(sorted({store for r in declared for store in r.objects}))
        """The kinds of objects that kept plugins read."""
        self.term_readers = [
            reader
            for reader, plugin_reads in zip(profile.readers, reads.values(), strict=True)
            if plugin_reads is not None and plugin_reads.terms
        ]
        """The plugins whose `reads` depends on which affinity terms there are."""
        filters = self._kept(profile.filters, self.skipped_filters)
        scores = self._kept(profile.column_scores, self.skipped_scores)
        self.fixed_filters = [kept for kept in filters if not kept[1].usage]
        self.fixed_scores = [kept for kept in scores if not kept[1].usage]
        self.usage_filters = [kept for kept in filters if kept[1].usage]
        self.usage_scores = [kept for kept in scores if kept[1].usage]
        self.is_all_kept = len(declared) == len(reads)
        """Whether no plugin runs in every attempt."""
        self.uncached_pre_filters = self._uncached(profile.pre_filters)
        self.uncached_filters = self._uncached(profile.filters)
        self.uncached_pre_scores = self._uncached(profile.pre_scores)
        self.uncached_scores = self._uncached(profile.scores)

    def _kept(
        self, plugins: Iterable[PluginT], skipped: frozenset[str]
    ) -> list[tuple[PluginT, Reads]]:
        """Return the kept plugins that are not skipped, with what they read."""
        return [
            (plugin, reads)
            for plugin in plugins
            if (reads := self.reads[plugin.name]) is not None and plugin.name not in skipped
        ]

    def _uncached(self, plugins: Iterable[PluginT]) -> list[PluginT]:
        return [plugin for plugin in plugins if self.reads[plugin.name] is None]


class UncachedPlugins(NamedTuple):
    """The plugins that run in every attempt, the incremental ones apart."""

    pre_filters: list[Any]
    filters: list[ColumnFilter]
    pre_scores: list[Any]
    scores: list[Any]
    incremental_filters: dict[str, IncrementalFilter] = {}
    incremental_scores: dict[str, IncrementalScore] = {}

    @classmethod
    def called_each(cls, layout: SignatureLayout) -> UncachedPlugins:
        """Return the plugins with every call made."""
        return cls(
            layout.uncached_pre_filters,
            layout.uncached_filters,
            layout.uncached_pre_scores,
            layout.uncached_scores,
        )

    @classmethod
    def incremental(
        cls, layout: SignatureLayout, pod: PodInfo, view: ClusterView
    ) -> UncachedPlugins:
        """Return the plugins, incremental where they offer that."""
        # One call replaces two points, so that a plugin must take part in both.
        filters = _incremental(layout.uncached_filters, layout.uncached_pre_filters, pod, view)
        scores = _incremental(layout.uncached_scores, layout.uncached_pre_scores, pod, view)
        return cls(
            [p for p in layout.uncached_pre_filters if p.name not in filters],
            [p for p in layout.uncached_filters if p.name not in filters],
            [p for p in layout.uncached_pre_scores if p.name not in scores],
            [p for p in layout.uncached_scores if p.name not in scores],
            filters,
            scores,
        )


def _incremental(
    plugins: Iterable[Any], before: Iterable[Any], pod: PodInfo, view: ClusterView
) -> dict[str, Any]:
    names = {plugin.name for plugin in before}
    offered = {
        plugin.name: plugin.incremental(pod, view)
        for plugin in plugins
        if plugin.incremental is not None and plugin.name in names
    }
    return {name: plugin for name, plugin in offered.items() if plugin is not None}
