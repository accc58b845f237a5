"""What the scheduler believes of the cluster, and what it has decided but not yet seen.

Owns what it means to assume, confirm and forget. The only caller of `columns.writer`.

    a pod in the cache:        assume ──► assumed ──forget──► (gone)
                                             │ add (the API server shows it: confirmed)
                                             ▼
        add ──► added ──update──► added ──remove──► (gone)

Upstream: pkg/scheduler/backend/cache/cache.go, interface.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubesched.columns.cluster import Cluster
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView, Rows
from kubesched.columns.writer import ClusterWriter
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject, key_of
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod

TERMINAL_PHASES = ("Succeeded", "Failed")
STAND_INS_SPARE = 1024


class CacheError(RuntimeError):
    """The caller asked for something that cannot be true."""


class Cache:
    """The cluster's tables and the states of pods in them."""

    def __init__(self, *, keep_whole_pods: bool = False) -> None:
        self._cluster = Cluster(keep_whole_pods=keep_whole_pods)
        self._writer = ClusterWriter(self._cluster)
        self._view = ClusterView(self._cluster)
        self._assumed: set[str] = set()

    def __repr__(self) -> str:
        return f"<Cache {self.snapshot()!r}, {len(self._assumed)} assumed>"

    def snapshot(self) -> ClusterView:
        """Return the cluster as it stands; valid until the next change."""
        return self._view

    def pod_info(self, pod: Pod, raw: bytes | None = None) -> PodInfo:
        """Return a pod around the shape it shares with others of its content."""
        return self._cluster.shapes.pod_info(pod, raw)

    @property
    def keeps_whole_pods(self) -> bool:
        """Return whether bound pods are kept whole, for plugins that read them."""
        return self._cluster.keep_whole_pods

    def keep_whole_pods(self) -> None:
        """Keep bound pods whole, from the next state of each on."""
        self._cluster.keep_whole_pods = True

    def add_whole(self, pod: PodInfo) -> None:
        """Keep a bound pod whole that has not been so far, or was without what no rule reads."""
        index = self._cluster.pods.index_of.get(pod.uid)
        bound = None if index is None else self._cluster.pods.pods[index]
        if bound is None or bound.nominated:
            return
        if not bound.is_whole or bound.resource_version == pod.resource_version:
            bound.keep_whole(pod.raw)

    # -- nodes and other objects ------------------------------------------------------------------

    def add_node(self, node: Node, raw: bytes | None = None) -> None:
        """Add a node, or take over its new state."""
        self._writer.set_node(NodeInfo(node, raw))

    update_node = add_node

    def set_node_info(self, node: NodeInfo) -> None:
        """Add a node, or take over its new state."""
        self._writer.set_node(node)

    def node_info(self, name: str) -> NodeInfo | None:
        """Return what is known of a node."""
        nodes = self._cluster.nodes
        row = nodes.row_of.get(name, -1)
        return nodes.infos[row] if row >= 0 else None

    def remove_node(self, name: str) -> None:
        """Drop a node; pods on it stay until they are removed themselves."""
        self._writer.remove_node(name)

    def stand_in(self, nodes: Sequence[NodeInfo]) -> Rows:
        """Have nodes in rows of their own, as if they had no pods and no images; return the rows.

        They are no nodes of the cluster: nothing but the rows returned leads to them. At most those
        of the latest calls are kept.
        """
        if len(self._cluster.stand_ins) > 2 * len(nodes) + STAND_INS_SPARE:
            self._writer.drop_stand_ins()
        return self._writer.stand_in(nodes)

    def drop_stand_ins(self) -> None:
        """Forget all nodes that stand in for others."""
        self._writer.drop_stand_ins()

    def put(self, obj: KubeObject) -> None:
        """Add or replace an object of another kind."""
        self._cluster.objects.store_of(type(obj)).put(key_of(obj), obj)

    def stored(self, kind: type, key: str) -> KubeObject | None:
        """Return the object of a kind and key, as last put."""
        found: KubeObject | None = self._cluster.objects.store_of(kind).get(key)
        return found

    def kind_of(self, name: str) -> type | None:
        """Return the type of a kind that is kept here, by its name."""
        return self._cluster.objects.kind_of(name)

    def drop(self, obj: KubeObject) -> None:
        """Remove an object of another kind."""
        self._cluster.objects.store_of(type(obj)).remove(key_of(obj))

    def drop_kind(self, kind: type) -> None:
        """Remove all objects of another kind."""
        objects: list[KubeObject] = list(self._cluster.objects.store_of(kind))
        for obj in objects:
            self.drop(obj)

    # -- pods -------------------------------------------------------------------------------------

    def add_pod(self, pod: PodInfo) -> None:
        """Take over a pod the API server shows on a node; confirms it if it was assumed."""
        if pod.phase not in TERMINAL_PHASES and self._writer.refresh_pod(pod, self._whole(pod)):
            self._assumed.discard(pod.uid)
            return  # What was assumed has come true, or nothing changed that counts.
        self.remove_pod(pod)
        if pod.phase not in TERMINAL_PHASES:
            self._writer.add_pod(pod, pod.node_name, self._whole(pod))

    update_pod = add_pod

    def remove_pod(self, pod: PodInfo | BoundPod) -> None:
        """Take a pod out, wherever it counts; one that is not there is no error."""
        self._assumed.discard(pod.uid)
        if pod.uid in self._cluster.pods.index_of:
            self._writer.remove_pod(pod.uid)

    def assume_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on the node chosen for it, before the API server knows."""
        uid, cluster = pod.uid, self._cluster
        if uid in cluster.pods.index_of:
            if self.is_bound(pod):
                raise CacheError(f"pod {pod.key} ({uid}) is in the cache, so can't be assumed")
            self.remove_pod(pod)  # A promise is kept now, or broken.
        self._writer.add_pod(pod, node_name, pod.raw if cluster.keep_whole_pods else None)
        self._assumed.add(uid)

    def forget_pod(self, pod: PodInfo | BoundPod) -> None:
        """Take back what was assumed."""
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.key} ({pod.uid}) wasn't assumed so cannot be forgotten")
        self.remove_pod(pod)

    def is_assumed(self, pod: PodInfo | BoundPod) -> bool:
        """Return whether the pod is assumed and not yet confirmed."""
        return pod.uid in self._assumed

    def is_bound(self, pod: PodInfo) -> bool:
        """Return whether the pod counts on a node."""
        index = self._cluster.pods.index_of.get(pod.uid)
        return index is not None and bool(self._cluster.pods.counted[index])

    def nominate_pod(self, pod: PodInfo, node_name: str) -> None:
        """Remember which node a pending pod was promised; an empty name takes it back."""
        if self.is_bound(pod):
            raise CacheError(f"pod {pod.key} ({pod.uid}) counts on a node, so can't be nominated")
        self.remove_pod(pod)
        if node_name:
            self._writer.nominate_pod(pod, node_name)

    def bound_pod(self, uid: str) -> BoundPod | None:
        """Return what is known of a pod that counts on a node."""
        pods = self._cluster.pods
        index = pods.index_of.get(uid)
        return pods.pods[index] if index is not None and pods.counted[index] else None

    def bound_pods(self) -> Iterator[BoundPod]:
        """Yield every pod that counts on a node, assumed ones included."""
        return (pod for pod in self._cluster.pods.pods if pod is not None and not pod.nominated)

    @property
    def assumed_count(self) -> int:
        """Return how many pods are assumed and not yet confirmed."""
        return len(self._assumed)

    def _whole(self, pod: PodInfo) -> bytes | None:
        return pod.raw if self._cluster.keep_whole_pods else None
