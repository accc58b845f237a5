"""The cluster of these tests is complete, with real or simulated components."""

from __future__ import annotations

from tests.cluster.conftest import World


def test_a_deployment_runs(world: World) -> None:
    labels = {"app": "web"}
    container = {"name": "main", "image": "nginx"}
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )
    path = world.path("deployments", "web", group="apps/v1")
    world.until(
        lambda: world.get(path).get("status", {}).get("availableReplicas") == 2,
        "two pods are available",
    )
    assert {pod["status"]["phase"] for pod in world.pods("app=web")} == {"Running"}
    assert {pod["spec"]["nodeName"] for pod in world.pods()} <= set(world.nodes)
