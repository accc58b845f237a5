"""Nodes filtered again, for a changed pod or without some plugins, and by each plugin alone.

Owns how the engine is asked outside of an attempt. Never scores, never evicts, and leaves no kept
verdicts behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.diagnosis import FitError, SchedulingError
from kubesched.engine.pod_changes import without_nomination
from kubesched.engine.schedule_pod import find_nodes_that_fit
from kubesched.engine.search import Search
from kubesched.framework.adapt import column_filter
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.plugin_sets import PluginSets
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Verdicts
from kubesched.model.pod_info import PodInfo


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
