"""The cluster that the tests beside this one run on: it is whole, whoever's parts it has."""

from __future__ import annotations

from tests.cluster.conftest import World


def test_a_deployment_comes_to_run(world: World) -> None:
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
    assert {one["status"]["phase"] for one in world.pods("app=web")} == {"Running"}
    assert {one["spec"]["nodeName"] for one in world.pods()} <= set(world.nodes)
