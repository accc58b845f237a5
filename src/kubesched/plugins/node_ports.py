"""NodePorts: rejects nodes where a host port of the pod is taken.

Upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads, Rejected
from kubesched.framework.status import SKIP, Status, error, unschedulable
from kubesched.plugins.pod_changes import PodChange, RejectedPod
from kubesched.plugins.queueing_hints import has_node, on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.expressions import Values, full, is_any
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.pod_info import HostPort, PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

_PRE_FILTER_KEY = "PreFilterNodePorts"
_ALL_ADDRESSES = "0.0.0.0"
_READS = Reads(usage=True)
_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts:
    """Rejects nodes where a requested port is taken on the same address, or on all."""

    name = "NodePorts"
    takes_rows = True

    def reads(self, pod: PodInfo) -> Reads | None:
        """Ports are taken by the pods of the node itself."""
        return _READS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the requested ports; skip the filter if there are none."""
        if not pod.shape.host_ports:
            return SKIP
        state.write(_PRE_FILTER_KEY, pod.shape.host_ports)
        return None

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Reject nodes with a conflicting port."""
        requested: tuple[HostPort, ...] | None = state.get(_PRE_FILTER_KEY)
        if requested is None:
            text = f'reading "{_PRE_FILTER_KEY}" from cycleState: not found'
            return [Rejected(full(nodes, True), error(text))]
        if isinstance(nodes, NodeRow):
            taken: Values = ports_conflict(requested, nodes.host_ports())
        else:
            taken = _taken_mask(nodes, requested)
        return [Rejected(taken, _TAKEN)] if is_any(taken) else []

    def events_to_register(self) -> Sequence[EventRegistration]:
        return [
            on(EventResource.POD, ActionType.DELETE, _after_pod_deleted, reads="shape"),
            on(EventResource.NODE, ActionType.ADD),
        ]


def _taken_mask(nodes: NodeTable, requested: Sequence[HostPort]) -> BoolColumn:
    taken = np.zeros(len(nodes), dtype=np.bool_)
    usage = nodes.usage
    for port in requested:
        # Addresses matter only on nodes where the port number is taken.
        positions = usage.positions_with_port(port.protocol, port.port)
        if port.ip == _ALL_ADDRESSES:
            taken[positions] = True
            continue
        for position in positions:
            if not taken[position]:
                taken[position] = ports_conflict((port,), usage.ports_on(position))
    return taken


def ports_conflict(requested: Sequence[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether any requested port is among the used ones."""
    for other in used:
        for port in requested:
            # Compare numbers first: this runs for every port of every node.
            if port.port == other.port and port.conflicts_with(other):
                return True
    return False


def _after_pod_deleted(pod: PodInfo, old: PodInfo, new: Any) -> QueueingHint:
    return queue_if(has_node(old) and ports_conflict(pod.shape.host_ports, old.shape.host_ports))


def port_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield the pod without each of its host ports."""
    for port in dict.fromkeys(rejected.pod.shape.host_ports):
        yield PodChange(
            "host-port",
            "spec.containers[*].ports",
            f"without host port {_port_text(port)}",
            _without_port(port),
            is_of_shape=True,
        )


def _port_text(port: HostPort) -> str:
    ip = f"[{port.ip}]" if ":" in port.ip else port.ip
    address = "" if ip == _ALL_ADDRESSES else f"{ip}:"
    return f"{address}{port.port}/{port.protocol}"


def _without_port(port: HostPort) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        others = tuple(other for other in pod.shape.host_ports if other != port)
        return PodInfo(pod.object, pod.shape.changed(host_ports=others))

    return edit


PLUGIN = InTreePlugin(plugin=NodePorts, pod_changes=port_changes)
