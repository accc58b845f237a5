"""Prefers nodes with low load; scores one node at a time."""

from loads import LoadAwareArgs, Loads

from kubesched import SKIP, CycleState, Handle, NodeTable, NodeView, PodInfo, Status


class LoadAware:
    """Scores nodes by a live metric; a node without a fresh sample gets the others' mean."""

    name = "LoadAware"

    def __init__(self, args: LoadAwareArgs, handle: Handle) -> None:
        """Start to read loads."""
        self.loads = Loads(args, handle)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Read the samples once, so that all nodes of an attempt use the same samples."""
        samples, oldest_s = self.loads.samples, self.loads.oldest_s
        scores = {
            name: samples[name][1]
            for name in nodes.names
            if name in samples and samples[name][0] >= oldest_s
        }
        if not scores:
            return SKIP
        state.write(self.name, (scores, sum(scores.values()) // len(scores)))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        scores, neutral = state.read(self.name)
        return scores.get(node.name, neutral)
