"""A user's plugin for tests of an extender: refuses nodes by a label, prefers them by another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched import CycleState, NodeTable, PodInfo, Rejected, unschedulable


class Picky:
    """Refuses what is labelled `refused=NAME-OF-THE-POD` and likes what is labelled `liked`."""

    name = "Picky"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        return [Rejected(nodes.has_label("refused", pod.name), unschedulable("not this one"))]

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> NDArray[np.int64]:
        return np.where(nodes.has_label("liked", "true"), 100, 0)
