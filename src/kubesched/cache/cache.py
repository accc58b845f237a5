"""What the scheduler believes of the cluster, and what it has decided but not yet seen.

Owns what it means to assume, confirm and forget. The only caller of `columns.writer`.

    a pod in the cache:        assume ──► assumed ──forget──► (gone)
                                             │ add (the API server shows it: confirmed)
                                             ▼
        add ──► added ──update──► added ──remove──► (gone)

Upstream: pkg/scheduler/backend/cache/cache.go, interface.go
"""

from __future__ import annotations

from kubesched.columns.cluster import Cluster
from kubesched.columns.view import ClusterView
from kubesched.columns.writer import ClusterWriter
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject, key_of
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod

TERMINAL_PHASES = ("Succeeded", "Failed")


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

    # -- nodes and other objects ------------------------------------------------------------------

    def add_node(self, node: Node, raw: bytes | None = None) -> None:
        """Add a node, or take over its new state."""
        self._writer.set_node(NodeInfo(node, raw))

    update_node = add_node

    def remove_node(self, name: str) -> None:
        """Drop a node; pods on it stay until they are removed themselves."""
        self._writer.remove_node(name)

    def put(self, obj: KubeObject) -> None:
        """Add or replace an object of another kind."""
        self._cluster.objects.store_of(type(obj)).put(key_of(obj), obj)

    def drop(self, obj: KubeObject) -> None:
        """Remove an object of another kind."""
        self._cluster.objects.store_of(type(obj)).remove(key_of(obj))

    # -- pods -------------------------------------------------------------------------------------

    def add_pod(self, pod: PodInfo) -> None:
        """Take over a pod the API server shows on a node; confirms it if it was assumed."""
        self.remove_pod(pod)
        if pod.phase not in TERMINAL_PHASES:
            self._count(pod, pod.node_name)

    update_pod = add_pod

    def remove_pod(self, pod: PodInfo) -> None:
        """Take a pod out, wherever it counts; one that is not there is no error."""
        self._assumed.discard(pod.uid)
        if pod.uid in self._cluster.pods.index_of:
            self._writer.remove_pod(pod.uid)

    def assume_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on the node chosen for it, before the API server knows."""
        if pod.uid in self._cluster.pods.index_of:
            if self.is_bound(pod):
                raise CacheError(f"pod {pod.key} ({pod.uid}) is in the cache, so can't be assumed")
            self.remove_pod(pod)  # A promise is kept now, or broken.
        self._count(pod, node_name)
        self._assumed.add(pod.uid)

    def forget_pod(self, pod: PodInfo) -> None:
        """Take back what was assumed."""
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.key} ({pod.uid}) wasn't assumed so cannot be forgotten")
        self.remove_pod(pod)

    def is_assumed(self, pod: PodInfo) -> bool:
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

    def _count(self, pod: PodInfo, node_name: str) -> None:
        whole = pod.raw if self._cluster.keep_whole_pods else None
        self._writer.add_pod(pod, node_name, whole=whole)
