"""How much room a pod lacks on nodes, and what it asks for that no node has.

Owns the amounts and their words. Whether asking for less opens a node is tried elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.explanation import Change
from kubesched.engine.pod_changes import PodChange, with_requests, without_nomination
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.nominated import promised_pods
from kubesched.framework.plugin_sets import PluginSets
from kubesched.framework.profile import Profile
from kubesched.model.amounts import amount
from kubesched.model.pod_info import PodInfo
from kubesched.model.resources import PODS

FIT = "NodeResourcesFit"
REQUESTS = "spec.containers[*].resources.requests"
_INSUFFICIENT = "Insufficient "


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What a pod lacks on one node."""

    pod: PodInfo
    row: int
    short: Mapping[str, int]
    """By resource, more than is asked for where more is taken than there is; never empty."""

    @property
    def lacks(self) -> dict[str, int]:
        """Return how much less has to be asked for; of pods, how many are too many."""
        # Nobody can ask for less than nothing, which is enough where more is taken than there is.
        return {
            name: value if name == PODS else min(value, self.pod.requests[name])
            for name, value in self.short.items()
        }

    @property
    def is_of_requests(self) -> bool:
        """Return whether asking for less is all it takes."""
        return PODS not in self.short

    def asking_for_less(self) -> PodChange:
        """Return the pod that asks for so much less; one pod it stays."""
        lacks = {name: value for name, value in self.lacks.items() if name != PODS}
        phrases = [
            f"no {name}" if value == self.pod.requests[name] else f"{_up(name, value)} {name} less"
            for name, value in lacks.items()
        ]
        text = f"asking for {' and '.join(phrases)}"
        return PodChange(
            "resources",
            REQUESTS,
            text,
            lambda pod: with_requests(pod, lacks),
            is_of_shape=True,
            lacks=lacks,
        )

    def text(self, node: str, count: int) -> str:
        """Return it in words.

        Args:
            node: the name of the node.
            count: of how many nodes it is the one that lacks least.
        """
        parts, over = [], []
        for name, value in self.short.items():
            request = self.pod.requests[name]
            if name == PODS:
                more = "one more pod" if value == 1 else f"{value} more pods"
                parts.append(f"room for {more}")
            elif value <= request:
                parts.append(f"{_up(name, value)} {name}")
            else:
                parts.append(f"all of its {_up(name, request)} {name}")
                over.append(f"{_up(name, value - request)} {name}")
        note = f" (overcommitted by {' and '.join(over)})" if over else ""
        least = f", the least short of {count} nodes that would fit otherwise" if count > 1 else ""
        return f"lacks {' and '.join(parts)} on {node}{note}{least}"


def nearest_shortfall(
    profile: Profile, view: ClusterView, pod: PodInfo, rows: Rows
) -> Shortfall | None:
    """Return what is missing on the node that lacks least; None if no node lacks anything."""
    columns = _shortages(profile, view, pod, rows)
    if not columns:
        return None
    requests = [1 if name == PODS else pod.requests[name] for name in columns]
    shares = np.array([c / r for c, r in zip(columns.values(), requests, strict=True)])
    worst = np.where(shares.any(axis=0), shares.max(axis=0), np.inf)
    # Of nodes that lack as large a part of one request, the one that lacks fewer others.
    place = int(np.lexsort((shares.sum(axis=0), worst))[0])
    short = {name: column.item(place) for name, column in columns.items() if column[place]}
    return Shortfall(pod, rows.item(place), short) if short else None


def larger_than_any_node(profile: Profile, view: ClusterView, pod: PodInfo) -> Iterator[Change]:
    """Yield the resources of which the pod asks more than any node has."""
    if FIT not in profile.plugin_names("filter"):
        return
    nodes = view.all_nodes()
    for name in _complained_of(profile, view, pod, nodes.rows):
        request = pod.requests[name]
        largest = int(nodes.allocatable[name].max(initial=0))
        if request <= largest:
            continue
        has = f"the largest node has {amount(name, largest)}" if largest else "no node has any"
        yield Change(
            kind="too-large",
            plugin=FIT,
            field=REQUESTS,
            text=f"asks for {_up(name, request)} {name}; {has}",
            opens=0,
            nodes=(),
            lacks={name: request - largest},
        )


def _shortages(
    profile: Profile, view: ClusterView, pod: PodInfo, rows: Rows
) -> dict[str, IntColumn]:
    """Return by resource how much each row lacks, promised pods counted as there."""
    nodes = view.nodes_at(rows)
    promised = promised_pods(nodes, pod)
    columns: dict[str, IntColumn] = {}
    for name in _complained_of(profile, view, pod, rows):
        taken = np.array([sum(p.requests[name] for p in pods) for pods in promised])
        free = nodes.allocatable[name] - nodes.requested[name] - taken
        columns[name] = np.maximum(pod.requests[name] - free, 0)
    count = nodes.pod_count + np.array([len(pods) for pods in promised])
    crowded = np.maximum(count + 1 - nodes.allowed_pods, 0)
    return columns | {PODS: crowded} if crowded.any() else columns


def _complained_of(profile: Profile, view: ClusterView, pod: PodInfo, rows: Rows) -> list[str]:
    """Return the resources of which the plugin says that there is too little somewhere.

    It may have been told to ignore others.
    """
    points: dict[str, tuple[str, ...]] = {"preFilter": (FIT,), "filter": (FIT,)}
    alone = Profile(profile.name, PluginSets(points, {}, {}), profile.plugins)
    state, pod = CycleState(), without_nomination(pod)
    alone.run_pre_filter_plugins(state, pod, view.all_nodes())
    said = alone.run_filter_plugins_with_nominated_pods(state, pod, view.nodes_at(rows))
    reasons = {reason for status in said.statuses for reason in status.reasons}
    return [name for name in pod.requests if f"{_INSUFFICIENT}{name}" in reasons]


def _up(resource: str, value: int) -> str:
    """Return an amount that is at least as much."""
    return amount(resource, value, up=True)
