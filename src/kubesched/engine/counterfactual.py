"""What would have to change for a pod to fit on more nodes: each change is made, and judged again.

Owns which changes are worth a try, and how many. A change is made to a copy of the pod or of the
profile, and the nodes are filtered by the engine as for any other pod: nothing is concluded that
was not tried. Never scores, never evicts, and leaves no kept verdicts behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from kubesched.columns.view import Rows
from kubesched.engine.diagnosis import FitError
from kubesched.engine.explanation import Attempt, Change, ChangePart
from kubesched.engine.filtered_anew import feasible_rows, verdicts_by_plugin, without_plugins
from kubesched.engine.pod_changes import (
    PodChange,
    affinity_changes,
    changed,
    node_affinity_changes,
    port_changes,
    spread_changes,
    tolerating,
    without_volume,
)
from kubesched.engine.shortfall import FIT, REQUESTS, larger_than_any_node, nearest_shortfall
from kubesched.framework.profile import Profile
from kubesched.model.pod_info import PodInfo
from kubesched.model.tolerations import Taint, untolerated

CHANGES_MAX = 40
TAINTS_MAX = 8
EXAMPLES = 3
VALUES_OF_A_KEY_MAX = 3
SETS_MAX = 3
TOGETHER_MAX = 10
_TAINTS = "TaintToleration"
_CORDONED = "NodeUnschedulable"
_CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_UNCORDONED = PodChange(
    "uncordon", "", "once uncordoned", tolerating(_CORDON_TAINT, any_value=True)
)
_KEEPING_OFF = ("NoSchedule", "NoExecute")


def changes_for(one: Attempt, *, node: str = "") -> tuple[Change, ...]:
    """Return the changes that would open nodes, those of the pod's own fields before whole plugins.

    Args:
        one: an attempt whose columns still stand, made with its detail.
        node: only what would open this node.
    """
    return tuple(_WhatIf(one, one.view.row_of(node) if node else -1).changes())


class _WhatIf:
    """One pod's changes: the fields of each refusing plugin, then the plugins as wholes."""

    def __init__(self, one: Attempt, only_row: int) -> None:
        self._one = one
        self._profile = one.profile
        self._view = one.view
        self._pod = one.pod
        self._only_row = only_row
        now = one.fitting_rows()
        if one.is_by_nomination:
            now = feasible_rows(one.profile, one.view, one.pod)
        self._fits_now = np.zeros(one.view.row_count, dtype=np.bool_)
        self._fits_now[now] = True
        self._tries_left = CHANGES_MAX
        self._tried_already: set[tuple[str, str, str]] = set()

    def changes(self) -> Iterator[Change]:
        """Yield what opens nodes."""
        if self._view.node_count == 0:
            return
        refusing = self._refusing_plugins()
        found = [change for plugin in refusing for change in self._of_plugin(plugin)]
        yield from found
        if self._only_row < 0:
            yield from larger_than_any_node(self._profile, self._view, self._pod)
        if not found:
            yield from self._several(refusing)

    def _of_plugin(self, plugin: str) -> Iterator[Change]:
        if plugin == _CORDONED:
            # A cordoned node has a taint as well, so that passing over this plugin is not enough.
            yield from self._tried(plugin, [_UNCORDONED])
        opened = self._opened(without_plugins(self._profile, [plugin]), self._pod)
        if len(opened):
            fields = list(self._of_fields(plugin, opened))
            yield from fields or self._together([plugin], opened)
            yield self._change("plugin", plugin, f"without {plugin}", opened)
        elif _FIELDS.get(plugin) is without_volume:
            # Several plugins read a volume: passing over one of them may open nothing.
            yield from self._of_fields(plugin, opened)

    def _refusing_plugins(self) -> list[str]:
        """Return who refused the pod or some node first, in the order of the profile."""
        one = self._one
        found = {group.status.plugin for group in one.groups()}
        if isinstance(one.failure, FitError):
            found |= one.failure.diagnosis.unschedulable_plugins
        if self._only_row >= 0 or one.is_by_nomination:
            # Nobody was asked about these nodes, or not everybody.
            rows = self._view.visiting_rows()
            if self._only_row >= 0:
                rows = np.array([self._only_row])
            said = verdicts_by_plugin(self._profile, self._view, self._pod, rows)
            here = {one.plugin for one in said if one.refuses_some}
            found = here | (found - set(self._profile.plugin_names("filter")))
        order = dict.fromkeys(
            (*self._profile.plugin_names("preFilter"), *self._profile.plugin_names("filter"))
        )
        return [name for name in order if name in found]

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

    def _change(self, kind: str, plugin: str, text: str, opened: Rows, field: str = "") -> Change:
        return Change(
            kind=kind,
            plugin=plugin,
            field=field,
            text=text,
            opens=len(opened),
            nodes=self._names(opened),
        )

    def _names(self, opened: Rows) -> tuple[str, ...]:
        return tuple(self._view.name_of(row) for row in opened[:EXAMPLES].tolist())

    def _tried(self, plugin: str, changes: Iterable[PodChange]) -> Iterator[Change]:
        for change in changes:
            if (change.kind, change.field, change.text) in self._tried_already:
                continue  # Another plugin reads the same field.
            self._tried_already.add((change.kind, change.field, change.text))
            opened = self._opened_by(change)
            if len(opened):
                yield self._change(change.kind, plugin, change.text, opened, change.field)

    # -- the fields a plugin reads ----------------------------------------------------------------

    def _of_fields(self, plugin: str, opened: Rows) -> Iterator[Change]:
        if plugin == FIT:
            yield from self._least_short(opened)
        elif plugin in _FIELDS:
            yield from self._tried(plugin, _FIELDS[plugin](self._pod))
        elif plugin == _TAINTS:
            yield from self._tried(plugin, self._tolerations(opened))

    def _tolerations(self, opened: Rows) -> Iterator[PodChange]:
        """Yield a toleration for each taint that keeps the pod off, the commonest first."""
        nodes = self._view.nodes_at(opened)
        sets, counts = np.unique(nodes.taint_set, return_counts=True)
        found: dict[Taint, int] = {}
        for taint_set, count in zip(sets.tolist(), counts.tolist(), strict=True):
            taints = nodes.taint_sets.values[taint_set]
            for taint in untolerated(taints, self._pod.tolerations, _KEEPING_OFF):
                found[taint] = found.get(taint, 0) + count
        values: dict[tuple[str, str], list[Taint]] = {}
        for taint in found:
            values.setdefault((taint.key, taint.effect), []).append(taint)
        wanted: dict[tuple[Taint, bool], int] = {}
        for alike in values.values():
            many = len(alike) > VALUES_OF_A_KEY_MAX
            for taint in alike:
                key = (Taint(taint.key, "", taint.effect) if many else taint, many)
                wanted[key] = wanted.get(key, 0) + found[taint]
        commonest = sorted(wanted, key=lambda key: (-wanted[key], key[0].key, key[0].value))
        for taint, any_value in commonest[:TAINTS_MAX]:
            text = f"with a toleration of {_taint_text(taint, any_value=any_value)}"
            edit = tolerating(taint, any_value=any_value)
            yield PodChange("toleration", "spec.tolerations", text, edit)

    def _least_short(self, candidates: Rows) -> Iterator[Change]:
        """Yield what is missing on the node that lacks least, of those that only lack room."""
        found = nearest_shortfall(self._profile, self._view, self._pod, candidates)
        if found is None:
            return
        opened = self._opened_by(found.asking_for_less())
        if not found.is_of_requests:
            # Room for more pods is the node's to give: nobody but this plugin refuses it.
            opened = np.union1d(opened, [found.row])
        elif found.row not in opened:
            return
        ordered = np.concatenate(([found.row], opened[opened != found.row]))
        yield Change(
            kind="resources",
            plugin=FIT,
            field=REQUESTS if found.is_of_requests else "",
            text=found.text(self._view.name_of(found.row), len(candidates)),
            opens=len(opened),
            nodes=self._names(ordered),
            lacks=found.lacks,
        )

    # -- several at once ----------------------------------------------------------------------

    def _several(self, refusing: list[str]) -> Iterator[Change]:
        """Yield the fewest plugins that would have to be passed over together, most nodes first."""
        rows = self._view.visiting_rows()
        if self._only_row >= 0:
            rows = np.array([self._only_row])
        said = verdicts_by_plugin(self._profile, self._view, self._pod, rows)
        judging = {s.plugin for s in said if s.verdicts is not None}
        against = [s for s in said if s.refuses_some]
        if not against:
            return
        refused = np.array([~s.verdicts.fits for s in against if s.verdicts is not None])
        fewest = int(refused.sum(axis=0).min())
        near = np.flatnonzero(refused.sum(axis=0) == fewest)
        patterns, counts = np.unique(refused[:, near], axis=1, return_counts=True)
        narrowing = [name for name in refusing if name not in judging]
        for place in np.argsort(-counts, kind="stable")[:SETS_MAX].tolist():
            is_in = patterns[:, place].tolist()
            names = [*narrowing, *(s.plugin for s, one in zip(against, is_in, strict=True) if one)]
            if len(names) < 2:
                return
            opened = self._opened(without_plugins(self._profile, names), self._pod)
            if len(opened):
                yield from self._together(names, opened)
                text = f"without {_listed(names)} together"
                yield self._change("plugins", ", ".join(names), text, opened)

    def _together(self, plugins: Sequence[str], candidates: Rows) -> Iterator[Change]:
        """Yield the changes to the pod that open a node together, and none that it can do without.

        Args:
            plugins: who refuses the node.
            candidates: nodes that nobody else refuses.
        """
        row, offered = self._ways(plugins, candidates)
        if not 2 <= len(offered) <= TOGETHER_MAX or self._tries_left <= len(offered):
            return  # Whether it can do without a change is tried for each of them.
        needed, opened = offered, self._opened_by(*offered)
        if row not in opened:
            return
        # What changes most comes last, and is the first that is taken back.
        for change in reversed(offered):
            others = [other for other in needed if other is not change]
            opened_by_others = self._opened_by(*others)
            if row in opened_by_others:
                needed, opened = others, opened_by_others
        ordered = np.concatenate(([row], opened[opened != row]))
        yield Change(
            kind="fields",
            plugin=", ".join(plugins),
            text=_listed([change.text for change in needed]),
            opens=len(opened),
            nodes=self._names(ordered),
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

    def _ways(self, plugins: Sequence[str], candidates: Rows) -> tuple[int, list[PodChange]]:
        """Return the node that needs least, and all that could be changed for it, each once."""
        row = candidates.item(0)
        found: dict[tuple[str, str, str], PodChange] = {}

        def offer(*changes: PodChange) -> None:
            for change in changes:
                found.setdefault((change.kind, change.field, change.text), change)

        short = None
        if FIT in plugins:
            short = nearest_shortfall(self._profile, self._view, self._pod, candidates)
            if short is None or not short.is_of_requests:
                return row, []
            row = short.row
        for plugin in plugins:
            if plugin == _CORDONED:
                offer(_UNCORDONED)
            elif plugin == _TAINTS:
                offer(*self._tolerations(np.array([row])))
            elif plugin in _FIELDS:
                offer(*_FIELDS[plugin](self._pod))
        if short is not None:
            offer(short.asking_for_less())
        return row, list(found.values())


_FIELDS: dict[str, Callable[[PodInfo], Iterator[PodChange]]] = {
    "PodTopologySpread": spread_changes,
    "InterPodAffinity": affinity_changes,
    "NodeAffinity": node_affinity_changes,
    "NodePorts": port_changes,
    "VolumeBinding": without_volume,
    "VolumeZone": without_volume,
    "VolumeRestrictions": without_volume,
    "NodeVolumeLimits": without_volume,
}
"""What of a pod each plugin reads, one part after the other left out."""


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _taint_text(taint: Taint, *, any_value: bool) -> str:
    value = f"={taint.value}" if taint.value else ""
    note = " (any value)" if any_value else ""
    return f"{taint.key}{value}:{taint.effect}{note}"
