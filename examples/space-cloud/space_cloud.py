"""Sends workloads for space onto satellites, and everything else onto the ground."""

from typing import NamedTuple

from kubesched import CycleState, NodeTable, NodeView, PodInfo, Status, unresolvable


class Workload(NamedTuple):
    """The requirements in the pod's annotations."""

    is_space: bool
    satellite: str
    """The required satellite; any if empty."""


class SpaceCloud:
    """Reads the pod once, in pre_filter, and uses the result for every node."""

    name = "space-cloud"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> None:
        is_space = pod.annotations.get("type") == "space"
        state.write(self.name, Workload(is_space, pod.annotations.get("satellite", "")))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        workload: Workload = state.read(self.name)
        is_edge = node.labels.get("kubernetes.io/role") == "edge"
        if not workload.is_space:
            return unresolvable("node(s) were in space") if is_edge else None
        if not is_edge:
            return unresolvable("node(s) were on the ground")
        if workload.satellite and node.labels.get("satellite") != workload.satellite:
            return unresolvable("node(s) were on another satellite")
        return None
