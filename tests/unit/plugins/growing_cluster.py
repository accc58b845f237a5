"""A cluster to which pods are added and from which they are removed, for plugins that count pods.

Owns helpers that place, remove and try pods by name; `builders` creates the objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from kubesched.api.decode import decode_object
from kubesched.api.meta import KubeResource
from kubesched.cache.writer import ClusterWriter
from kubesched.framework.handle import Handle
from kubesched.framework.status import Code, Status
from kubesched.snapshot.node_columns import IdColumn, IntColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.trial import Trial
from kubesched.snapshot.view import ClusterView, NodeTable, Rows
from tests.unit.plugins.builders import a_node, a_pod, a_trial

Wire = dict[str, Any]
Labels = Mapping[str, str]

_CODES = {Code.UNSCHEDULABLE: "U", Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UU", Code.ERROR: "E"}


def node(name: str, labels: Labels | None = None, **spec: Any) -> NodeInfo:
    """Return a node with labels."""
    return a_node(name, labels=labels, **spec)


def pod(
    name: str,
    labels: Labels | None = None,
    *,
    namespace: str = "default",
    at: str = "",
    nominated: str = "",
    terminating: bool = False,
    **spec: Any,
) -> PodInfo:
    """Return a pod with labels: on a node, nominated to one, or pending."""
    metadata = {"deletionTimestamp": "2024-01-01T00:00:00Z"} if terminating else {}
    return a_pod(
        name,
        namespace=namespace,
        labels=labels,
        metadata=metadata,
        status={"nominatedNodeName": nominated},
        nodeName=at,
        **spec,
    )


def a_namespace(name: str, labels: Labels) -> KubeResource:
    """Return a namespace with labels."""
    metadata = {"name": name, "labels": dict(labels)}
    return decode_object({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def a_service(name: str, selector: Labels) -> KubeResource:
    """Return a service of the default namespace."""
    metadata = {"name": name, "namespace": "default"}
    spec = {"selector": dict(selector)}
    wire = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    return decode_object(wire)


class GrowingCluster:
    """Tables with a writer; `view` reads their current state."""

    def __init__(self, *objects: NodeInfo | PodInfo | KubeResource) -> None:
        self._cluster = ClusterTables()
        self._writer = ClusterWriter(self._cluster)
        self.view = ClusterView(self._cluster)
        self.add(*objects)

    def add(self, *objects: NodeInfo | PodInfo | KubeResource) -> None:
        """Add nodes, pods (on their own or nominated node) and objects of other kinds."""
        for obj in objects:
            if isinstance(obj, NodeInfo):
                self._writer.set_node(obj)
            elif isinstance(obj, PodInfo):
                self._place(obj)
            else:
                self._cluster.objects.store_of(type(obj)).put(obj.key, obj)

    def _place(self, pod_info: PodInfo) -> None:
        if pod_info.node_name:
            self._writer.add_pod(pod_info, pod_info.node_name)
        else:
            assert pod_info.nominated_node_name, f"{pod_info.key} has no node"
            self._writer.nominate_pod(pod_info, pod_info.nominated_node_name)

    def remove_pod(self, name: str) -> None:
        """Remove a pod of the default namespace."""
        self._writer.remove_pod(f"uid-default-{name}")

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay."""
        self._writer.remove_node(name)

    @property
    def nodes(self) -> NodeTable:
        """Return the table of all nodes."""
        return self.view.all_nodes()

    def table(self, *names: str) -> NodeTable:
        """Return the table of some nodes."""
        rows: Rows = np.array([self.view.row_of(name) for name in names], dtype=np.int64)
        return self.view.nodes_at(rows)

    def trial(self, *names: str) -> Trial:
        """Return a trial over some nodes."""
        return a_trial(self.view, *names)

    def indices(self, *names: str | None) -> IdColumn:
        """Return one pod of the default namespace, or none, for each row of a trial."""
        index_of = self.view.pods.index_of
        found = [-1 if name is None else index_of[f"uid-default-{name}"] for name in names]
        return np.array(found, dtype=np.int32)

    @property
    def handle(self) -> Handle:
        """Return a handle that has only the snapshot."""
        return cast("Handle", SimpleNamespace(snapshot=self.view))


def in_words(found: Mapping[str, Status]) -> dict[str, str]:
    """Return statuses as `code reason`."""
    return {name: f"{_CODES[status.code]} {status.message}" for name, status in found.items()}


def by_name(scores: IntColumn | Sequence[int], nodes: NodeTable) -> dict[str, int]:
    """Return scores by node name."""
    return {name: int(score) for name, score in zip(nodes.names, scores, strict=True)}
