"""How full a cluster is: per resource, per zone, per node.

Owns a copy of what nodes offer and pods take at one moment. Never changes with the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

NO_ZONE = "(no zone)"
_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class Fill:
    """How much of something is taken."""

    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Return the share in percent; of nothing, nothing is taken."""
        return 100 * self.requested / self.allocatable if self.allocatable else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return integers (millicores for cpu, else bytes or units) and the share."""
        return {
            "requested": self.requested,
            "allocatable": self.allocatable,
            "percent": round(self.percent, 2),
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """Nodes, their zones, and one array per resource for what they offer and what is taken."""

    names: tuple[str, ...]
    zones: tuple[str, ...]
    resources: tuple[str, ...]
    """cpu, memory and ephemeral-storage first, extended resources by name, pods last.

    What pods take and no node offers is among them.
    """
    allocatable: dict[str, IntColumn]
    requested: dict[str, IntColumn]

    def total(self, resource: str, where: BoolColumn | None = None) -> Fill:
        """Return a resource summed over all nodes, or over those of a mask."""
        if resource not in self.requested:
            return Fill(0, 0)  # At another moment, a pod asked for it.
        mask = slice(None) if where is None else where
        return Fill(
            int(self.requested[resource][mask].sum()), int(self.allocatable[resource][mask].sum())
        )

    def of_node(self, position: int, resource: str) -> Fill:
        """Return one node's resource."""
        return Fill(
            int(self.requested[resource][position]), int(self.allocatable[resource][position])
        )

    @property
    def zone_names(self) -> list[str]:
        """Return the zones, sorted."""
        return sorted(set(self.zones))

    def in_zone(self, zone: str) -> BoolColumn:
        """Return which nodes are in a zone."""
        return np.array([one == zone for one in self.zones], dtype=np.bool_)

    def percents(self, resource: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return each node's share of a resource in percent, of nodes that offer it."""
        offered = self.allocatable[resource]
        there = offered > 0
        return 100.0 * self.requested[resource][there] / offered[there]

    @property
    def empty_node_count(self) -> int:
        """Return how many nodes have no pod at all."""
        return int((self.requested[PODS] == 0).sum())

    def as_json(self) -> dict[str, Any]:
        """Return sums per resource and per zone."""
        return {
            "resources": {name: self.total(name).as_json() for name in self.resources},
            "zones": {zone: self._zone_json(zone) for zone in self.zone_names},
            "emptyNodes": self.empty_node_count,
        }

    def _zone_json(self, zone: str) -> dict[str, Any]:
        where = self.in_zone(zone)
        return {
            "nodes": int(where.sum()),
            "resources": {name: self.total(name, where).as_json() for name in self.resources},
        }


def usage_of(view: ClusterView) -> Usage:
    """Return how full a cluster is now."""
    nodes = view.all_nodes()
    infos = [nodes.info(position) for position in range(len(nodes))]
    offered = {name for info in infos for name, value in info.allocatable.items() if value}
    asked = {name for shape in view.pods.shapes for name in shape.usage}
    there = offered | {name for name in asked if nodes.requested[name].any()}
    rest = sorted(there - {*_FIRST, PODS})
    resources = (*(name for name in _FIRST if name in there or name in (CPU, MEMORY)), *rest)
    allocatable = {name: nodes.allocatable[name].copy() for name in resources}
    requested = {name: nodes.requested[name].copy() for name in resources}
    allocatable[PODS], requested[PODS] = nodes.allowed_pods.copy(), nodes.pod_count.copy()
    return Usage(tuple(nodes.names), _zones(nodes), (*resources, PODS), allocatable, requested)


def _zones(nodes: NodeTable) -> tuple[str, ...]:
    zones = []
    for position in range(len(nodes)):
        labels = nodes.info(position).labels
        zones.append(next((labels[key] for key in _ZONE_LABELS if labels.get(key)), NO_ZONE))
    return tuple(zones)
