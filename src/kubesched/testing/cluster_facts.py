"""Everything that a plugin can read of a cluster and a pod, as values that can be compared.

Never depends on rows or ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubesched.api.decode import STRUCTS
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable

_NOT_STORED: Final = (Pod, Node)


def facts_of(view: ClusterView, pod: PodInfo) -> dict[str, Any]:
    """Return the values by name: `node n1: labels`, `pod shop/web: priority`."""
    return dict(_facts(view, pod))


def _facts(view: ClusterView, pod: PodInfo) -> Iterator[tuple[str, Any]]:
    yield from _pod_facts(pod)
    yield f"pod {pod.key}: object", msgspec.json.encode(pod.object)
    yield f"pod {pod.key}: node", (pod.node_name, pod.nominated_node_name, pod.phase)
    nodes = view.all_nodes()
    yield "the nodes", tuple(nodes.names)
    yield from _node_facts(nodes)
    for index in view.pods.index_of.values():
        bound = view.bound_pod(index)
        yield from _pod_facts(bound)
        yield f"pod {bound.key}: node", bound.node_name
    for kind in STRUCTS.values():
        if kind not in _NOT_STORED:
            for obj in view.objects.store_of(kind):
                yield f"{kind.__name__} {obj.key}", msgspec.json.encode(obj)


def _pod_facts(pod: PodInfo | BoundPod) -> Iterator[tuple[str, Any]]:
    about = f"pod {pod.key}"
    yield f"{about}: uid", pod.uid
    yield f"{about}: labels", dict(pod.labels)
    yield f"{about}: annotations", dict(pod.annotations)
    yield f"{about}: priority", pod.priority
    yield f"{about}: requests", dict(pod.requests)
    yield f"{about}: owners", tuple(map(msgspec.json.encode, pod.owners))
    yield f"{about}: terminating", pod.terminating


def _node_facts(nodes: NodeTable) -> Iterator[tuple[str, Any]]:
    resources = sorted({name for node in nodes for name in node.allocatable})
    for node in nodes:
        about = f"node {node.name}"
        yield f"{about}: object", msgspec.json.encode(node.info.object)
        yield f"{about}: labels", dict(node.labels)
        yield f"{about}: annotations", dict(node.annotations)
        yield f"{about}: taints", tuple(map(repr, node.taints))
        yield f"{about}: allocatable", dict(node.allocatable)
        yield f"{about}: requested", [node.requested[name] for name in resources]
        yield (
            f"{about}: nonzero requested",
            [node.nonzero_requested[name] for name in ("cpu", "memory")],
        )
        yield f"{about}: counts", (node.pod_count, node.allowed_pods, node.unschedulable)
        yield f"{about}: pods", [pod.key for pod in node.pods]
        yield f"{about}: ports", sorted(node.host_ports)
