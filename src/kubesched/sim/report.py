"""Runs as JSON: stable, documented in docs/simulate.md.

Owns the names and the order of fields, and how lists are cut to so many entries. Never looks at a
world: a run has ended when it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from kubesched.framework.status import Status
from kubesched.sim.capacity import Capacity, Fit, Stop
from kubesched.sim.comparison import Comparison
from kubesched.sim.simulation import Leftover, Placement, Preemption, Simulation
from kubesched.sim.usage import Usage

VERSION = 1

_T = TypeVar("_T")


@dataclass(slots=True)
class _Cut:
    """Lists and mappings cut to so many entries, and how many were left out."""

    top: int | None
    omitted: dict[str, int] = field(default_factory=dict)

    def __call__(self, name: str, items: Sequence[_T]) -> Sequence[_T]:
        if self.top is None or len(items) <= self.top:
            return items
        self.omitted[name] = len(items) - self.top
        return items[: self.top]


def simulation_json(run: Simulation, top: int | None = None) -> dict[str, Any]:
    """Return a run of `kubesched simulate`; `top` is how many entries a list has at most."""
    cut = _Cut(top)
    return {
        "kind": "Simulation",
        "version": VERSION,
        "summary": summary_json(run),
        "placements": [_placement_json(one) for one in cut("placements", run.placements)],
        "left": [_left_json(one) for one in cut("left", run.left)],
        "preemptions": [_preemption_json(one) for one in cut("preemptions", run.preemptions)],
        "utilisation": {"before": run.before.as_json(), "after": run.after.as_json()},
        "nodes": cut("nodes", _nodes_json(run.before, run.after)),
        "omitted": cut.omitted,
    }


def _placement_json(one: Placement) -> dict[str, Any]:
    return {
        "pod": one.pod,
        "node": one.node,
        "priority": one.priority,
        "attempts": one.attempts,
        "afterPreemption": one.after_preemption,
    }


def summary_json(run: Simulation) -> dict[str, Any]:
    """Return the numbers of a run."""
    evicted = run.evicted
    recreated = sum(1 for one in evicted if one.recreated_as)
    return {
        "nodes": len(run.after.names),
        "pending": run.pending,
        "placed": len(run.placements),
        "left": len(run.left),
        "preemptions": len(run.preemptions),
        "evicted": len(evicted),
        "recreated": recreated,
        "attempts": run.attempts,
        "profiles": list(run.world.built.profiles),
    }


def comparison_json(compared: Comparison, top: int | None = None) -> dict[str, Any]:
    """Return two runs, and what differs; `top` is how many entries a list has at most."""
    cut = _Cut(top)
    return {
        "kind": "Comparison",
        "version": VERSION,
        "names": list(compared.names),
        "differences": {
            "measures": [
                {"measure": one.name, "unit": one.unit, "values": list(one.values)}
                for one in compared.measures
            ],
            "moved": [
                {"pod": one.pod, "nodes": [one.nodes[0] or None, one.nodes[1] or None]}
                for one in cut("moved", compared.moved)
            ],
        },
        "runs": [simulation_json(run, top) for run in compared.runs],
        "omitted": cut.omitted,
    }


def capacity_json(run: Capacity, top: int | None = None) -> dict[str, Any]:
    """Return a run of `kubesched capacity`; `top` is how many nodes are listed at most."""
    return {
        "kind": "Capacity",
        "version": VERSION,
        "nodes": len(run.after.names),
        "fit": run.count,
        "templates": [_fit_json(fit, _Cut(top)) for fit in run.fits],
        "utilisation": {"before": run.before.as_json(), "after": run.after.as_json()},
    }


def _fit_json(fit: Fit, cut: _Cut) -> dict[str, Any]:
    # Of many nodes, those with the most copies are shown.
    fullest = sorted(fit.by_node.items(), key=lambda item: (-item[1], item[0]))
    return {
        "template": fit.template.title,
        "wanted": fit.wanted,
        "fit": fit.count,
        "byNode": dict(sorted(cut("byNode", fullest))),
        "stop": None if fit.stop is None else _stop_json(fit.stop, cut),
        "omitted": cut.omitted,
    }


def _stop_json(stop: Stop, cut: _Cut) -> dict[str, Any]:
    by_node = cut("stop.byNode", list(stop.by_node.items()))
    return {
        "verdict": stop.verdict.value,
        "message": stop.message,
        "reasons": dict(stop.reasons),
        "byNode": {name: _status_json(status) for name, status in by_node},
        "preemption": (
            {"node": stop.evict_from, "victims": sorted(stop.evictable)}
            if stop.evict_from
            else None
        ),
    }


def _status_json(status: Status) -> dict[str, Any]:
    return {
        "plugin": status.plugin,
        "code": status.code.wire_name,
        "reasons": sorted(status.reasons),
    }


def _left_json(one: Leftover) -> dict[str, Any]:
    return {
        "pod": one.pod,
        "priority": one.priority,
        "verdict": one.outcome.verdict.value,
        "message": one.outcome.message,
        "reasons": dict(one.outcome.reasons),
        "nominatedNode": one.nominated_node or None,
    }


def _preemption_json(one: Preemption) -> dict[str, Any]:
    return {
        "pod": one.pod,
        "priority": one.priority,
        "node": one.node,
        "victims": [
            {"pod": v.pod, "priority": v.priority, "recreatedAs": v.recreated_as or None}
            for v in one.victims
        ],
        "budgetViolations": one.pdb_violation_count,
    }


def _nodes_json(before: Usage, after: Usage) -> list[dict[str, Any]]:
    order = np.argsort(np.array(after.names, dtype=object), kind="stable").tolist()
    return [
        {
            "name": after.names[at],
            "zone": after.zones[at],
            "allocatable": _row(after.allocatable, at),
            "before": _row(before.requested, at),
            "after": _row(after.requested, at),
        }
        for at in order
    ]


def _row(columns: Mapping[str, Any], position: int) -> dict[str, int]:
    return {name: int(column[position]) for name, column in columns.items()}
