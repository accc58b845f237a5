"""Keeps pods off nodes where a host port they need is taken.

Owns the filter over host ports. Never counts: ports of a node are a set.
Upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kubesched.columns.node_columns import BoolColumn
from kubesched.columns.rules import Values, full, is_any
from kubesched.columns.view import NodeRow, NodeTable
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
_ALL_ADDRESSES = "0.0.0.0"
_READS = Reads(usage=True)
_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts:
    """Refuses nodes where a wanted port is taken on the same address, or on all."""

    name = "NodePorts"
    same_for_family = True
    takes_rows = True

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def reads(self, pod: PodInfo) -> Reads | None:
        """Ports are taken by the pods of that very node."""
        return _READS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the wanted ports; have the filter skipped if there are none."""
        if not pod.shape.host_ports:
            return SKIP
        state.write(_PRE_FILTER_KEY, pod.shape.host_ports)
        return None

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Refuse nodes with a conflicting port."""
        wanted: tuple[HostPort, ...] | None = state.get(_PRE_FILTER_KEY)
        if wanted is None:
            text = f'reading "{_PRE_FILTER_KEY}" from cycleState: not found'
            return [Rejected(full(nodes, True), error(text))]
        if isinstance(nodes, NodeRow):
            taken: Values = ports_conflict(wanted, nodes.host_ports())
        else:
            taken = _taken_mask(nodes, wanted)
        return [Rejected(taken, _TAKEN)] if is_any(taken) else []

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a port may be free."""
        return [
            EventRegistration(
                ClusterEvent(EventResource.POD, ActionType.DELETE),
                _after_pod_deleted,
                reads="shape",
            ),
            EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the port numbers of all containers, init containers included."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        ports = {port.host_port for c in containers for port in c.ports if port.host_port}
        return [SignFragment("v1.Pod.Spec.HostPorts()", sorted(ports))]


def _taken_mask(nodes: NodeTable, wanted: Sequence[HostPort]) -> BoolColumn:
    taken = np.zeros(len(nodes), dtype=np.bool_)
    usage = nodes.usage
    for one in wanted:
        # Only nodes where the number is taken at all need a look at the addresses.
        positions = usage.positions_with_port(one.protocol, one.port)
        if one.ip == _ALL_ADDRESSES:
            taken[positions] = True
            continue
        for position in positions:
            if not taken[position]:
                taken[position] = ports_conflict((one,), usage.ports_on(position))
    return taken


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
