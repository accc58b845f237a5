"""Counterfactuals: which changes would make a pod fit on more nodes.

In-tree plugins offer changes to the pod in their records. Each change is made to a copy of the pod,
or of the profile for "without this plugin", and the nodes are filtered again as for any other pod:
nothing is reported that was not tried. Never scores, never evicts, and leaves no cached verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np

from kubesched.attempt.diagnosis import FitError
from kubesched.explanation.attempt_record import EXAMPLES, AttemptRecord
from kubesched.explanation.refilter import (
    PluginVerdicts,
    feasible_rows,
    verdicts_by_plugin,
    without_plugins,
)
from kubesched.explanation.report import Change, ChangePart
from kubesched.framework.runtime.profile import Profile
from kubesched.plugins.in_tree import IN_TREE
from kubesched.plugins.pod_changes import PodChange, RejectedPod, changed
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import Rows

CHANGES_MAX = 40
SETS_MAX = 3
TOGETHER_MAX = 10


def changes_for(attempted: AttemptRecord, *, node: str = "") -> tuple[Change, ...]:
    """Return the changes that would open nodes: to fields of the pod, then without a plugin.

    Args:
        attempted: An attempt whose snapshot is still current, recorded in detail.
        node: Return only changes that would open this node.
    """
    only_row = attempted.view.row_of(node) if node else -1
    return tuple(_Counterfactuals(attempted, only_row).changes())


class _Counterfactuals:
    """The changes for one pod, found with a limited number of tries."""

    def __init__(self, attempted: AttemptRecord, only_row: int) -> None:
        self._attempted = attempted
        self._profile = attempted.profile
        self._view = attempted.view
        self._pod = attempted.pod
        self._only_row = only_row
        fitting = attempted.fitting_rows()
        if attempted.is_by_nomination:
            fitting = feasible_rows(self._profile, self._view, self._pod)
        self._fits_now = np.zeros(self._view.row_count, dtype=np.bool_)
        self._fits_now[fitting] = True
        self._tries_left = CHANGES_MAX
        self._tried_already: set[tuple[str, str, str]] = set()

    def changes(self) -> Iterator[Change]:
        if self._view.node_count == 0:
            return
        rejecting = self._rejecting_plugins()
        changes = [change for plugin in rejecting for change in self._changes_of(plugin)]
        yield from changes
        if self._only_row < 0:
            yield from self._unmet_demands()
        if not changes:
            yield from self._several(rejecting)

    def _changes_of(self, plugin: str) -> Iterator[Change]:
        opened = self._opened(without_plugins(self._profile, [plugin]), self._pod)
        if len(opened):
            fields = list(self._tried(plugin, self._offers(plugin, opened)))
            yield from fields or self._together([plugin], opened)
            yield self._change("plugin", plugin, f"without {plugin}", opened)
        elif plugin in IN_TREE and IN_TREE[plugin].has_shared_changes:
            yield from self._tried(plugin, self._offers(plugin, opened))

    def _offers(self, plugin: str, rows: Rows) -> Iterable[PodChange]:
        """Return the changes that a plugin offers for nodes that nothing else rejects."""
        record = IN_TREE.get(plugin)
        if record is None or record.pod_changes is None:
            return ()
        return record.pod_changes(self._rejected(plugin, rows))

    def _rejected(self, plugin: str, rows: Rows) -> RejectedPod:
        return RejectedPod(self._profile.plugins[plugin], self._pod, self._view.nodes_at(rows))

    def _unmet_demands(self) -> Iterator[Change]:
        for plugin in self._profile.plugin_names("filter"):
            record = IN_TREE.get(plugin)
            if record is None or record.unmet_demands is None:
                continue
            rows = self._view.all_nodes().rows
            for demand in record.unmet_demands(self._rejected(plugin, rows)):
                yield Change(
                    kind="too-large",
                    plugin=plugin,
                    field=demand.field,
                    text=demand.text,
                    opens=0,
                    nodes=(),
                    lacks=dict(demand.lacks),
                )

    def _rejecting_plugins(self) -> list[str]:
        """Return the plugins that rejected the pod or some node, in the order of the profile."""
        attempted, filters = self._attempted, self._profile.plugin_names("filter")
        names = {group.status.plugin for group in attempted.groups()}
        if isinstance(attempted.failure, FitError):
            names |= attempted.failure.diagnosis.unschedulable_plugins
        if self._only_row >= 0 or attempted.is_by_nomination:
            # Not every plugin filtered these nodes.
            rejecting = {judged.plugin for judged in self._verdicts() if judged.rejects_some}
            names = rejecting | (names - set(filters))
        order = dict.fromkeys((*self._profile.plugin_names("preFilter"), *filters))
        return [name for name in order if name in names]

    def _verdicts(self) -> list[PluginVerdicts]:
        """Return every plugin's verdicts on all nodes, or on the only one of interest."""
        rows = self._view.visiting_rows() if self._only_row < 0 else np.array([self._only_row])
        return verdicts_by_plugin(self._profile, self._view, self._pod, rows)

    # -- trying -------------------------------------------------------------------------------

    def _opened(self, profile: Profile, pod: PodInfo) -> Rows:
        """Return the rows that fit after a change and do not now."""
        if self._tries_left <= 0:
            return np.zeros(0, dtype=np.int64)
        self._tries_left -= 1
        rows = np.sort(feasible_rows(profile, self._view, pod))
        opened = rows[~self._fits_now[rows]]
        return opened if self._only_row < 0 else opened[opened == self._only_row]

    def _opened_by(self, *changes: PodChange) -> Rows:
        return self._opened(self._profile, changed(self._pod, changes))

    def _change(self, kind: str, plugin: str, text: str, opened: Rows) -> Change:
        return Change(
            kind=kind,
            plugin=plugin,
            text=text,
            opens=len(opened),
            nodes=self._names(opened),
        )

    def _names(self, opened: Rows) -> tuple[str, ...]:
        return tuple(map(self._view.name_of, opened[:EXAMPLES].tolist()))

    def _tried(self, plugin: str, changes: Iterable[PodChange]) -> Iterator[Change]:
        for change in changes:
            key = (change.kind, change.field, change.text)
            if key in self._tried_already:
                continue  # Another plugin reads the same field.
            self._tried_already.add(key)
            opened = self._opened_by(change)
            if change.row >= 0:
                if change.needs_node:
                    opened = np.union1d(opened, [change.row])
                elif change.row not in opened:
                    continue
                opened = _with_first(change.row, opened)
            if len(opened):
                yield Change(
                    kind=change.kind,
                    plugin=plugin,
                    field=change.field,
                    text=change.text_alone or change.text,
                    opens=len(opened),
                    nodes=self._names(opened),
                    lacks=dict(change.lacks),
                )

    # -- several at once ----------------------------------------------------------------------

    def _several(self, rejecting: list[str]) -> Iterator[Change]:
        """Yield the smallest sets of plugins without which nodes fit, most nodes first."""
        verdicts = self._verdicts()
        filtering = {judged.plugin for judged in verdicts if judged.verdicts is not None}
        masks = {
            judged.plugin: ~judged.verdicts.fits
            for judged in verdicts
            if judged.verdicts is not None and judged.rejects_some
        }
        if not masks:
            return
        rejected = np.array(list(masks.values()))
        rejection_counts = rejected.sum(axis=0)
        nearest = np.flatnonzero(rejection_counts == rejection_counts.min())
        patterns, counts = np.unique(rejected[:, nearest], axis=1, return_counts=True)
        narrowing = [name for name in rejecting if name not in filtering]
        for place in np.argsort(-counts, kind="stable")[:SETS_MAX].tolist():
            names = [*narrowing, *compress(masks, patterns[:, place])]
            if len(names) < 2:
                return
            opened = self._opened(without_plugins(self._profile, names), self._pod)
            if len(opened):
                yield from self._together(names, opened)
                text = f"without {_listed(names)} together"
                yield self._change("plugins", ", ".join(names), text, opened)

    def _together(self, plugins: Sequence[str], candidates: Rows) -> Iterator[Change]:
        """Yield the fewest changes to the pod that open a node together.

        Args:
            plugins: The plugins that reject the node.
            candidates: Nodes that no other plugin rejects.
        """
        row, offered = self._combined(plugins, candidates)
        if not 2 <= len(offered) <= TOGETHER_MAX or self._tries_left <= len(offered):
            return  # Each of them is left out once, to see whether it is needed.
        needed, opened = offered, self._opened_by(*offered)
        if row not in opened:
            return
        for change in reversed(offered):
            others = [other for other in needed if other is not change]
            opened_by_others = self._opened_by(*others)
            if row in opened_by_others:
                needed, opened = others, opened_by_others
        yield Change(
            kind="fields",
            plugin=", ".join(plugins),
            text=_listed([change.text for change in needed]),
            opens=len(opened),
            nodes=self._names(_with_first(row, opened)),
            parts=tuple(
                ChangePart(
                    kind=change.kind,
                    field=change.field,
                    text=change.text,
                    lacks=dict(change.lacks),
                )
                for change in needed
            ),
        )

    def _combined(self, plugins: Sequence[str], candidates: Rows) -> tuple[int, list[PodChange]]:
        """Return the node that needs least, and each change that the plugins offer for it."""
        offers = [change for plugin in plugins for change in self._offers(plugin, candidates)]
        row = next((change.row for change in offers if change.row >= 0), candidates.item(0))
        distinct: dict[tuple[str, str, str], PodChange] = {}
        for plugin in plugins:
            for change in self._offers(plugin, np.array([row])):
                distinct.setdefault((change.kind, change.field, change.text), change)
        # Lower requests come last, and so are left out first.
        return row, sorted(distinct.values(), key=lambda change: change.row >= 0)


def _with_first(row: int, rows: Rows) -> Rows:
    return np.concatenate(([row], rows[rows != row]))


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
