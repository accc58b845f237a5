"""Pods, nodes and clusters for plugin tests, from the wire form up.

Owns short ways to write objects. They are decoded as the scheduler decodes what the API server
sends, and stand in real columns: a test meets no shape the scheduler would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kubesched.columns.cluster import Cluster
from kubesched.columns.trial import Trial
from kubesched.columns.view import ClusterView
from kubesched.columns.writer import ClusterWriter
from kubesched.framework.interface import AllReasons, FilterVerdict
from kubesched.framework.status import Code, Status
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo, compile_shape
from kubesched.objects.decode import decode_as
from kubesched.objects.meta import KubeResource
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod


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
    container: dict[str, Any] = {"name": "main", "image": image}
    if requests is not None:
        container["resources"] = {"requests": dict(requests)}
    wire = {
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
    pod = decode_as(Pod, wire)
    return PodInfo(pod, compile_shape(pod))


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
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"} if allocatable is None else allocatable
    wire = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})}
        | dict(metadata or {}),
        "spec": spec,
        "status": {"allocatable": dict(room), **(status or {})},
    }
    return NodeInfo(decode_as(Node, wire))


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
        nominated: pods by the name of the node they were promised.
    """
    cluster = Cluster()
    writer = ClusterWriter(cluster)
    for node in nodes:
        writer.set_node(node)
    for node_name, placed in (pods or {}).items():
        for pod in placed:
            writer.add_pod(pod, node_name)
    for node_name, promised in (nominated or {}).items():
        for pod in promised:
            writer.nominate_pod(pod, node_name)
    for one in objects:
        cluster.objects.store_of(type(one)).put(one.key, one)
    return ClusterView(cluster)


def a_trial(view: ClusterView, *node_names: str) -> Trial:
    """Return a trial over the named nodes."""
    return Trial(view, np.array([view.row_of(name) for name in node_names]))


def statuses_of(verdict: FilterVerdict, names: list[str]) -> dict[str, Status]:
    """Return what a filter said about each node it refused, as upstream's one status a node."""
    found: dict[str, Status] = {}
    for position, name in enumerate(names):
        if isinstance(verdict, AllReasons):
            held = [r.status for r in verdict.rejections if r.mask[position]]
            if held:
                reasons = tuple(reason for status in held for reason in status.reasons)
                worst = (
                    Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                    if any(s.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for s in held)
                    else held[0].code
                )
                found[name] = Status(worst, reasons)
        else:
            first = next((r.status for r in verdict if r.mask[position]), None)
            if first is not None:
                found[name] = first
    return found
