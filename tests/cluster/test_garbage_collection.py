"""Garbage collection by owner references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import World
from tests.cluster.owned import HOLD, MERGE_PATCH, Document, a_config_map, custom_kind, owner

# Upstream's collector discovers new kinds every thirty seconds.
pytestmark = pytest.mark.timeout(150)


def create_config_map(world: World, name: str, *owners: Document, **metadata: Any) -> Document:
    return world.create(a_config_map(name, *owners, **metadata))[0]


def path_of(world: World, name: str) -> str:
    return world.path("configmaps", name)


def is_gone(world: World, name: str) -> bool:
    return world.api.get(path_of(world, name)).code == 404


def until_gone(world: World, *names: str, timeout_s: float = 30.0) -> None:
    def are_gone() -> bool:
        return all(is_gone(world, name) for name in names)

    world.until(are_gone, f"{names} are gone", timeout_s)


def delete(world: World, name: str, policy: str) -> None:
    world.api.delete(path_of(world, name), {"propagationPolicy": policy}).must(200)


def metadata_of(world: World, name: str) -> Document:
    metadata: Document = world.get(path_of(world, name)).get("metadata", {})
    return metadata


def release(world: World, name: str) -> None:
    patch = {"metadata": {"finalizers": None}}
    world.api.patch(path_of(world, name), patch, MERGE_PATCH).must(200)


def test_all_transitive_dependents_are_deleted(world: World) -> None:
    first = create_config_map(world, "first")
    second = create_config_map(world, "second", owner(first))
    create_config_map(world, "third", owner(second))
    create_config_map(world, "other")
    delete(world, "first", "Background")
    assert is_gone(world, "first")
    until_gone(world, "second", "third")
    assert not is_gone(world, "other")


def test_an_absent_owner_does_not_count(world: World) -> None:
    existing = create_config_map(world, "there")
    create_config_map(
        world, "of-nobody", {**owner(existing), "name": "nobody", "uid": "no-such-uid"}
    )
    # Another object has that name now.
    create_config_map(world, "of-a-predecessor", {**owner(existing), "uid": "the-uid-before"})
    until_gone(world, "of-nobody", "of-a-predecessor")
    assert not is_gone(world, "there")


def test_one_existing_owner_keeps_an_object(world: World) -> None:
    first, second = create_config_map(world, "first"), create_config_map(world, "second")
    create_config_map(world, "shared", owner(first), owner(second))
    delete(world, "first", "Background")
    world.until(
        lambda: metadata_of(world, "shared")["ownerReferences"] == [owner(second)],
        "the reference to the owner that is gone is taken away",
    )
    delete(world, "second", "Background")
    until_gone(world, "shared")


def test_foreground_deletion_waits_for_the_dependents(world: World) -> None:
    top = create_config_map(world, "top")
    create_config_map(world, "held", owner(top, blockOwnerDeletion=True), finalizers=[HOLD])
    delete(world, "top", "Foreground")
    world.until(
        lambda: metadata_of(world, "held").get("deletionTimestamp"), "the dependent is deleted"
    )
    assert metadata_of(world, "top")["finalizers"] == ["foregroundDeletion"]
    release(world, "held")
    until_gone(world, "held", "top")


def test_foreground_deletion_is_transitive(world: World) -> None:
    top = create_config_map(world, "top")
    middle = create_config_map(world, "middle", owner(top, blockOwnerDeletion=True))
    create_config_map(world, "bottom", owner(middle, blockOwnerDeletion=True), finalizers=[HOLD])
    delete(world, "top", "Foreground")
    world.until(
        lambda: metadata_of(world, "bottom").get("deletionTimestamp"), "the last one is deleted"
    )
    for name in ("top", "middle"):
        assert metadata_of(world, name)["finalizers"] == ["foregroundDeletion"]
    release(world, "bottom")
    until_gone(world, "bottom", "middle", "top")


def test_foreground_deletion_ignores_nonblocking_dependents(world: World) -> None:
    top = create_config_map(world, "top")
    create_config_map(world, "held", owner(top), finalizers=[HOLD])
    delete(world, "top", "Foreground")
    until_gone(world, "top")
    world.until(
        lambda: metadata_of(world, "held").get("deletionTimestamp"), "the dependent is deleted"
    )
    release(world, "held")


def test_a_dependent_with_another_owner_is_kept(world: World) -> None:
    top, other = create_config_map(world, "top"), create_config_map(world, "other")
    create_config_map(world, "shared", owner(top, blockOwnerDeletion=True), owner(other))
    delete(world, "top", "Foreground")
    until_gone(world, "top")
    assert metadata_of(world, "shared")["ownerReferences"] == [owner(other)]


def test_orphaned_dependents_stay(world: World) -> None:
    top = create_config_map(world, "top")
    for number in range(20):
        create_config_map(world, f"orphan-{number}", owner(top, controller=True))
    delete(world, "top", "Orphan")
    until_gone(world, "top")
    for number in range(20):
        assert "ownerReferences" not in metadata_of(world, f"orphan-{number}")


def test_a_cycle_of_owners_is_deleted(world: World) -> None:
    ring = [create_config_map(world, f"ring-{number}") for number in range(3)]
    for number, document in enumerate(ring):
        before = owner(ring[number - 1], controller=True, blockOwnerDeletion=True)
        patch = {"metadata": {"ownerReferences": [before]}}
        path = path_of(world, document["metadata"]["name"])
        world.api.patch(path, patch, MERGE_PATCH).must(200)
    delete(world, "ring-0", "Foreground")
    until_gone(world, "ring-0", "ring-1", "ring-2")


def test_a_cluster_scoped_owner_owns_namespaced_objects(world: World) -> None:
    name = f"owner-{world.namespace}"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    document = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1,
    }
    top = world.api.post(path, document).must(201).json
    create_config_map(world, "below", owner(top))
    create_config_map(world, "beside")
    world.api.delete(f"{path}/{name}").must(200)
    until_gone(world, "below")
    assert not is_gone(world, "beside")


def test_an_owner_in_another_namespace_does_not_count(world: World) -> None:
    account = world.get("/api/v1/namespaces/kube-system/serviceaccounts/default")
    create_config_map(world, "astray", owner(account))
    until_gone(world, "astray")
    world.until(lambda: "OwnerRefInvalidNamespace" in world.reasons("astray"), "an event says so")


def test_owners_of_two_groups_count_alike(world: World) -> None:
    labels = {"app": "none"}
    container = {"name": "main", "image": "nginx"}
    deployment = world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "empty"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )[0]
    create_config_map(world, "below", owner(deployment))
    sets = world.path("replicasets", group="apps/v1")
    world.until(lambda: world.items(sets), "the deployment has its ReplicaSet")
    path = world.path("deployments", "empty", group="apps/v1")
    world.api.delete(path, {"propagationPolicy": "Background"}).must(200)
    until_gone(world, "below")
    world.until(lambda: not world.items(sets), "the ReplicaSet is gone")


@pytest.mark.programs
@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_kubectl_delete_takes_the_pods_of_a_deployment(world: World, cascade: str) -> None:
    world.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    world.until(lambda: len(world.pods("app=web")) == 3, "there are three pods")
    world.kubectl("delete", "deployment", "web", f"--cascade={cascade}", "--timeout=50s")
    world.until(lambda: not world.pods(), "the pods are gone", 60)
    assert world.items(world.path("replicasets", group="apps/v1")) == []


@pytest.mark.programs
def test_kubectl_delete_can_orphan_the_pods(world: World) -> None:
    world.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    world.until(lambda: len(world.pods("app=web")) == 2, "there are two pods")
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    world.kubectl("delete", "deployment", "web", "--cascade=orphan")
    sets = world.items(world.path("replicasets", group="apps/v1"))
    assert ["ownerReferences" in replica_set["metadata"] for replica_set in sets] == [False]
    assert {pod["metadata"]["uid"] for pod in world.pods()} == before


@pytest.fixture
def fruit(world: World) -> Iterator[str]:
    """Return the group of a new kind, Fruit."""
    with custom_kind(world) as group:
        yield group


def test_objects_of_custom_kinds_own_and_are_owned(world: World, fruit: str) -> None:
    fruits = world.path("fruits", group=f"{fruit}/v1")

    def a_fruit(name: str, *owners: Document) -> Document:
        metadata = {"name": name, "ownerReferences": list(owners)}
        body = {"apiVersion": f"{fruit}/v1", "kind": "Fruit", "metadata": metadata}
        return dict(world.api.post(fruits, body).must(201).json)

    tree = a_fruit("tree")
    apple = a_fruit("apple", owner(tree))
    a_fruit("worm", owner(apple))
    create_config_map(world, "label", owner(tree))
    world.api.delete(f"{fruits}/tree", {"propagationPolicy": "Background"}).must(200)
    until_gone(world, "label", timeout_s=90)
    world.until(lambda: not world.items(fruits), "the others are gone", 60)


def test_custom_objects_can_be_orphaned(world: World, fruit: str) -> None:
    fruits = world.path("fruits", group=f"{fruit}/v1")
    top = create_config_map(world, "top")
    metadata = {"name": "apple", "ownerReferences": [owner(top, controller=True)]}
    body = {"apiVersion": f"{fruit}/v1", "kind": "Fruit", "metadata": metadata}
    world.api.post(fruits, body).must(201)
    # The collector can orphan dependents only once it knows their kind, which the deletion of
    # another object of the kind shows.
    extra = {**body, "metadata": {"name": "extra", "ownerReferences": [{**owner(top), "uid": "0"}]}}
    world.api.post(fruits, extra).must(201)
    world.until(lambda: world.api.get(f"{fruits}/extra").code == 404, "the kind is known", 90)
    delete(world, "top", "Orphan")
    until_gone(world, "top")
    assert "ownerReferences" not in world.get(f"{fruits}/apple")["metadata"]
