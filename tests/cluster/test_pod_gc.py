"""Pods that no kubelet can remove are deleted by force.

kube-controller-manager checks every 20 s, and waits 40 s for a node to come back.
"""

from __future__ import annotations

import pytest

from tests.cluster.conftest import World
from tests.cluster.replicated import NOWHERE, Document, a_template, condition, patch, silent_node

HELD = "example.com/held"
PATIENCE_S = 110.0

pytestmark = pytest.mark.timeout(150)


def a_pod(name: str, **spec: object) -> Document:
    """Return a pod with a finalizer, so that it can be read after its deletion."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "finalizers": [HELD]},
        "spec": {**a_template(name)["spec"], **spec},
    }


def until_failed(world: World, name: str) -> Document:
    path = world.path("pods", name)

    def predicate() -> bool:
        pod = world.get(path)
        is_deleted = pod["metadata"].get("deletionGracePeriodSeconds") == 0
        return is_deleted and bool(pod["status"]["phase"] == "Failed")

    world.until(predicate, f"{name} is marked as failed, and deleted at once", PATIENCE_S)
    return world.get(path)


def let_go(world: World, name: str) -> None:
    path = world.path("pods", name)
    patch(world, path, {"metadata": {"finalizers": None}})
    world.until(lambda: not world.get(path), f"{name} is gone")


def test_pods_of_a_deleted_node(world: World) -> None:
    with silent_node(world) as node:
        world.create(a_pod("left", nodeName=node))
    pod = until_failed(world, "left")
    target = condition(pod, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "DeletionByPodGC")
    assert target["message"] == "PodGC: node no longer exists"
    let_go(world, "left")


def test_terminating_unbound_pods(world: World) -> None:
    world.create(a_pod("nowhere", nodeSelector=NOWHERE))
    world.api.delete(world.path("pods", "nowhere")).must(200)
    pod = until_failed(world, "nowhere")
    assert condition(pod, "DisruptionTarget") == {}
    let_go(world, "nowhere")


def test_terminating_pods_of_an_out_of_service_node(world: World) -> None:
    with silent_node(world) as node:
        world.create(a_pod("stuck", nodeName=node))
        path = world.path("pods", "stuck")
        world.api.delete(path).must(200)
        assert world.get(path)["metadata"]["deletionGracePeriodSeconds"] > 0
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}
        patch(world, f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}})
        until_failed(world, "stuck")
        let_go(world, "stuck")
