"""Deletion of namespaces and their content, pods first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubesched import testing
from tests.cluster.conftest import World
from tests.cluster.owned import HOLD, MERGE_PATCH, Document, a_config_map, custom_kind

# Upstream's controller starts after five seconds, and waits up to eight for finalizers.
pytestmark = pytest.mark.timeout(150)


def a_pod(name: str, **metadata: Any) -> Document:
    pod = testing.a_pod(name, terminationGracePeriodSeconds=1)
    pod["metadata"] |= metadata
    return pod


def deleted(world: World) -> str:
    """Delete the test's namespace; return its path."""
    path = f"/api/v1/namespaces/{world.namespace}"
    world.api.delete(path).must(200)
    return path


def condition(world: World, type_: str) -> Document:
    namespace = world.get(f"/api/v1/namespaces/{world.namespace}")
    for one in namespace.get("status", {}).get("conditions", []):
        if one["type"] == type_:
            return dict(one)
    return {}


def release(world: World, path: str) -> None:
    patch = {"metadata": {"finalizers": None}}
    world.api.patch(path, patch, MERGE_PATCH).must(200)


def test_an_empty_namespace_is_deleted(world: World) -> None:
    path = deleted(world)
    world.until(lambda: world.api.get(path).code == 404, "the namespace is gone", 60)


def test_the_content_of_a_namespace_is_deleted_with_it(world: World) -> None:
    created = world.create(
        a_config_map("one"),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "two"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "three"},
            "rules": [],
        },
        a_pod("four"),
    )
    assert len(created) == 4
    world.until(
        lambda: world.get(world.path("pods", "four"))["spec"].get("nodeName"), "the pod has a node"
    )
    path = deleted(world)
    world.until(lambda: world.api.get(path).code == 404, "the namespace is gone", 60)
    # A new namespace of the same name is empty.
    world.api.post("/api/v1/namespaces", {"metadata": {"name": world.namespace}}).must(201)
    names = [one["metadata"]["name"] for one in world.items(world.path("configmaps"))]
    assert "one" not in names
    assert world.pods() == []
    assert world.items(world.path("roles", group="rbac.authorization.k8s.io/v1")) == []


def test_pods_are_deleted_first(world: World) -> None:
    world.create(a_config_map("waits"), a_pod("first", finalizers=[HOLD]))
    path = deleted(world)
    world.until(
        lambda: condition(world, "NamespaceDeletionContentFailure"), "the deletion is reported", 60
    )
    pod = world.get(world.path("pods", "first"))
    assert pod["metadata"]["deletionTimestamp"]
    assert world.get(world.path("configmaps", "waits"))["metadata"].get("deletionTimestamp") is None
    assert world.get(path)["status"]["phase"] == "Terminating"
    release(world, world.path("pods", "first"))
    world.until(lambda: world.api.get(path).code == 404, "the namespace is gone", 60)


def test_conditions_report_what_blocks_the_deletion(world: World) -> None:
    world.create(a_config_map("held", finalizers=[HOLD]), a_config_map("free"))
    path = deleted(world)
    world.until(
        lambda: condition(world, "NamespaceFinalizersRemaining").get("status") == "True",
        "the finalizer is reported",
        60,
    )
    reported = {one["type"]: one for one in world.get(path)["status"]["conditions"]}
    assert {name: (one["status"], one["reason"]) for name, one in reported.items()} == {
        "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
        "NamespaceDeletionGroupVersionParsingFailure": ("False", "ParsedGroupVersions"),
        "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
        "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
        "NamespaceFinalizersRemaining": ("True", "SomeFinalizersRemain"),
    }
    assert (
        reported["NamespaceContentRemaining"]["message"]
        == "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert reported["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "example.com/hold in 1 resource instances"
    )
    assert world.api.get(world.path("configmaps", "free")).code == 404
    release(world, world.path("configmaps", "held"))
    world.until(lambda: world.api.get(path).code == 404, "the namespace is gone", 60)


def test_a_foreign_finalizer_keeps_an_empty_namespace(world: World) -> None:
    path = f"/api/v1/namespaces/{world.namespace}"
    namespace = world.get(path)
    namespace["spec"]["finalizers"].append("example.com/mine")
    world.api.put(f"{path}/finalize", namespace).must(200)
    deleted(world)
    world.until(
        lambda: world.get(path)["spec"].get("finalizers") == ["example.com/mine"],
        "the namespace is emptied",
        60,
    )
    assert world.api.get(world.path("serviceaccounts", "default")).code == 404
    namespace = world.get(path)
    namespace["spec"]["finalizers"] = []
    world.api.put(f"{path}/finalize", namespace).must(200)
    world.until(lambda: world.api.get(path).code == 404, "the namespace is gone")


@pytest.fixture
def fruit(world: World) -> Iterator[str]:
    """Return the group of a new kind, Fruit."""
    with custom_kind(world) as group:
        yield group


def test_custom_objects_are_deleted_as_well(world: World, fruit: str) -> None:
    fruits = world.path("fruits", group=f"{fruit}/v1")
    body = {"apiVersion": f"{fruit}/v1", "kind": "Fruit", "metadata": {"name": "apple"}}
    world.api.post(fruits, body).must(201)
    path = deleted(world)
    world.until(lambda: world.api.get(path).code == 404, "the namespace is gone", 60)
    assert world.api.get(f"{fruits}/apple").code == 404
