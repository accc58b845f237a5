"""The extender of most tutorials: accepts every node, prefers by position, binds."""

from kubesched import CycleState, Handle, NodeTable, PodInfo, Rejected


class HttpExtender:
    """Rejects nothing, and prefers nodes at the end of the list."""

    name = "http-extender"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        return []

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[int]:
        last = max(len(nodes) - 1, 1)
        return [position * 100 // last for position in range(len(nodes))]

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await self.handle.client.bind_pod(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, node_name=node_name
        )
