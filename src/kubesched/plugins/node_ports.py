"""Keeps pods off nodes where a host port they need is taken.

Owns the filter over host ports. Never counts: ports of a node are a set.
Upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kubesched.columns.view import NodeTable
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import SKIP, Status, error, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import HostPort, PodInfo

_PRE_FILTER_KEY = "PreFilterNodePorts"
_REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    """Refuses nodes where a wanted port is taken on the same address, or on all."""

    name = "NodePorts"

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def reads(self, pod: PodInfo) -> Reads | None:
        """Ports are taken by the pods of that very node."""
        return Reads(usage=True)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the wanted ports; have the filter skipped if there are none."""
        if not pod.shape.host_ports:
            return SKIP
        state.write(_PRE_FILTER_KEY, pod.shape.host_ports)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes with a conflicting port."""
        wanted: tuple[HostPort, ...] | None = state.get(_PRE_FILTER_KEY)
        if wanted is None:
            text = f'reading "{_PRE_FILTER_KEY}" from cycleState: not found'
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), error(text))]
        ports_on = nodes.usage.ports_on
        taken = [ports_conflict(wanted, ports_on(position)) for position in range(len(nodes))]
        return [Rejected(np.array(taken, dtype=np.bool_), unschedulable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a port may be free."""
        return [
            EventRegistration(
                ClusterEvent(EventResource.POD, ActionType.DELETE), _after_pod_deleted
            ),
            EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the port numbers of all containers, init containers included."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        ports = {port.host_port for c in containers for port in c.ports if port.host_port}
        return [SignFragment("v1.Pod.Spec.HostPorts()", sorted(ports))]


def ports_conflict(wanted: Sequence[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether any wanted port is among the used ones."""
    for other in used:
        for port in wanted:
            # Told apart by number first: this runs for every port of every node.
            if port.port == other.port and port.conflicts_with(other):
                return True
    return False


def _after_pod_deleted(pod: PodInfo, old: PodInfo, new: Any) -> QueueingHint:
    was_placed = bool(old.node_name or old.nominated_node_name)
    freed = was_placed and ports_conflict(pod.shape.host_ports, old.shape.host_ports)
    return QueueingHint.QUEUE if freed else QueueingHint.QUEUE_SKIP
