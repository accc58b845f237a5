"""Filtering outside of an attempt: a changed pod, fewer plugins, or each plugin alone.

Never scores, never evicts, and leaves no cached verdicts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import find_nodes_that_fit
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.filter_phase import FilterPhase
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, Rows


def feasible_rows(profile: Profile, view: ClusterView, pod: PodInfo) -> Rows:
    """Filter all nodes for a pod; return the rows that fit, none if filtering fails."""
    search = Search(all_nodes=True)
    filtering = find_nodes_that_fit(profile, view, CycleState(), _without_nomination(pod), search)
    try:
        next(filtering)
    except StopIteration as done:
        feasible, _ = done.value
        rows: Rows = feasible.rows
        return rows
    except (FitError, SchedulingError):
        return np.zeros(0, dtype=np.int64)
    raise AssertionError("no extender takes part")


def without_plugins(profile: Profile, names: Iterable[str]) -> Profile:
    """Return the profile as if some plugins neither pre-filtered nor filtered."""
    dropped = frozenset(names)
    points = {
        point: tuple(name for name in profile.plugin_names(point) if name not in dropped)
        for point in ("preFilter", "filter")
    }
    return profile.with_points(points)


@dataclass(frozen=True, slots=True)
class PluginVerdicts:
    """The verdicts of one plugin on the nodes; None if it skipped the pod."""

    plugin: str
    verdicts: Verdicts | None
    rejects_pod: bool = False
    """Whether it rejects the pod as a whole, and so all nodes."""

    @property
    def rejects_some(self) -> bool:
        return self.verdicts is not None and not self.verdicts.fits.all()


def verdicts_by_plugin(
    profile: Profile, view: ClusterView, pod: PodInfo, rows: Rows
) -> list[PluginVerdicts]:
    """Return every filter's verdicts on some rows, regardless of earlier filters.

    Plugins that reject the pod as a whole are included even if they have no filter.
    """
    pod = _without_nomination(pod)
    nodes, state = view.nodes_at(rows), CycleState()
    remaining, rejecting = profile, dict[str, Status]()
    while True:
        outcome = remaining.run_pre_filter_plugins(state, pod, view.all_nodes())
        status, named = outcome.status, outcome.plugins_with_nodes
        if status is None or not (status.plugin or named):
            break
        rejecting |= dict.fromkeys([status.plugin] if status.plugin else named, status)
        remaining, state = without_plugins(profile, rejecting), CycleState()
    judged = []
    pre_filters = [profile.plugins[name] for name in remaining.plugin_names("preFilter")]
    filters = profile.plugin_names("filter")
    for name in (*(name for name in rejecting if name not in filters), *filters):
        if name in rejecting:
            verdicts = Verdicts(len(rows))
            verdicts.reject(verdicts.fits, rejecting[name])
            judged.append(PluginVerdicts(name, verdicts, rejects_pod=True))
        elif name in state.skip_filter_plugins:
            judged.append(PluginVerdicts(name, None))
        else:
            phase = FilterPhase(pre_filters, [profile.plugins[name]])
            judged.append(PluginVerdicts(name, phase.judge_with_nominated(state, pod, nodes)))
    return judged


def _without_nomination(pod: PodInfo) -> PodInfo:
    """Return the pod as if it had no nominated node, so that all nodes are filtered."""
    if not pod.nominated_node_name:
        return pod
    changed = copy.copy(pod)
    changed.nominated_node_name = ""
    return changed
