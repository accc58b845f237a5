"""Two runs over the same cluster, side by side.

Owns what is measured of a run and which pods went elsewhere. Never says which run is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kubesched.model.resources import PODS
from kubesched.sim.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of both runs."""

    name: str
    values: tuple[float, float]
    unit: str = ""

    @property
    def difference(self) -> float:
        """Return how much more the second has."""
        return round(self.values[1] - self.values[0], 2)


@dataclass(frozen=True, slots=True)
class Moved:
    """A pod that went elsewhere; an empty name where it was not placed."""

    pod: str
    nodes: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs and their differences."""

    names: tuple[str, str]
    runs: tuple[Simulation, Simulation]
    measures: tuple[Measure, ...]
    moved: tuple[Moved, ...]

    @property
    def is_same(self) -> bool:
        """Return whether every pod ended where it did in the other run."""
        return not self.moved and all(one.difference == 0 for one in self.measures)


def compare(names: tuple[str, str], runs: tuple[Simulation, Simulation]) -> Comparison:
    """Return two finished runs side by side."""
    pairs = zip(_measures(runs[0]), _measures(runs[1]), strict=True)
    measures = tuple(
        Measure(name, (first, second), unit) for (name, unit, first), (_, _, second) in pairs
    )
    return Comparison(names, runs, measures, tuple(_moved(runs)))


def _measures(run: Simulation) -> Iterator[tuple[str, str, float]]:
    after = run.after
    yield "pods placed", "", len(run.placements)
    yield "pods left", "", len(run.left)
    yield "pods evicted", "", len(run.evicted)
    yield "nodes without a pod", "", after.empty_node_count
    for resource in after.resources:
        if resource == PODS or not after.allocatable[resource].any():
            continue
        percents = after.percents(resource)
        yield f"{resource} used", "%", round(after.total(resource).percent, 2)
        if len(percents) > 1:
            yield f"{resource}, fullest node", "%", round(float(percents.max()), 2)
            yield f"{resource}, emptiest node", "%", round(float(percents.min()), 2)
            # How unevenly the nodes are filled, in points of percent.
            yield f"{resource}, deviation", "%", round(float(np.std(percents)), 2)


def _moved(runs: tuple[Simulation, Simulation]) -> Iterator[Moved]:
    # A pod may be placed, evicted and made anew under its old name: where it ended counts.
    ends = [_ends(run) for run in runs]
    for pod in sorted({*ends[0], *ends[1]}):
        nodes = (ends[0].get(pod, ""), ends[1].get(pod, ""))
        if nodes[0] != nodes[1]:
            yield Moved(pod, nodes)


def _ends(run: Simulation) -> dict[str, str]:
    """Return where the pods that waited, or had to go, ended."""
    ends = {one.pod: "" for one in run.evicted}
    ends |= {one.pod: "" for one in run.left}
    view = run.world.view
    for index in view.pods.index_of.values():
        pod = view.bound_pod(index)
        if not pod.nominated:
            ends[pod.key] = pod.node_name
    return ends
