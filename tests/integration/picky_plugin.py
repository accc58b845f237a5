"""A plugin for tests of the extender: rejects and prefers nodes by labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched import CycleState, NodeTable, PodInfo, Rejected, unschedulable


class Picky:
    """Rejects nodes labelled `rejected=NAME-OF-THE-POD` and prefers nodes labelled `liked`."""

    name = "Picky"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        return [Rejected(nodes.has_label("rejected", pod.name), unschedulable("not this one"))]

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> NDArray[np.int64]:
        return np.where(nodes.has_label("liked", "true"), 100, 0)
