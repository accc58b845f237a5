"""Builders of replicated workloads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubesched.cluster.launch.http import MERGE_PATCH
from tests.cluster.conftest import World

Document = dict[str, Any]

NOWHERE = {"no-node": "has-this"}
"""A nodeSelector that keeps pods from ever being bound, so that no kubelet sees them."""


def a_template(name: str, image: str = "registry.example/web:1", **spec: Any) -> Document:
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": image}], **spec},
    }


def a_replica_set(name: str, replicas: int, template: Document | None = None) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template or a_template(name),
        },
    }


def a_replication_controller(
    name: str, replicas: int, template: Document | None = None
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"app": name},
            "template": template or a_template(name),
        },
    }


def a_deployment(
    name: str, replicas: int, template: Document | None = None, **spec: Any
) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template or a_template(name),
            **spec,
        },
    }


@contextmanager
def silent_node(world: World) -> Iterator[str]:
    """Create a node without a kubelet: pods bound to it neither start nor end."""
    name = f"silent-{world.namespace}"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kubesched.dev/heartbeat": "off"}},
        "spec": {"unschedulable": True},
    }
    world.create(node)
    try:
        yield name
    finally:
        world.api.delete(f"/api/v1/nodes/{name}").must(200)


def end_pods(world: World, selector: str) -> None:
    """Remove pods as their kubelet would when they have ended."""
    now = {"gracePeriodSeconds": 0}
    for pod in world.pods(selector):
        world.api.delete(world.path("pods", pod["metadata"]["name"]), query=now).must(200, 404)


def path_of(world: World, document: Document) -> str:
    """Return the path of a workload."""
    group = document["apiVersion"]
    plural = document["kind"].lower() + "s"
    return world.path(plural, document["metadata"]["name"], group="" if group == "v1" else group)


def patch(world: World, path: str, change: Document) -> Document:
    """Change an object by a merge patch; return it."""
    return world.api.patch(path, change, MERGE_PATCH).must(200).json


def until_status(world: World, path: str, description: str, **fields: int) -> Document:
    """Wait until the status has these numbers and the newest generation; return the object."""

    def predicate() -> bool:
        document = world.get(path)
        status = document.get("status", {})
        return status.get("observedGeneration") == document["metadata"]["generation"] and all(
            status.get(field, 0) == number for field, number in fields.items()
        )

    world.until(predicate, description)
    return world.get(path)


def until_pods(world: World, selector: str, count: int) -> list[Document]:
    """Wait for a number of pods that are not terminating; return them."""

    def staying() -> list[Document]:
        pods = world.pods(selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    world.until(lambda: len(staying()) == count, f"{count} pods of {selector}")
    return staying()


def names_of(documents: list[Document]) -> set[str]:
    return {document["metadata"]["name"] for document in documents}


def condition(document: Document, type_: str) -> Document:
    """Return a condition of an object; empty if it has none."""
    conditions: list[Document] = document.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == type_), {})


def notes(world: World, name: str, reason: str) -> list[str]:
    """Return the messages of the events about an object with a reason."""
    return [
        one["message"]
        for one in world.items(world.path("events"))
        if one["involvedObject"]["name"] == name and one["reason"] == reason
    ]
