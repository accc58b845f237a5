"""The scheduler cache: nodes, bound pods and assumed pods, and the pods that have no node yet.

Owns the states of a pod: assumed, added (confirmed), forgotten. The only caller of `cache.writer`.

    a pod in the cache:        assume ──► assumed ──forget──► (gone)
                                             │ add (the API server shows it: confirmed)
                                             ▼
        add ──► added ──update──► added ──remove──► (gone)

Upstream: pkg/scheduler/backend/cache/cache.go, interface.go
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from kubesched.api.decode import KubeObject
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.writer import ClusterWriter
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.view import ClusterView, Rows

TERMINAL_PHASES = ("Succeeded", "Failed")
PLACEHOLDERS_SPARE = 1024


class CacheError(RuntimeError):
    """A call that contradicts the state of a pod in the cache."""


class Cache:
    """The tables of the cluster, and the states of pods in them."""

    def __init__(self, *, keep_whole_pods: bool = False) -> None:
        self.keeps_whole_pods = keep_whole_pods
        """Whether the JSON of bound pods is kept, for plugins and extenders that read it."""
        self._cluster = ClusterTables()
        self._writer = ClusterWriter(self._cluster)
        self._view = ClusterView(self._cluster)
        self._assumed: set[str] = set()

    def snapshot(self) -> ClusterView:
        """Return a read-only view of the cluster; valid until the next change."""
        return self._view

    def pod_info(self, pod: Pod, raw: bytes | None = None) -> PodInfo:
        """Return the compiled form of a pod; pods with the same spec share one shape."""
        return self._cluster.shapes.pod_info(pod, raw)

    def keep_whole_pods(self) -> None:
        """Keep the JSON of bound pods that are added or updated later."""
        self.keeps_whole_pods = True

    def add_whole(self, pod: PodInfo) -> None:
        """Keep the JSON of a bound pod that has none yet, or only the fields that plugins read."""
        bound = self.bound_pod(pod.uid)
        if bound is not None and (
            bound.whole is None or bound.resource_version == pod.resource_version
        ):
            bound.whole = pod.raw

    # -- nodes and other objects ------------------------------------------------------------------

    def add_node(self, node: Node, raw: bytes | None = None) -> None:
        """Add or update a node."""
        self._writer.set_node(NodeInfo(node, raw))

    def set_node_info(self, node: NodeInfo) -> None:
        self._writer.set_node(node)

    def node_info(self, name: str) -> NodeInfo | None:
        """Return a node; None if it is unknown."""
        row = self._cluster.nodes.row_of.get(name)
        return None if row is None else self._cluster.nodes.infos[row]

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay until they are removed themselves."""
        self._writer.remove_node(name)

    def add_placeholders(self, nodes: Sequence[NodeInfo]) -> Rows:
        """Add rows for nodes that an extender returned, without pods and images.

        Placeholders are not part of the cluster: only the returned rows refer to them. Those of the
        latest calls are kept.
        """
        if len(self._cluster.placeholders) > 2 * len(nodes) + PLACEHOLDERS_SPARE:
            self._writer.drop_placeholders()
        return self._writer.add_placeholders(nodes)

    def drop_placeholders(self) -> None:
        self._writer.drop_placeholders()

    def put(self, obj: KubeObject) -> None:
        """Add or replace an object of another kind."""
        self._cluster.objects.store_of(type(obj)).put(obj.key, obj)

    def stored(self, kind: type, key: str) -> KubeObject | None:
        """Return the object of a type and key, as last put."""
        stored: KubeObject | None = self._cluster.objects.store_of(kind).get(key)
        return stored

    def kind_of(self, name: str) -> type | None:
        """Return the type of a kind that the cache keeps, by its name."""
        return self._cluster.objects.kind_of(name)

    def drop(self, obj: KubeObject) -> None:
        self._cluster.objects.store_of(type(obj)).remove(obj.key)

    def drop_kind(self, kind: type) -> None:
        objects: list[KubeObject] = list(self._cluster.objects.store_of(kind))
        for obj in objects:
            self.drop(obj)

    # -- pods -------------------------------------------------------------------------------------

    def add_pod(self, pod: PodInfo) -> None:
        """Add or update a pod that the API server shows on a node; confirms an assumed pod."""
        if pod.phase not in TERMINAL_PHASES and self._writer.refresh_pod(pod, self._whole(pod)):
            self._assumed.discard(pod.uid)
            return  # It was assumed on that node, or no field changed that plugins count.
        self.remove_pod(pod)
        if pod.phase not in TERMINAL_PHASES:
            self._writer.add_pod(pod, pod.node_name, self._whole(pod))

    update_pod = add_pod

    def remove_pod(self, pod: PodInfo | BoundPod) -> None:
        """Remove a pod, bound or nominated; an unknown pod is ignored."""
        self._assumed.discard(pod.uid)
        if pod.uid in self._cluster.pods.index_of:
            self._writer.remove_pod(pod.uid)

    def assume_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on its chosen node before the API server confirms the binding."""
        uid = pod.uid
        if uid in self._cluster.pods.index_of:
            if self.is_bound(pod):
                raise CacheError(f"pod {pod.key} ({uid}) is in the cache, so can't be assumed")
            self.remove_pod(pod)  # A pod with a node needs no nomination.
        self._writer.add_pod(pod, node_name, self._whole(pod))
        self._assumed.add(uid)

    def forget_pod(self, pod: PodInfo | BoundPod) -> None:
        """Remove an assumed pod."""
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.key} ({pod.uid}) wasn't assumed so cannot be forgotten")
        self.remove_pod(pod)

    def is_assumed(self, pod: PodInfo | BoundPod) -> bool:
        """Return whether the pod is assumed and not yet confirmed."""
        return pod.uid in self._assumed

    def is_bound(self, pod: PodInfo) -> bool:
        """Return whether the pod counts on a node."""
        return self.bound_pod(pod.uid) is not None

    def nominate_pod(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pending pod to a node; an empty name removes the nomination."""
        if self.is_bound(pod):
            raise CacheError(f"pod {pod.key} ({pod.uid}) counts on a node, so can't be nominated")
        self.remove_pod(pod)
        if node_name:
            self._writer.nominate_pod(pod, node_name)

    def bound_pod(self, uid: str) -> BoundPod | None:
        """Return a pod that counts on a node; None for any other."""
        pods = self._cluster.pods
        index = pods.index_of.get(uid)
        return pods.pods[index] if index is not None and pods.counted[index] else None

    def bound_pods(self) -> Iterator[BoundPod]:
        """Yield every pod that counts on a node, assumed ones included."""
        return (pod for pod in self._cluster.pods.pods if pod is not None and not pod.nominated)

    @property
    def assumed_count(self) -> int:
        """Return the number of assumed pods that are not confirmed yet."""
        return len(self._assumed)

    def _whole(self, pod: PodInfo) -> bytes | None:
        return pod.raw if self.keeps_whole_pods else None


class UnassignedPods:
    """Pods without a node by `namespace/name`, those of other schedulers included, as last watched.

    Upstream: client-go listers, as pkg/scheduler/schedule_one.go uses them
    """

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[PodInfo]:
        return iter(self._pods.values())

    def get(self, key: str) -> PodInfo | None:
        return self._pods.get(key)

    def put(self, pod: PodInfo) -> None:
        self._pods[pod.key] = pod

    def pop(self, key: str, uid: str) -> PodInfo | None:
        """Remove and return a pod; None if another uid has its name."""
        pod = self._pods.get(key)
        return self._pods.pop(key) if pod is not None and pod.uid == uid else None


def load_objects(
    cache: Cache, objects: Iterable[KubeObject], scheduler_names: Collection[str]
) -> list[PodInfo]:
    """Put objects into a cache; return the pending pods, in order.

    A pending pod of another scheduler is not nominated here.
    """
    pending: list[PodInfo] = []
    for obj in objects:
        if isinstance(obj, Node):
            cache.add_node(obj)
        elif not isinstance(obj, Pod):
            cache.put(obj)
        elif (obj.status.phase or "") not in TERMINAL_PHASES:
            pod = cache.pod_info(obj)
            if pod.node_name:
                cache.add_pod(pod)
            else:
                pending.append(pod)
                if pod.nominated_node_name and pod.scheduler_name in scheduler_names:
                    cache.nominate_pod(pod, pod.nominated_node_name)
    return pending
