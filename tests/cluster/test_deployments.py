"""Deployments: rollout, pause, rollback and scaling."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import World
from tests.cluster.replicated import (
    NOWHERE,
    Document,
    a_deployment,
    a_replica_set,
    a_template,
    condition,
    end_pods,
    names_of,
    notes,
    patch,
    silent_node,
    until_pods,
    until_status,
)

REVISION = "deployment.kubernetes.io/revision"
IMAGE = "registry.example/web"


def path_of(world: World, name: str = "web") -> str:
    return world.path("deployments", name, group="apps/v1")


def sets_of(world: World, name: str = "web") -> list[Document]:
    """Return the ReplicaSets of a deployment, by revision."""
    path = world.path("replicasets", group="apps/v1")
    sets = world.items(path, labelSelector=f"app={name}")
    return sorted(sets, key=lambda one: int(one["metadata"]["annotations"].get(REVISION, 0)))


def sizes_of(world: World, name: str = "web") -> list[int]:
    return [one["spec"]["replicas"] for one in sets_of(world, name)]


def until_rolled_out(world: World, replicas: int, name: str = "web") -> Document:
    return until_status(
        world,
        path_of(world, name),
        f"{name} is rolled out",
        replicas=replicas,
        updatedReplicas=replicas,
        availableReplicas=replicas,
        unavailableReplicas=0,
    )


def stuck() -> Document:
    """Return a template of pods that fit on no node."""
    return a_template("web", f"{IMAGE}:stuck", nodeSelector=NOWHERE)


def test_a_deployment_has_a_replica_set_that_has_pods(world: World) -> None:
    expected = a_deployment("web", 3)
    expected["metadata"]["annotations"] = {"team": "blue"}
    (created,) = world.create(expected)
    rolled_out = until_rolled_out(world, 3)
    assert rolled_out["metadata"]["annotations"] == {"team": "blue", REVISION: "1"}
    assert rolled_out["status"]["readyReplicas"] == 3
    (replica_set,) = sets_of(world)
    metadata = replica_set["metadata"]
    hash_text = metadata["labels"]["pod-template-hash"]
    assert metadata["name"] == f"web-{hash_text}"
    assert metadata["annotations"] == {
        "team": "blue",
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert metadata["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == hash_text
    for pod in world.pods("app=web"):
        assert pod["metadata"]["labels"]["pod-template-hash"] == hash_text
    available, progressing = (
        condition(rolled_out, "Available"),
        condition(rolled_out, "Progressing"),
    )
    assert (available["status"], available["reason"]) == ("True", "MinimumReplicasAvailable")
    assert progressing["status"] == "True"
    world.until(
        lambda: (
            condition(world.get(path_of(world)), "Progressing")["message"]
            == f'ReplicaSet "{metadata["name"]}" has successfully progressed.'
        ),
        "it has progressed",
    )
    scaled = f"Scaled up replica set {metadata['name']} from 0 to 3"
    world.until(lambda: scaled in notes(world, "web", "ScalingReplicaSet"), "it has an event")


@pytest.mark.programs
def test_kubectl_rolls_out_and_undoes_a_new_image(world: World) -> None:
    world.create(a_deployment("web", 4))
    world.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    world.kubectl("set", "image", "deployment/web", f"web={IMAGE}:2")
    output = world.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert 'deployment "web" successfully rolled out' in output
    first, second = sets_of(world)
    assert (first["spec"]["replicas"], second["spec"]["replicas"]) == (0, 4)
    images = {pod["spec"]["containers"][0]["image"] for pod in until_pods(world, "app=web", 4)}
    assert images == {f"{IMAGE}:2"}
    history = world.kubectl("rollout", "history", "deployment/web").split("\n")
    assert [line.split()[0] for line in history if line and line[0].isdigit()] == ["1", "2"]
    world.kubectl("rollout", "undo", "deployment/web")
    world.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    second, first = sets_of(world)
    assert first["spec"]["template"]["spec"]["containers"][0]["image"] == f"{IMAGE}:1"
    assert first["metadata"]["annotations"][REVISION] == "3"
    assert first["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert [first["spec"]["replicas"], second["spec"]["replicas"]] == [4, 0]
    world.until(
        lambda: world.get(path_of(world))["metadata"]["annotations"][REVISION] == "3",
        "the deployment has the third revision",
    )


@pytest.mark.programs
def test_the_deprecated_rollback_annotation_works(world: World) -> None:
    world.create(a_deployment("web", 1))
    until_rolled_out(world, 1)
    world.kubectl("set", "image", "deployment/web", f"web={IMAGE}:2")
    until_rolled_out(world, 1)
    world.kubectl("annotate", "deployment/web", "deprecated.deployment.rollback.to=0")
    note = 'Rolled back deployment "web" to revision 1'
    world.until(lambda: note in notes(world, "web", "DeploymentRollback"), "it is taken back")
    rolled_out = until_rolled_out(world, 1)
    assert rolled_out["spec"]["template"]["spec"]["containers"][0]["image"] == f"{IMAGE}:1"
    assert "deprecated.deployment.rollback.to" not in rolled_out["metadata"]["annotations"]
    world.kubectl("annotate", "deployment/web", "deprecated.deployment.rollback.to=7")
    world.until(
        lambda: (
            notes(world, "web", "DeploymentRollbackRevisionNotFound")
            == ["Unable to find the revision to rollback to."]
        ),
        "there is no such revision",
    )


def test_min_ready_seconds_is_copied_to_the_replica_set(world: World) -> None:
    world.create(a_deployment("web", 2, minReadySeconds=300))
    document = until_status(world, path_of(world), "both are ready", readyReplicas=2)
    assert condition(document, "Available")["status"] == "False"
    assert sets_of(world)[0]["spec"]["minReadySeconds"] == 300
    patch(world, path_of(world), {"spec": {"minReadySeconds": 0}})
    until_rolled_out(world, 2)
    assert "minReadySeconds" not in sets_of(world)[0]["spec"]


@pytest.mark.programs
def test_a_restart_replaces_all_pods(world: World) -> None:
    world.create(a_deployment("web", 3))
    until_rolled_out(world, 3)
    before = names_of(world.pods("app=web"))
    world.kubectl("rollout", "restart", "deployment/web")
    world.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert not before & names_of(until_pods(world, "app=web", 3))


@pytest.mark.programs
def test_a_paused_deployment_does_not_roll_out(world: World) -> None:
    world.create(a_deployment("web", 2))
    until_rolled_out(world, 2)
    world.kubectl("rollout", "pause", "deployment/web")
    world.until(
        lambda: condition(world.get(path_of(world)), "Progressing")["reason"] == "DeploymentPaused",
        "it is paused",
    )
    world.kubectl("set", "image", "deployment/web", f"web={IMAGE}:2")
    # A paused deployment is still scaled.
    world.kubectl("scale", "deployment/web", "--replicas=3")
    until_status(world, path_of(world), "three old pods", replicas=3, updatedReplicas=0)
    assert sizes_of(world) == [3]
    world.kubectl("rollout", "resume", "deployment/web")
    until_rolled_out(world, 3)
    assert sizes_of(world) == [0, 3]


@pytest.mark.programs
def test_a_stuck_rollout_is_reported(world: World) -> None:
    world.create(a_deployment("web", 2, stuck(), progressDeadlineSeconds=2))
    world.until(
        lambda: (
            condition(world.get(path_of(world)), "Progressing").get("reason")
            == "ProgressDeadlineExceeded"
        ),
        "the deadline is exceeded",
    )
    (replica_set,) = sets_of(world)
    reported = condition(world.get(path_of(world)), "Progressing")
    name = replica_set["metadata"]["name"]
    assert (reported["status"], reported["message"]) == (
        "False",
        f'ReplicaSet "{name}" has timed out progressing.',
    )
    completed = world.run_kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert completed.returncode == 1
    assert completed.stderr == 'error: deployment "web" exceeded its progress deadline\n'
    patch(world, path_of(world), {"spec": {"template": a_template("web", nodeSelector=None)}})
    rolled_out = until_rolled_out(world, 2)
    assert condition(rolled_out, "Progressing")["status"] == "True"


@pytest.mark.programs
def test_a_broken_template_respects_max_unavailable(world: World) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    world.create(a_deployment("web", 10, strategy=strategy))
    until_rolled_out(world, 10)
    patch(world, path_of(world), {"spec": {"template": stuck()}})
    world.until(lambda: sizes_of(world) == [8, 5], "eight old and five new")
    until_status(world, path_of(world), "eight work", availableReplicas=8, replicas=13)
    # Scaling during the rollout is proportional, the surge included.
    world.kubectl("scale", "deployment/web", "--replicas=15")
    world.until(lambda: sizes_of(world) == [11, 7], "eleven old and seven new")
    until_status(world, path_of(world), "eleven work", availableReplicas=11, replicas=18)
    # A third template replaces both.
    patch(
        world,
        path_of(world),
        {"spec": {"template": a_template("web", f"{IMAGE}:3", nodeSelector=None)}},
    )
    until_rolled_out(world, 15)
    assert sizes_of(world) == [0, 0, 15]


def test_recreate_deletes_old_pods_first(world: World) -> None:
    with silent_node(world) as node:
        template = a_template("web", nodeName=node)
        world.create(a_deployment("web", 2, template, strategy={"type": "Recreate"}))
        until_status(world, path_of(world), "two", replicas=2, updatedReplicas=2)
        other = {"template": {**stuck(), "spec": {**stuck()["spec"], "nodeName": None}}}
        patch(world, path_of(world), {"spec": other})
        leaving = {"replicas": 0, "terminatingReplicas": 2}
        until_status(world, path_of(world), "the old ones leave", **leaving)
        assert sizes_of(world) == [0]
        end_pods(world, "app=web")
        until_status(world, path_of(world), "the new ones come", replicas=2, updatedReplicas=2)
        assert sizes_of(world) == [0, 2]
        images = {pod["spec"]["containers"][0]["image"] for pod in world.pods("app=web")}
        assert images == {f"{IMAGE}:stuck"}


@pytest.mark.programs
def test_old_replica_sets_are_cleaned_up(world: World) -> None:
    world.create(a_deployment("web", 1, revisionHistoryLimit=1))
    until_rolled_out(world, 1)
    for number in (2, 3, 4):
        world.kubectl("set", "image", "deployment/web", f"web={IMAGE}:{number}")
        until_rolled_out(world, 1)
    world.until(lambda: len(sets_of(world)) == 2, "one old ReplicaSet is left")
    revisions = [one["metadata"]["annotations"][REVISION] for one in sets_of(world)]
    assert revisions == ["3", "4"]


def test_a_replica_set_with_the_template_is_adopted(world: World) -> None:
    replica_set = a_replica_set("web", 2)
    replica_set["metadata"]["name"] = "found"
    (orphan,) = world.create(replica_set)
    # A controller that has not seen it yet creates its own.
    until_status(world, world.path("replicasets", "found", group="apps/v1"), "it is known")
    (created,) = world.create(a_deployment("web", 3))
    until_rolled_out(world, 3)
    (adopted,) = sets_of(world)
    assert adopted["metadata"]["uid"] == orphan["metadata"]["uid"]
    assert adopted["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    assert adopted["metadata"]["annotations"][REVISION] == "1"


def test_a_hash_collision_leads_to_another_name(world: World) -> None:
    world.create(a_deployment("web", 1))
    until_rolled_out(world, 1)
    (first,) = sets_of(world)
    name = first["metadata"]["name"]
    # With other labels it no longer belongs to the deployment, and still has the name.
    path = world.path("replicasets", name, group="apps/v1")
    patch(world, path, {"metadata": {"labels": {"app": "other"}}})
    world.until(lambda: "ownerReferences" not in world.get(path)["metadata"], "it is let go")
    world.until(lambda: names_of(sets_of(world)) - {name}, "there is another")
    assert world.get(path_of(world))["status"]["collisionCount"] == 1
    until_rolled_out(world, 1)


@pytest.mark.programs
def test_annotations_are_copied_to_the_new_replica_set(world: World) -> None:
    world.create(a_deployment("web", 1, stuck()))
    world.until(lambda: sets_of(world), "it has a ReplicaSet")
    world.kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=the first")
    world.until(
        lambda: (
            sets_of(world)[0]["metadata"]["annotations"].get("kubernetes.io/change-cause")
            == "the first"
        ),
        "the annotation is there too",
    )
    assert "the first" in world.kubectl("rollout", "history", "deployment/web")


@pytest.mark.programs
def test_scaling_applies_to_the_only_replica_set(world: World) -> None:
    world.create(a_deployment("web", 2, stuck()))
    until_status(world, path_of(world), "two", replicas=2)
    path = f"{path_of(world)}/scale"
    patch(world, path, {"spec": {"replicas": 5}})
    until_status(world, path_of(world), "five", replicas=5, unavailableReplicas=5)
    (replica_set,) = sets_of(world)
    desired = replica_set["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"]
    assert desired == "5"
    name = replica_set["metadata"]["name"]
    reported = f"Scaled up replica set {name} from 2 to 5"
    world.until(lambda: reported in notes(world, "web", "ScalingReplicaSet"), "it has an event")
    world.kubectl("scale", "deployment/web", "--replicas=0")
    until_status(world, path_of(world), "none", replicas=0)
    until_pods(world, "app=web", 0)


def test_a_failure_of_its_replica_set_is_reported(world: World) -> None:
    template = stuck()
    template["spec"]["serviceAccountName"] = "missing"
    world.create(a_deployment("web", 1, template))
    world.until(
        lambda: condition(world.get(path_of(world)), "ReplicaFailure"), "it reports the failure"
    )
    reported = condition(world.get(path_of(world)), "ReplicaFailure")
    assert (reported["status"], reported["reason"]) == ("True", "FailedCreate")
    assert 'serviceaccount "missing" not found' in reported["message"]


@pytest.mark.programs
def test_its_dependents_are_deleted_with_it(world: World) -> None:
    world.create(a_deployment("web", 2))
    until_rolled_out(world, 2)
    world.kubectl("delete", "deployment/web", "--timeout=30s")
    world.until(lambda: not sets_of(world) and not world.pods("app=web"), "all are gone")
