"""Resource utilization of a cluster: in total, by zone and by node.

Owns a copy of allocatable and requested amounts at one moment, and their units in text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kubesched.api import amounts
from kubesched.api.resource_requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.view import ClusterView

NO_ZONE = "(no zone)"
_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class Fill:
    """Requested and allocatable amount of a resource."""

    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Return the requested share in percent; 0 if nothing is allocatable."""
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
    """Nodes, their zones, and the allocatable and requested amounts per resource."""

    names: tuple[str, ...]
    zones: tuple[str, ...]
    resources: tuple[str, ...]
    """cpu, memory and ephemeral-storage first, extended resources by name, pods last.

    Includes resources that pods request and no node offers.
    """
    allocatable: dict[str, IntColumn]
    requested: dict[str, IntColumn]

    def total(self, resource: str, where: BoolColumn | None = None) -> Fill:
        """Return a resource summed over all nodes, or over those of a mask."""
        if resource not in self.requested:
            return Fill(0, 0)  # Only the other snapshot has this resource.
        mask = slice(None) if where is None else where
        return Fill(
            int(self.requested[resource][mask].sum()), int(self.allocatable[resource][mask].sum())
        )

    def of_node(self, position: int, resource: str) -> Fill:
        return Fill(
            int(self.requested[resource][position]), int(self.allocatable[resource][position])
        )

    @property
    def by_name(self) -> list[int]:
        """Return the positions of the nodes, ordered by name."""
        return sorted(range(len(self.names)), key=self.names.__getitem__)

    @property
    def zone_names(self) -> list[str]:
        return sorted(set(self.zones))

    def in_zone(self, zone: str) -> BoolColumn:
        return np.array([name == zone for name in self.zones], dtype=np.bool_)

    def percents(self, resource: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return each node's share of a resource in percent, of nodes that offer it."""
        offered = self.allocatable[resource]
        offers = offered > 0
        return 100.0 * self.requested[resource][offers] / offered[offers]

    @property
    def empty_node_count(self) -> int:
        return int((self.requested[PODS] == 0).sum())

    def as_json(self) -> dict[str, Any]:
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
    """Return the current utilization of a cluster."""
    nodes = view.all_nodes()
    infos = [nodes.info(position) for position in range(len(nodes))]
    offered = {name for info in infos for name, value in info.allocatable.items() if value}
    used = {name for shape in view.pods.shapes for name in shape.usage}
    names = offered | {CPU, MEMORY} | {name for name in used if nodes.requested[name].any()}
    rest = sorted(names - {*_FIRST, PODS})
    resources = (*(name for name in _FIRST if name in names), *rest)
    allocatable = {name: nodes.allocatable[name].copy() for name in resources}
    requested = {name: nodes.requested[name].copy() for name in resources}
    allocatable[PODS], requested[PODS] = nodes.allowed_pods.copy(), nodes.pod_count.copy()
    zones = tuple(
        next((info.labels[key] for key in _ZONE_LABELS if info.labels.get(key)), NO_ZONE)
        for info in infos
    )
    return Usage(tuple(nodes.names), zones, (*resources, PODS), allocatable, requested)


def amount(resource: str, value: int) -> str:
    """Return an amount as text; cpu in cores, other resources as in manifests."""
    if resource == CPU:
        return f"{value / 1000:.3f}".rstrip("0").rstrip(".")
    return amounts.amount(resource, value)


def percent(value: float) -> str:
    """Return a percentage with one decimal place."""
    return f"{value:.1f}%"
