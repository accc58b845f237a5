"""Lets pods only onto nodes that are labeled `cpu=true`."""

from kubesched import CycleState, Handle, NodeTable, NodeView, PodInfo, Status, unschedulable


class CpuLabel:
    """Rejects the nodes without the label, and logs the nodes to score."""

    name = "cpu-label"

    def __init__(self, handle: Handle) -> None:
        self.log = handle.log

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        if node.labels.get("cpu") == "true":
            return None
        return unschedulable(f"Node: {node.name}")

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> None:
        self.log.info("Nodes to score", pod=pod.key, nodes=list(nodes.names))
