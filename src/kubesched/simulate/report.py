"""JSON reports of simulations, comparisons and capacity runs, documented in docs/simulate.md.

Owns the names and the order of fields, the truncation of lists, and the comparison of two runs.
Reads finished runs only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from kubesched.api.resource_requests import PODS
from kubesched.explanation.decision import status_json
from kubesched.simulate.capacity import Capacity, Fit, Stop
from kubesched.simulate.simulation import Leftover, Placement, Simulation
from kubesched.simulate.utilization import Usage
from kubesched.simulate.world import Preemption

VERSION = 1

_T = TypeVar("_T")


@dataclass(slots=True)
class _Cut:
    """Truncates lists and records the number of omitted entries."""

    top: int | None
    omitted: dict[str, int] = field(default_factory=dict)

    def __call__(self, name: str, items: Sequence[_T]) -> Sequence[_T]:
        if self.top is None or len(items) <= self.top:
            return items
        self.omitted[name] = len(items) - self.top
        return items[: self.top]


def simulation_json(run: Simulation, top: int | None = None) -> dict[str, Any]:
    """Return a run of `kubesched simulate`; `top` limits the length of lists."""
    cut = _Cut(top)
    return {
        "kind": "Simulation",
        "version": VERSION,
        "summary": _summary_json(run),
        "placements": [_placement_json(placed) for placed in cut("placements", run.placements)],
        "left": [_left_json(leftover) for leftover in cut("left", run.left)],
        "preemptions": [_preemption_json(made) for made in cut("preemptions", run.preemptions)],
        "utilization": {"before": run.before.as_json(), "after": run.after.as_json()},
        "nodes": cut("nodes", _nodes_json(run.before, run.after)),
        "omitted": cut.omitted,
    }


def _placement_json(placed: Placement) -> dict[str, Any]:
    return {
        "pod": placed.pod.key,
        "node": placed.node,
        "priority": placed.pod.priority,
        "attempts": placed.attempts,
        "afterPreemption": placed.after_preemption,
    }


def _summary_json(run: Simulation) -> dict[str, Any]:
    return {
        "nodes": len(run.after.names),
        "pending": run.pending,
        "placed": len(run.placements),
        "left": len(run.left),
        "preemptions": len(run.preemptions),
        "evicted": len(run.evicted),
        "recreated": run.recreated_count,
        "attempts": run.attempts,
        "profiles": list(run.world.built.profiles),
    }


def comparison_json(compared: Comparison, top: int | None = None) -> dict[str, Any]:
    """Return two runs and their differences; `top` limits the length of lists."""
    cut = _Cut(top)
    return {
        "kind": "Comparison",
        "version": VERSION,
        "names": list(compared.names),
        "differences": {
            "measures": [
                {"measure": measure.name, "unit": measure.unit, "values": list(measure.values)}
                for measure in compared.measures
            ],
            "moved": [
                {"pod": pod, "nodes": [node or None for node in nodes]}
                for pod, nodes in cut("moved", compared.moved)
            ],
        },
        "runs": [simulation_json(run, top) for run in compared.runs],
        "omitted": cut.omitted,
    }


def capacity_json(run: Capacity, top: int | None = None) -> dict[str, Any]:
    """Return a run of `kubesched capacity`; `top` limits the number of nodes."""
    return {
        "kind": "Capacity",
        "version": VERSION,
        "nodes": len(run.after.names),
        "fit": run.count,
        "templates": [_fit_json(fit, _Cut(top)) for fit in run.fits],
        "utilization": {"before": run.before.as_json(), "after": run.after.as_json()},
    }


def _fit_json(fit: Fit, cut: _Cut) -> dict[str, Any]:
    # The nodes with the most copies are listed.
    fullest = sorted(fit.by_node.items(), key=lambda item: (-item[1], item[0]))
    return {
        "template": fit.template.title,
        "desired": fit.desired,
        "fit": fit.count,
        "byNode": dict(sorted(cut("byNode", fullest))),
        "stop": None if fit.stop is None else _stop_json(fit.stop, cut),
        "omitted": cut.omitted,
    }


def _stop_json(stop: Stop, cut: _Cut) -> dict[str, Any]:
    by_node = cut("stop.byNode", list(stop.by_node.items()))
    return {
        "verdict": stop.kind.value,
        "message": stop.message,
        "reasons": dict(stop.reasons),
        "byNode": {name: status_json(status) for name, status in by_node},
        "preemption": (
            {"node": stop.evict_from, "victims": sorted(stop.evictable)}
            if stop.evict_from
            else None
        ),
    }


def _left_json(leftover: Leftover) -> dict[str, Any]:
    pod, outcome = leftover.pod, leftover.outcome
    return {
        "pod": pod.key,
        "priority": pod.priority,
        "verdict": outcome.kind.value,
        "message": outcome.message,
        "reasons": dict(outcome.reasons),
        "nominatedNode": pod.nominated_node_name or None,
    }


def _preemption_json(made: Preemption) -> dict[str, Any]:
    return {
        "pod": made.pod.key,
        "priority": made.pod.priority,
        "node": made.node,
        "victims": [
            {
                "pod": victim.pod.key,
                "priority": victim.pod.priority,
                "recreatedAs": victim.recreated_as or None,
            }
            for victim in made.victims
        ],
        "budgetViolations": made.pdb_violation_count,
    }


def _nodes_json(before: Usage, after: Usage) -> list[dict[str, Any]]:
    return [
        {
            "name": after.names[position],
            "zone": after.zones[position],
            "allocatable": _row(after.allocatable, position),
            "before": _row(before.requested, position),
            "after": _row(after.requested, position),
        }
        for position in after.by_name
    ]


def _row(columns: Mapping[str, Any], position: int) -> dict[str, int]:
    return {name: int(column[position]) for name, column in columns.items()}


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of both runs."""

    name: str
    values: tuple[float, float]
    unit: str = ""

    @property
    def difference(self) -> float:
        return round(self.values[1] - self.values[0], 2)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Return the name, both values and their difference as text."""
        first, second = (f"{value:g}{self.unit}" for value in self.values)
        return self.name, first, second, f"{self.difference:+g}" if self.difference else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs and their differences."""

    names: tuple[str, str]
    runs: tuple[Simulation, Simulation]
    measures: tuple[Measure, ...]
    moved: tuple[tuple[str, tuple[str, str]], ...]
    """The pods on different nodes in the two runs; an empty name means unschedulable."""

    @property
    def is_same(self) -> bool:
        """Return whether both runs placed every pod on the same node."""
        return not self.moved and all(measure.difference == 0 for measure in self.measures)


def compare(names: tuple[str, str], runs: tuple[Simulation, Simulation]) -> Comparison:
    """Compare two finished runs."""
    pairs = zip(_measures(runs[0]), _measures(runs[1]), strict=True)
    measures = tuple(
        Measure(name, (first, second), unit) for (name, unit, first), (_, _, second) in pairs
    )
    return Comparison(names, runs, measures, tuple(_moved(runs)))


def _measures(run: Simulation) -> Iterator[tuple[str, str, float]]:
    after = run.after
    yield "pods placed", "", len(run.placements)
    yield "pods unschedulable", "", len(run.left)
    yield "pods preempted", "", len(run.evicted)
    yield "empty nodes", "", after.empty_node_count
    for resource in after.resources:
        if resource == PODS or not after.allocatable[resource].any():
            continue
        percents = after.percents(resource)
        yield f"{resource} used", "%", round(after.total(resource).percent, 2)
        if len(percents) > 1:
            yield f"{resource}, fullest node", "%", round(float(percents.max()), 2)
            yield f"{resource}, emptiest node", "%", round(float(percents.min()), 2)
            # The standard deviation of the nodes' utilization, in percentage points.
            yield f"{resource}, deviation", "%", round(float(np.std(percents)), 2)


def _moved(runs: tuple[Simulation, Simulation]) -> Iterator[tuple[str, tuple[str, str]]]:
    # A pod may be placed, preempted and recreated under its old name: the last node counts.
    ends = [_ends(run) for run in runs]
    for pod in sorted({*ends[0], *ends[1]}):
        nodes = (ends[0].get(pod, ""), ends[1].get(pod, ""))
        if nodes[0] != nodes[1]:
            yield pod, nodes


def _ends(run: Simulation) -> dict[str, str]:
    """Return the final nodes of the pods that were pending or preempted."""
    ends = {victim.pod.key: "" for victim in run.evicted}
    ends |= {leftover.pod.key: "" for leftover in run.left}
    view = run.world.view
    for index in view.pods.index_of.values():
        pod = view.bound_pod(index)
        if not pod.nominated:
            ends[pod.key] = pod.node_name
    return ends
