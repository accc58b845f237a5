"""Runs as JSON: stable, documented in docs/simulate.md.

Owns the names and the order of fields. Never looks at a world: a run has ended when it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kubesched.framework.status import Status
from kubesched.sim.capacity import Capacity, Fit, Stop
from kubesched.sim.comparison import Comparison
from kubesched.sim.simulation import Leftover, Preemption, Simulation
from kubesched.sim.usage import Usage

VERSION = 1


def simulation_json(run: Simulation) -> dict[str, Any]:
    """Return a run of `kubesched simulate`."""
    return {
        "kind": "Simulation",
        "version": VERSION,
        "summary": summary_json(run),
        "placements": [
            {
                "pod": one.pod,
                "node": one.node,
                "priority": one.priority,
                "attempts": one.attempts,
                "afterPreemption": one.after_preemption,
            }
            for one in run.placements
        ],
        "left": [_left_json(one) for one in run.left],
        "preemptions": [_preemption_json(one) for one in run.preemptions],
        "utilisation": {"before": run.before.as_json(), "after": run.after.as_json()},
        "nodes": _nodes_json(run.before, run.after),
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


def comparison_json(compared: Comparison) -> dict[str, Any]:
    """Return two runs, and what differs."""
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
                for one in compared.moved
            ],
        },
        "runs": [simulation_json(run) for run in compared.runs],
    }


def capacity_json(run: Capacity) -> dict[str, Any]:
    """Return a run of `kubesched capacity`."""
    return {
        "kind": "Capacity",
        "version": VERSION,
        "nodes": len(run.after.names),
        "fit": run.count,
        "templates": [_fit_json(fit) for fit in run.fits],
        "utilisation": {"before": run.before.as_json(), "after": run.after.as_json()},
    }


def _fit_json(fit: Fit) -> dict[str, Any]:
    return {
        "template": fit.template.title,
        "wanted": fit.wanted,
        "fit": fit.count,
        "byNode": dict(sorted(fit.by_node.items())),
        "stop": None if fit.stop is None else _stop_json(fit.stop),
    }


def _stop_json(stop: Stop) -> dict[str, Any]:
    return {
        "verdict": stop.verdict.value,
        "message": stop.message,
        "reasons": dict(stop.reasons),
        "byNode": {name: _status_json(status) for name, status in stop.by_node.items()},
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
