"""Pods, nodes, clusters and profiles for tests, from the wire form up.

Owns short builders of objects. They are decoded as the scheduler decodes objects of the API
server, and stored in real columns, so that tests see the same shapes as the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kubesched.api.decode import decode_as, decode_object
from kubesched.api.meta import KubeResource
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.cache import Cache
from kubesched.cache.writer import ClusterWriter
from kubesched.config.load import default_config, load_config_object
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EXTENSION_POINTS, points_of
from kubesched.framework.runtime.plugin_sets import PluginSets
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.registry import PluginFactory, Registry
from kubesched.plugins.in_tree import IN_TREE
from kubesched.profile.build import Built, build
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo, compile_shape
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.trial import Trial
from kubesched.snapshot.view import ClusterView

Wire = dict[str, Any]
CONFIG_VERSION = "kubescheduler.config.k8s.io/v1"


def pod_wire(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    image: str = "app:1",
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Wire:
    """Return the document of a pod of one container; `spec` takes further fields."""
    container: Wire = {"name": "main", "image": image}
    if requests is not None:
        container["resources"] = {"requests": dict(requests)}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": {"containers": [container], **spec},
        "status": dict(status or {}),
    }


def a_wire_pod(name: str = "pod", **parts: Any) -> Pod:
    """Return a pod as the API server sends it, decoded."""
    return decode_as(Pod, pod_wire(name, **parts))


def a_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    image: str = "app:1",
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PodInfo:
    """Return a pod of one container; `spec` takes further fields by their wire names."""
    pod = a_wire_pod(
        name,
        namespace=namespace,
        uid=uid,
        labels=labels,
        requests=requests,
        image=image,
        status=status,
        metadata=metadata,
        **spec,
    )
    return PodInfo(pod, compile_shape(pod))


def a_wire_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Node:
    """Return a roomy node as the API server sends it; `spec` takes further fields."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"} if allocatable is None else allocatable
    wire = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})}
        | dict(metadata or {}),
        "spec": spec,
        "status": {"allocatable": dict(room), **(status or {})},
    }
    return decode_as(Node, wire)


def a_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> NodeInfo:
    """Return a roomy node; `spec` takes further fields by their wire names."""
    node = a_wire_node(
        name,
        labels=labels,
        allocatable=allocatable,
        status=status,
        metadata=metadata,
        **spec,
    )
    return NodeInfo(node)


def a_budget(
    name: str,
    match_labels: Mapping[str, str] | None,
    *,
    namespace: str = "default",
    allowed: int = 0,
    disrupted: Iterable[str] = (),
) -> KubeResource:
    """Return a disruption budget; without labels to match it has no selector at all."""
    selector = {} if match_labels is None else {"selector": {"matchLabels": dict(match_labels)}}
    return decode_object(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": selector,
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2024-05-01T00:00:00Z"),
            },
        }
    )


def a_cache(*names: str) -> Cache:
    """Return a cache with nodes of these names."""
    cache = Cache()
    for name in names:
        cache.add_node(a_wire_node(name))
    return cache


def a_cluster(
    nodes: Iterable[NodeInfo],
    pods: Mapping[str, Iterable[PodInfo]] | None = None,
    objects: Iterable[KubeResource] = (),
    nominated: Mapping[str, Iterable[PodInfo]] | None = None,
) -> ClusterView:
    """Return the view of a cluster.

    Args:
        nodes: in the order in which they came.
        pods: by the name of the node they are on.
        objects: of any other kind the scheduler reads.
        nominated: nominated pods, by the name of their node.
    """
    cluster = ClusterTables()
    writer = ClusterWriter(cluster)
    for node in nodes:
        writer.set_node(node)
    for node_name, placed in (pods or {}).items():
        for pod in placed:
            writer.add_pod(pod, node_name)
    for node_name, nominee in (nominated or {}).items():
        for pod in nominee:
            writer.nominate_pod(pod, node_name)
    for obj in objects:
        cluster.objects.store_of(type(obj)).put(obj.key, obj)
    return ClusterView(cluster)


def a_trial(view: ClusterView, *node_names: str) -> Trial:
    """Return a trial over the named nodes."""
    return Trial(view, np.array([view.row_of(name) for name in node_names], dtype=np.int64))


IN_TREE_CLASSES = frozenset(record.plugin for record in IN_TREE.values())


def a_profile(
    *plugins: Any,
    weights: Mapping[str, int] | None = None,
    percentage_of_nodes_to_score: int | None = None,
) -> Profile:
    """Return a profile of just these plugins, at every point they extend, in this order."""
    points = {
        point: tuple(plugin.name for plugin in plugins if point in points_of(plugin))
        for point in EXTENSION_POINTS
    }
    score_weights = {name: (weights or {}).get(name, 1) for name in points["score"]}
    return Profile(
        "default-scheduler",
        PluginSets(points, score_weights, {}),
        {plugin.name: plugin for plugin in plugins},
        in_tree=[plugin.name for plugin in plugins if type(plugin) in IN_TREE_CLASSES],
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
    )


def a_handle(profile: Profile, view: ClusterView) -> Handle:
    """Return the handle of a profile over a cluster."""
    handle = Handle(profile.name)
    handle.attach(profile)
    handle.view = view
    return handle


def a_config(plugins: Mapping[str, Any] | None = None, **profile: Any) -> Wire:
    """Return a configuration document of one profile."""
    body = {"schedulerName": "default-scheduler", **profile}
    if plugins is not None:
        body["plugins"] = dict(plugins)
    return {
        "apiVersion": CONFIG_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [body],
    }


def built_with(*plugins: PluginFactory, first: bool = False) -> Built:
    """Return the default profile with a user's plugins at every point they extend.

    Args:
        plugins: classes that have a name.
        first: have them run before the in-tree plugins, which keep their weights.
    """
    registry = Registry({plugin.name: plugin for plugin in plugins})  # type: ignore[attr-defined]  # classes with a name
    names = [{"name": name} for name in registry]
    enabled: Wire = {"multiPoint": {"enabled": names}}
    if first:
        usual = default_config().profiles[0].plugins.multi_point.enabled
        in_tree = [{"name": p.name, "weight": p.weight} for p in usual]
        enabled = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [*names, *in_tree]}}
    return build(load_config_object(a_config(enabled)), out_of_tree=registry)
