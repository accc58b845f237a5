"""What would have to change for a pod to fit on more nodes: each change is made, and judged again.

Owns which changes are worth a try, and how many. A change is made to a copy of the pod or of the
profile, and the nodes are filtered by the engine as for any other pod: nothing is concluded that
was not tried. Never scores, never evicts, and leaves no kept verdicts behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.diagnosis import FitError, SchedulingError
from kubesched.engine.explanation import Attempt, Change
from kubesched.engine.pod_changes import (
    PodChange,
    affinity_changes,
    node_affinity_changes,
    port_changes,
    spread_changes,
    with_requests,
    with_toleration,
    without_nomination,
    without_volume,
)
from kubesched.engine.schedule_pod import find_nodes_that_fit
from kubesched.engine.search import Search
from kubesched.framework.adapt import column_filter
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.nominated import promised_pods
from kubesched.framework.plugin_sets import PluginSets
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Verdicts
from kubesched.model.amounts import amount
from kubesched.model.pod_info import PodInfo
from kubesched.model.resources import PODS
from kubesched.model.tolerations import Taint, untolerated

CHANGES_MAX = 40
TAINTS_MAX = 8
EXAMPLES = 3
VALUES_OF_A_KEY_MAX = 3
SETS_MAX = 3
_FIT = "NodeResourcesFit"
_TAINTS = "TaintToleration"
_CORDONED = "NodeUnschedulable"
_CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_KEEPING_OFF = ("NoSchedule", "NoExecute")
_INSUFFICIENT = "Insufficient "
_REQUESTS = "spec.containers[*].resources.requests"


def changes_for(one: Attempt, *, node: str = "") -> tuple[Change, ...]:
    """Return the changes that would open nodes, those of the pod's own fields before whole plugins.

    Args:
        one: an attempt whose columns still stand, made with its detail.
        node: only what would open this node.
    """
    return tuple(_WhatIf(one, one.view.row_of(node) if node else -1).changes())


def feasible_rows(profile: Profile, view: ClusterView, pod: PodInfo) -> Rows:
    """Return the rows that fit a pod, filtered anew; none if filtering ends with an error."""
    search = Search(all_nodes=True)
    filtering = find_nodes_that_fit(profile, view, CycleState(), without_nomination(pod), search)
    try:
        next(filtering)
    except StopIteration as done:
        feasible, _ = done.value
        rows: Rows = feasible.rows
        return rows
    except (FitError, SchedulingError):
        return np.zeros(0, dtype=np.int64)
    raise AssertionError("nobody outside is asked")


def without_plugins(profile: Profile, names: Iterable[str]) -> Profile:
    """Return the profile as if some plugins neither pre-filtered nor filtered."""
    dropped = frozenset(names)
    points = {
        point: tuple(name for name in profile.plugin_names(point) if name not in dropped)
        for point in ("preFilter", "filter")
    }
    return Profile(profile.name, PluginSets(points, {}, {}), profile.plugins)


@dataclass(frozen=True, slots=True)
class Said:
    """What one plugin says of the nodes by itself; None where it left itself out."""

    plugin: str
    verdicts: Verdicts | None
    is_whole: bool = False
    """Whether it refuses the pod before it comes to nodes, and so all of them."""

    @property
    def refuses_some(self) -> bool:
        """Return whether any of the nodes is refused."""
        return self.verdicts is not None and not self.verdicts.fits.all()


def verdicts_by_plugin(profile: Profile, view: ClusterView, pod: PodInfo, rows: Rows) -> list[Said]:
    """Return every filter's verdict on some rows, whatever those before it said.

    Plugins that refuse the pod as a whole refuse every row, and come along though they filter none.
    """
    pod = without_nomination(pod)
    nodes, state = view.nodes_at(rows), CycleState()
    remaining, refusing = profile, dict[str, Status]()
    while True:
        outcome = remaining.run_pre_filter_plugins(state, pod, view.all_nodes())
        status, named = outcome.status, outcome.plugins_with_nodes
        if status is None or not (status.plugin or named):
            break
        refusing |= dict.fromkeys([status.plugin] if status.plugin else named, status)
        remaining, state = without_plugins(profile, refusing), CycleState()
    said = []
    pre_filters = [profile.plugins[name] for name in remaining.plugin_names("preFilter")]
    filters = profile.plugin_names("filter")
    for name in (*(one for one in refusing if one not in filters), *filters):
        if name in refusing:
            verdicts = Verdicts(len(rows))
            verdicts.refuse(verdicts.fits, refusing[name])
            said.append(Said(name, verdicts, is_whole=True))
        elif name in state.skip_filter_plugins:
            said.append(Said(name, None))
        else:
            phase = FilterPhase(pre_filters, [column_filter(profile.plugins[name])])
            said.append(Said(name, phase.judge_with_nominated(state, pod, nodes)))
    return said


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
        yield from self._larger_than_any_node()
        if not found:
            yield from self._several(refusing)

    def _of_plugin(self, plugin: str) -> Iterator[Change]:
        if plugin == _CORDONED:
            # A cordoned node has a taint as well, so that passing over this plugin is not enough.
            uncordoned = with_toleration(self._pod, _CORDON_TAINT, any_value=True)
            change = PodChange("uncordon", "", "once uncordoned", uncordoned)
            yield from self._tried(plugin, [change])
        opened = self._opened(without_plugins(self._profile, [plugin]), self._pod)
        if len(opened):
            yield from self._of_fields(plugin, opened)
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

    def _change(self, kind: str, plugin: str, text: str, opened: Rows, field: str = "") -> Change:
        return Change(
            kind=kind,
            plugin=plugin,
            field=field,
            text=text,
            opens=len(opened),
            nodes=tuple(self._view.name_of(row) for row in opened[:EXAMPLES].tolist()),
        )

    def _tried(self, plugin: str, changes: Iterable[PodChange]) -> Iterator[Change]:
        for change in changes:
            if (change.kind, change.field, change.text) in self._tried_already:
                continue  # Another plugin reads the same field.
            self._tried_already.add((change.kind, change.field, change.text))
            opened = self._opened(self._profile, change.pod)
            if len(opened):
                yield self._change(change.kind, plugin, change.text, opened, change.field)

    # -- the fields a plugin reads ----------------------------------------------------------------

    def _of_fields(self, plugin: str, opened: Rows) -> Iterator[Change]:
        if plugin == _FIT:
            yield from self._nearest_shortfall(opened)
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
            pod = with_toleration(self._pod, taint, any_value=any_value)
            text = f"with a toleration of {_taint_text(taint, any_value=any_value)}"
            yield PodChange("toleration", "spec.tolerations", text, pod)

    # -- room ---------------------------------------------------------------------------------

    def _nearest_shortfall(self, candidates: Rows) -> Iterator[Change]:
        """Yield what is missing on the node that lacks least, of those that only lack room."""
        columns = self._shortages(candidates)
        if not columns:
            return
        requests = [1 if name == PODS else self._pod.requests[name] for name in columns]
        shares = np.array([c / r for c, r in zip(columns.values(), requests, strict=True)])
        worst = np.where(shares.any(axis=0), shares.max(axis=0), np.inf)
        # Of nodes that lack as large a part of one request, the one that lacks fewer others.
        place = int(np.lexsort((shares.sum(axis=0), worst))[0])
        row = candidates.item(place)
        short = {name: column.item(place) for name, column in columns.items() if column[place]}
        # Nobody can ask for less than nothing, which is enough where more is taken than there is.
        most = dict(zip(columns, requests, strict=True)) | {PODS: short.get(PODS, 0)}
        lacks = {name: min(value, most[name]) for name, value in short.items()}
        opened: Rows = np.array([row])
        if lacks and PODS not in lacks:
            opened = self._opened(self._profile, with_requests(self._pod, lacks))
        if not lacks or row not in opened:
            return
        others = opened[opened != row][: EXAMPLES - 1].tolist()
        yield Change(
            kind="resources",
            plugin=_FIT,
            field="" if PODS in lacks else _REQUESTS,
            text=self._shortfall_text(row, short, len(candidates)),
            opens=len(opened),
            nodes=tuple(self._view.name_of(row) for row in (row, *others)),
            lacks=lacks,
        )

    def _shortages(self, rows: Rows) -> dict[str, IntColumn]:
        """Return by resource how much each row lacks, promised pods counted as there."""
        nodes = self._view.nodes_at(rows)
        promised = promised_pods(nodes, self._pod)
        columns: dict[str, IntColumn] = {}
        for name in self._complained_of(rows):
            request = self._pod.requests[name]
            taken = np.array([sum(p.requests[name] for p in pods) for pods in promised])
            free = nodes.allocatable[name] - nodes.requested[name] - taken
            columns[name] = np.maximum(request - free, 0)
        count = nodes.pod_count + np.array([len(pods) for pods in promised])
        crowded = np.maximum(count + 1 - nodes.allowed_pods, 0)
        return columns | {PODS: crowded} if crowded.any() else columns

    def _complained_of(self, rows: Rows) -> list[str]:
        """Return the resources of which the plugin says that there is too little somewhere.

        It may have been told to ignore others.
        """
        points: dict[str, tuple[str, ...]] = {"preFilter": (_FIT,), "filter": (_FIT,)}
        alone = Profile(self._profile.name, PluginSets(points, {}, {}), self._profile.plugins)
        state, pod = CycleState(), without_nomination(self._pod)
        alone.run_pre_filter_plugins(state, pod, self._view.all_nodes())
        nodes = self._view.nodes_at(rows)
        said = alone.run_filter_plugins_with_nominated_pods(state, pod, nodes)
        reasons = {reason for status in said.statuses for reason in status.reasons}
        return [name for name in pod.requests if f"{_INSUFFICIENT}{name}" in reasons]

    def _shortfall_text(self, row: int, short: dict[str, int], count: int) -> str:
        parts, over = [], []
        for name, value in short.items():
            request = self._pod.requests[name]
            if name == PODS:
                parts.append(
                    "room for one more pod" if value == 1 else f"room for {value} more pods"
                )
            elif value <= request:
                parts.append(f"{amount(name, value, up=True)} {name}")
            else:
                parts.append(f"all of its {amount(name, request, up=True)} {name}")
                over.append(f"{amount(name, value - request, up=True)} {name}")
        note = f" (overcommitted by {' and '.join(over)})" if over else ""
        least = f", the least short of {count} nodes that would fit otherwise" if count > 1 else ""
        return f"lacks {' and '.join(parts)} on {self._view.name_of(row)}{note}{least}"

    def _larger_than_any_node(self) -> Iterator[Change]:
        """Yield the resources of which the pod asks more than any node has."""
        if self._only_row >= 0 or _FIT not in self._profile.plugin_names("filter"):
            return
        nodes = self._view.all_nodes()
        for name in self._complained_of(nodes.rows):
            request = self._pod.requests[name]
            largest = int(nodes.allocatable[name].max(initial=0))
            if request <= largest:
                continue
            has = f"the largest node has {amount(name, largest)}" if largest else "no node has any"
            yield Change(
                kind="too-large",
                plugin=_FIT,
                field=_REQUESTS,
                text=f"asks for {amount(name, request, up=True)} {name}; {has}",
                opens=0,
                nodes=(),
                lacks={name: request - largest},
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
                text = f"without {', '.join(names[:-1])} and {names[-1]} together"
                yield self._change("plugins", ", ".join(names), text, opened)


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


def _taint_text(taint: Taint, *, any_value: bool) -> str:
    value = f"={taint.value}" if taint.value else ""
    note = " (any value)" if any_value else ""
    return f"{taint.key}{value}:{taint.effect}{note}"
