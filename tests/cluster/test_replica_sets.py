"""ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.conftest import World
from tests.cluster.replicated import (
    NOWHERE,
    Document,
    a_replica_set,
    a_replication_controller,
    a_template,
    condition,
    end_pods,
    names_of,
    notes,
    patch,
    path_of,
    silent_node,
    until_pods,
    until_status,
)

Make = Callable[[str, int, Document | None], Document]

both = pytest.mark.parametrize(
    "make",
    [
        pytest.param(a_replica_set, id="ReplicaSet"),
        pytest.param(a_replication_controller, id="ReplicationController"),
    ],
)


def waiting(name: str) -> Document:
    """Return a template of pods that fit on no node."""
    return a_template(name, nodeSelector=NOWHERE)


@both
def test_pods_are_created_from_the_template(world: World, make: Make) -> None:
    template = a_template("web")
    template["metadata"]["annotations"] = {"note": "kept"}
    (workload,) = world.create(make("web", 3, template))
    path = path_of(world, workload)
    found = until_status(
        world, path, "all are available", replicas=3, readyReplicas=3, availableReplicas=3
    )
    assert found["status"]["fullyLabeledReplicas"] == 3
    pods = world.pods("app=web")
    for pod in pods:
        metadata = pod["metadata"]
        assert metadata["generateName"] == "web-"
        assert metadata["annotations"]["note"] == "kept"
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": workload["apiVersion"],
                "kind": workload["kind"],
                "name": "web",
                "uid": workload["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    reported = {f"Created pod: {name}" for name in names_of(pods)}
    world.until(
        lambda: reported <= set(notes(world, "web", "SuccessfulCreate")), "events tell of it"
    )


@both
def test_a_deleted_pod_is_replaced(world: World, make: Make) -> None:
    world.create(make("web", 2, waiting("web")))
    first = until_pods(world, "app=web", 2)
    gone = first[0]["metadata"]["name"]
    world.api.delete(world.path("pods", gone)).must(200)
    world.until(lambda: gone not in names_of(world.pods()), "it is gone")
    assert len(names_of(until_pods(world, "app=web", 2)) & names_of(first)) == 1


@both
def test_a_failed_pod_does_not_count(world: World, make: Make) -> None:
    (workload,) = world.create(make("web", 1, waiting("web")))
    (pod,) = until_pods(world, "app=web", 1)
    name = pod["metadata"]["name"]
    patch(world, world.path("pods", name) + "/status", {"status": {"phase": "Failed"}})
    pods = until_pods(world, "app=web", 2)
    assert name in names_of(pods)
    until_status(world, path_of(world, workload), "one is counted", replicas=1)


@pytest.mark.programs
@both
def test_scaling_creates_and_deletes_pods(world: World, make: Make) -> None:
    (workload,) = world.create(make("web", 1, waiting("web")))
    path = path_of(world, workload)
    until_pods(world, "app=web", 1)
    scale = world.get(f"{path}/scale")
    scale["spec"]["replicas"] = 7
    # Its status may change meanwhile.
    del scale["metadata"]["resourceVersion"]
    world.api.put(f"{path}/scale", scale).must(200)
    until_status(world, path, "seven", replicas=7)
    assert world.get(f"{path}/scale")["status"]["replicas"] == 7
    before = names_of(until_pods(world, "app=web", 7))
    world.kubectl("scale", f"{workload['kind'].lower()}/web", "--replicas=2")
    until_status(world, path, "two", replicas=2)
    gone = before - names_of(until_pods(world, "app=web", 2))
    reported = {f"Deleted pod: {name}" for name in gone}
    world.until(
        lambda: reported <= set(notes(world, "web", "SuccessfulDelete")), "events tell of it"
    )


@both
def test_the_cheapest_pod_is_deleted_first(world: World, make: Make) -> None:
    (workload,) = world.create(make("web", 3, waiting("web")))
    pods = until_pods(world, "app=web", 3)
    cheap = pods[1]["metadata"]["name"]
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-10"}
    patch(world, world.path("pods", cheap), {"metadata": {"annotations": cost}})
    # A controller that sees a later change of the same pod knows the cost.
    patch(world, path_of(world, workload), {"spec": {"replicas": 2}})
    left = names_of(until_pods(world, "app=web", 2))
    assert left == names_of(pods) - {cheap}


@both
def test_orphans_are_adopted_and_mismatches_released(world: World, make: Make) -> None:
    orphan = {"kind": "Pod", "apiVersion": "v1", **waiting("web")}
    orphan["metadata"]["name"] = "orphan"
    world.create(orphan)
    (workload,) = world.create(make("web", 1, waiting("web")))

    def owners() -> list[str]:
        metadata = world.get(world.path("pods", "orphan"))["metadata"]
        return [reference["uid"] for reference in metadata.get("ownerReferences", [])]

    world.until(lambda: owners() == [workload["metadata"]["uid"]], "it is adopted")
    until_status(world, path_of(world, workload), "it is the one", replicas=1)
    assert names_of(until_pods(world, "app=web", 1)) == {"orphan"}
    patch(world, world.path("pods", "orphan"), {"metadata": {"labels": {"app": "other"}}})
    world.until(lambda: not owners(), "it is let go")
    (other,) = until_pods(world, "app=web", 1)
    assert other["metadata"]["name"] != "orphan"


@both
def test_a_creation_failure_is_reported(world: World, make: Make) -> None:
    template = waiting("web")
    template["spec"]["serviceAccountName"] = "missing"
    (workload,) = world.create(make("web", 2, template))
    path = path_of(world, workload)
    world.until(lambda: condition(world.get(path), "ReplicaFailure"), "it failed")
    reported = condition(world.get(path), "ReplicaFailure")
    assert (reported["status"], reported["reason"]) == ("True", "FailedCreate")
    assert 'serviceaccount "missing" not found' in reported["message"]
    world.until(
        lambda: f"Error creating: {reported['message']}" in notes(world, "web", "FailedCreate"),
        "it has an event",
    )
    world.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "missing"}})
    until_pods(world, "app=web", 2)
    world.until(lambda: not condition(world.get(path), "ReplicaFailure"), "it does no more")


@both
def test_pods_become_available_after_min_ready_seconds(world: World, make: Make) -> None:
    workload = make("web", 2, None)
    workload["spec"]["minReadySeconds"] = 3600
    world.create(workload)
    path = path_of(world, workload)
    found = until_status(world, path, "both are ready", readyReplicas=2)
    assert "availableReplicas" not in found["status"]
    patch(world, path, {"spec": {"minReadySeconds": 1}})
    until_status(world, path, "both are available", availableReplicas=2)


def test_terminating_pods_are_counted_separately(world: World) -> None:
    with silent_node(world) as node:
        (workload,) = world.create(a_replica_set("web", 2, a_template("web", nodeName=node)))
        path = path_of(world, workload)
        until_status(world, path, "two", replicas=2)
        patch(world, path, {"spec": {"replicas": 0}})
        until_status(world, path, "two leave", replicas=0, terminatingReplicas=2)
        end_pods(world, "app=web")
        until_status(world, path, "all are gone", replicas=0, terminatingReplicas=0)


def test_a_selector_with_expressions_selects_matching_pods(world: World) -> None:
    workload = a_replica_set("web", 2, waiting("web"))
    workload["spec"]["selector"] = {
        "matchExpressions": [
            {"key": "app", "operator": "In", "values": ["web", "www"]},
            {"key": "retired", "operator": "DoesNotExist"},
        ]
    }
    world.create(workload)
    first = until_pods(world, "app=web", 2)
    retired = first[0]["metadata"]["name"]
    patch(world, world.path("pods", retired), {"metadata": {"labels": {"retired": "yes"}}})
    until_pods(world, "app=web", 3)
    assert "ownerReferences" not in world.get(world.path("pods", retired))["metadata"]


def test_many_pods_are_created_at_once(world: World) -> None:
    (workload,) = world.create(a_replica_set("web", 150, waiting("web")))
    until_status(world, path_of(world, workload), "all are there", replicas=150)
    assert len(world.pods("app=web")) == 150
