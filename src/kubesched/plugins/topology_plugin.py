"""Base of PodTopologySpread and InterPodAffinity, which count pods by topology domain."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import FilterVerdict, Rejected
from kubesched.framework.status import Status, StatusError, error
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import NodeTable


class TopologyPlugin:
    """Reads the counts that PreFilter and PreScore wrote, and passes trials on to them.

    `filter_nodes` and `score_nodes` are not here: an incremental hook is used only if the same
    class defines the methods it replaces.
    """

    pre_filter_key: ClassVar[str]
    pre_score_key: ClassVar[str]
    no_filter_state: ClassVar[Status]
    no_score_state: ClassVar[Status]

    def _rejections(self, state: CycleState, nodes: NodeTable) -> FilterVerdict:
        counts = state.get(self.pre_filter_key)
        if counts is None:
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), self.no_filter_state)]
        verdict: FilterVerdict = counts.rejections(nodes)
        return verdict

    def add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Count one more pod on each node."""
        return self._shift(state, added, nodes, 1)

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Count one pod fewer on each node."""
        return self._shift(state, removed, nodes, -1)

    def _shift(
        self, state: CycleState, pods: PodRows, nodes: NodeTable, sign: int
    ) -> Status | None:
        counts = state.get(self.pre_filter_key)
        if counts is None:
            return self.no_filter_state
        counts.shift(pods, nodes, sign)
        return None

    def _score_state(self, state: CycleState) -> Any:
        counts = state.get(self.pre_score_key)
        if counts is None:
            raise StatusError(self.no_score_state)
        return counts


def state_not_found(problem: str, key: str) -> Status:
    """Return the error of a plugin whose state was not written."""
    return error(f'{problem} "{key}" from cycleState: not found')
