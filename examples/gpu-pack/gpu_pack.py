"""Fills GPU nodes one after the other, and keeps pods without a GPU off them."""

from kubesched import CycleState, NodeView, PodInfo

GPU = "nvidia.com/gpu"


class GpuPack:
    """Prefers the node on which the fewest GPUs stay free."""

    name = "GpuPack"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        total, wanted = node.allocatable[GPU], pod.requests[GPU]
        if not wanted or not total:
            return 0 if total else 100
        return 100 * (node.requested[GPU] + wanted) // total
