"""An extender with a cluster in memory, and its plugins.

Owns helpers that add nodes and pods and build calls. Expected values are never computed here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from kubesched import (
    CycleState,
    NodeTable,
    NodeView,
    PodInfo,
    PreFilterResult,
    Rejected,
    Status,
    unresolvable,
    unschedulable,
)
from kubesched.api.decode import decode_as
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.cache import Cache
from kubesched.client.resources import NODES, PODS
from kubesched.client.watch.changes import Change
from kubesched.config.load import load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.extender.server.build import BuiltExtender, build_extender
from kubesched.extender.server.cluster_state import ClusterState
from kubesched.extender.server.service import ExtenderService
from kubesched.extender.wire import ExtenderArgs, decode_args
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.tasks import Tasks
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.profile.build import config_enabling
from kubesched.profile.plugin_loading import registry_with
from kubesched.run.settings import Environment
from kubesched.testing import a_node, a_pod

Document = dict[str, Any]


class ByLabel:
    """Controlled by labels of nodes; rejects nodes with a pod of the same app."""

    name = "ByLabel"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        if "raise" in node.labels:
            raise RuntimeError("no such luck")
        if "never" in node.labels:
            return unresolvable("never here")
        if any(other.labels.get("app") == pod.labels.get("app") for other in node.pods):
            return unschedulable("the app is here already")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return int(node.labels.get("score", "0"))


class InColumns:
    """Rejects nodes labelled `spot`, over columns; scores by free cpu."""

    name = "InColumns"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        return [Rejected(nodes.has_label("spot"), unschedulable("spot"))]

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Any:
        free = nodes.allocatable["cpu"] - nodes.requested["cpu"]
        return free * 100 // nodes.allocatable["cpu"]


class Choosy:
    """Names the nodes of an annotation in pre_filter, or rejects the pod."""

    name = "Choosy"

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> PreFilterResult | Status | None:
        state.write("Choosy", len(nodes))
        node_names = pod.annotations.get("nodes")
        if node_names == "none":
            return unschedulable("not today")
        return None if node_names is None else PreFilterResult(frozenset(node_names.split(",")))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return int(state.read("Choosy"))


class KnownWorld(ClusterState):
    """A fully listed cluster."""

    @property
    def has_synced(self) -> bool:
        return True


@dataclass
class Extender:
    """An extender with the nodes and pods of a test."""

    service: ExtenderService
    world: ClusterState
    built: BuiltExtender
    version: int = 100

    def put_node(self, document: Document, change: str = "ADDED") -> Document:
        """Send a node through the watch; return it."""
        self.version += 1
        named = as_served(document, self.version)
        raw = json.dumps(named).encode()
        node = decode_as(Node, raw)
        name = node.metadata.name
        self.world.apply(Change(NODES, change, name, node.metadata.uid, node, raw))
        return named

    def put_pod(self, document: Document, change: str = "ADDED") -> Document:
        """Send a pod through the watch; return it."""
        self.version += 1
        named = as_served(document, self.version)
        raw = json.dumps(named).encode()
        pod = decode_as(Pod, raw)
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self.world.apply(Change(PODS, change, key, pod.metadata.uid, pod, raw))
        return named

    def names(self, *names: str, pod: Document | None = None) -> ExtenderArgs:
        """Return arguments with node names."""
        return extender_args(pod or a_pod("new"), NodeNames=list(names))

    def whole(self, *nodes: Document, pod: Document | None = None) -> ExtenderArgs:
        """Return arguments with whole nodes."""
        return extender_args(pod or a_pod("new"), Nodes={"metadata": {}, "items": list(nodes)})


def as_served(document: Document, version: int) -> Document:
    """Return an object as an API server serves it."""
    metadata = document["metadata"]
    namespace = {"namespace": metadata.get("namespace") or "default"}
    served = {
        "name": metadata["name"],
        **(namespace if document["kind"] == "Pod" else {}),
        "uid": f"uid-{metadata['name']}",
        "resourceVersion": str(version),
    }
    return {
        "metadata": {**metadata, **served},
        **{k: document[k] for k in ("spec", "status") if k in document},
    }


def extender_args(pod: Document, **nodes: Any) -> ExtenderArgs:
    """Return decoded arguments of a call."""
    body = {"Pod": as_served(pod, 7), "Nodes": None, "NodeNames": None, **nodes}
    return decode_args(json.dumps(body).encode())


def an_extender(*plugins: Any, config: Document | None = None, **settings: Any) -> Extender:
    """Return an extender with plugins, enabled at every point without a configuration."""
    cache, log = Cache(), NullLog()
    registry = registry_with(plugins)
    built = build_extender(
        _config(registry, config),
        out_of_tree=registry,
        view=cache.snapshot(),
        clock=SystemClock(),
        log=log,
        tasks=Tasks(),
    )
    environment = Environment(cast("Any", None), SystemClock(), log, SchedulerMetrics())
    world = KnownWorld(cache, built.resources, environment)
    return Extender(ExtenderService(world, built.profiles, **settings), world, built)


def _config(registry: Any, config: Document | None) -> KubeSchedulerConfiguration:
    if config is None:
        return config_enabling(registry)
    head = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    return load_config_object({**head, **config})


def some_nodes(extender: Extender, **labels: dict[str, str]) -> list[Document]:
    """Add nodes by name and labels."""
    return [extender.put_node(a_node(name, labels=own)) for name, own in labels.items()]
