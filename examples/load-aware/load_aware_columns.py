"""The same score as in load_aware.py, for all nodes at once."""

import numpy as np
from loads import LoadAwareArgs, Loads
from numpy.typing import NDArray

from kubesched import SKIP, ClusterView, CycleState, Handle, NodeTable, PodInfo, Status


class LoadAware:
    """Scores nodes by a live metric; a node without a fresh sample gets the others' mean."""

    name = "LoadAware"

    def __init__(self, args: LoadAwareArgs, handle: Handle) -> None:
        """Start to read loads."""
        self.loads = Loads(args, handle)
        self._laid_out: object = None
        self._columns: tuple[NDArray[np.float64], NDArray[np.int64]]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Find the fresh samples of the feasible nodes."""
        times_s, scores = self._by_row(nodes.view)
        is_fresh = times_s[nodes.rows] >= self.loads.oldest_s
        if not is_fresh.any():
            return SKIP
        found = scores[nodes.rows]
        neutral = found.sum(where=is_fresh) // is_fresh.sum()
        state.write(self.name, np.where(is_fresh, found, neutral))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> NDArray[np.int64]:
        """Return the result of pre_score."""
        return state.read(self.name)

    def _by_row(self, view: ClusterView) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return times and scores by row of the cluster, cached until the next reading."""
        samples = self.loads.samples
        now = (view.identity, view.node_epoch, self.loads.readings)
        if self._laid_out != now:
            times_s, scores = np.zeros(view.row_count), np.zeros(view.row_count, dtype=np.int64)
            rows = [(row, one) for name, one in samples.items() if (row := view.row_of(name)) >= 0]
            for row, (time_s, score) in rows:
                times_s[row], scores[row] = time_s, score
            self._laid_out, self._columns = now, (times_s, scores)
        return self._columns
