"""The same score as in spare_gpu.py, for all nodes at once."""

import numpy as np
from numpy.typing import NDArray

from kubesched import CycleState, NodeTable, PodInfo


class SpareGpu:
    """Keeps GPU nodes free for pods that request a GPU."""

    name = "SpareGpu"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> NDArray[np.int64]:
        """Return 0 for each GPU node that the pod has no use for, 100 for the others."""
        wasted = (nodes.allocatable["nvidia.com/gpu"] > 0) & (not pod.requests["nvidia.com/gpu"])
        return np.where(wasted, 0, 100)
