"""A score for one node at a time."""

from kubesched import CycleState, NodeView, PodInfo


class SpareGpu:
    """Keeps GPU nodes free for pods that request a GPU."""

    name = "SpareGpu"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        wasted = node.allocatable["nvidia.com/gpu"] > 0 and not pod.requests["nvidia.com/gpu"]
        return 0 if wasted else 100
