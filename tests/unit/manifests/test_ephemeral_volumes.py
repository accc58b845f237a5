"""Claims of ephemeral volumes, which are not in the files."""

from typing import Any

from kubesched.api.storage import PersistentVolumeClaim
from tests.unit.simulate.small_clusters import (
    Document,
    capacity_of,
    left,
    node,
    places,
    pod,
    scenario,
    simulated,
    workload,
    world,
)

DYNAMIC: Document = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "dyn",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def scratch(**metadata: Any) -> list[dict[str, Any]]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": metadata, "spec": spec}
    return [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]


def test_a_pod_gets_the_claim_of_its_ephemeral_volume() -> None:
    made = world(node("n"), DYNAMIC, pod("p", volumes=scratch(labels={"of": "p"})))
    claim = made.view.objects.store_of(PersistentVolumeClaim).get("default/p-tmp")
    assert isinstance(claim, PersistentVolumeClaim)
    (owner,) = claim.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == ("Pod", "p", True)
    assert owner.uid == made.pending[0].uid
    assert claim.metadata.labels == {"of": "p"}
    assert claim.spec.access_modes == ("ReadWriteOnce",)
    assert claim.spec.storage_class_name == "dyn"


def test_a_pod_with_an_ephemeral_volume_is_placed() -> None:
    run = simulated(node("n"), DYNAMIC, pod("p", volumes=scratch()))
    assert places(run) == {"p": "n"}


def test_copies_with_ephemeral_volumes_have_their_own_claims() -> None:
    cluster = [node("a", pods="10"), node("b", pods="10"), DYNAMIC]
    assert capacity_of(cluster, pod("p", "100m", volumes=scratch())).count == 20


def test_pods_of_a_workload_get_claims_of_ephemeral_volumes() -> None:
    document = workload("ReplicaSet", "w", replicas=2)
    document["spec"]["template"]["spec"]["volumes"] = scratch()
    assert places(simulated(node("n"), DYNAMIC, document)) == {"w-0": "n", "w-1": "n"}


def test_a_foreign_claim_of_the_same_name_is_unchanged() -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "p-tmp"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    run = simulated(node("n"), DYNAMIC, foreign, pod("p", volumes=scratch()))
    assert left(run) == {"p": "Unschedulable"}
    assert "was not created for pod default/p (pod is not owner)" in run.left[0].outcome.message


def test_a_recreated_pod_gets_its_own_claim() -> None:
    database = pod("db-0", "1", on="a", owner="StatefulSet/db", volumes=scratch())
    database["metadata"]["uid"] = "old"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "old", "controller": True}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "db-0-tmp", "ownerReferences": [owner]},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "dyn"},
    }
    run = simulated(node("a", "1"), DYNAMIC, claim, database, pod("big", "1", priority=9))
    assert places(run) == {"big": "a"}
    assert "Insufficient cpu" in run.left[0].outcome.message


def test_explaining_a_pod_creates_its_claim() -> None:
    subject = scenario(node("n"), DYNAMIC, pod("p", volumes=scratch())).subject("p")
    claims = [other.key for other in subject.others if isinstance(other, PersistentVolumeClaim)]
    assert claims == ["default/p-tmp"]
