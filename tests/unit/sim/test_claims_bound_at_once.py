"""New claims of classes that do not wait for a pod: bound as by a controller, before any try."""

from typing import Any

import pytest

import kubesched
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim
from tests.unit.sim.small_clusters import (
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

ZONE = "topology.kubernetes.io/zone"
A, B = node("a", zone="x"), node("b", zone="y")


def storage_class(provisioner: str = "csi.example.com", **rest: Any) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": provisioner,
        **rest,
    }


def claim(
    name: str = "c", *, phase: str = "", size: str = "1Gi", class_name: str = "fast"
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": phase} if phase else {},
    }


def zoned(key: str, zone: str) -> Document:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}


def volume(name: str, zone: str, size: str = "1Gi", **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [zoned(ZONE, zone)]}},
            **spec,
        },
    }


def using(*claims: str, name: str = "p", **rest: Any) -> Document:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, volumes=volumes, **rest)


def database(replicas: int = 2) -> Document:
    template = claim("data")
    return workload(
        "StatefulSet",
        "db",
        replicas=replicas,
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": template["spec"]}],
    )


# -- volumes that are made ------------------------------------------------------------------------


def test_a_provisioner_makes_a_volume_for_each_new_claim() -> None:
    made = world(A, storage_class(), claim("c"), claim("d"), using("c", "d"))
    objects = made.view.objects
    names = set()
    for key in ("default/c", "default/d"):
        found = objects.persistent_volume_claims.get(key)
        assert isinstance(found, PersistentVolumeClaim)
        assert found.status.phase == "Bound"
        bound = objects.persistent_volumes.get(found.spec.volume_name)
        assert isinstance(bound, PersistentVolume)
        assert bound.spec.claim_ref is not None
        assert f"default/{bound.spec.claim_ref.name}" == key
        assert bound.spec.csi is not None
        assert bound.spec.csi.driver == "csi.example.com"
        names.add(bound.metadata.name)
    assert len(names) == 2


def test_the_pods_of_a_stateful_set_are_placed() -> None:
    assert places(simulated(A, storage_class(), database())) == {"db-0": "a", "db-1": "a"}


def test_copies_of_a_stateful_set_fit() -> None:
    assert capacity_of([A, B, storage_class()], database()).count == 8


def test_the_next_pod_of_a_stateful_set_is_explained() -> None:
    found = kubesched.explain("statefulset/db", [A, storage_class(), database()])
    assert (found.pod, found.node) == ("default/db-0", "a")


def test_a_new_volume_is_where_the_class_allows_it() -> None:
    only_y = storage_class(
        allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["y"]}]}]
    )
    assert places(simulated(A, B, only_y, claim(), using("c"))) == {"p": "b"}


def test_a_new_volume_counts_against_what_a_node_can_attach() -> None:
    driver = {"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}
    limit = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "a"},
        "spec": {"drivers": [driver]},
    }
    run = simulated(A, limit, storage_class(), database())
    assert places(run) == {"db-0": "a"}
    assert "node(s) exceed max volume count" in run.left[0].outcome.message


def test_an_ephemeral_volume_is_made_as_well() -> None:
    template = {"spec": claim()["spec"]}
    volumes = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
    assert places(simulated(A, storage_class(), pod("p", volumes=volumes))) == {"p": "a"}


# -- volumes that are there -----------------------------------------------------------------------


def test_a_free_volume_goes_to_one_claim_and_the_smallest_that_will_do_first() -> None:
    run = simulated(
        A,
        B,
        storage_class("kubernetes.io/no-provisioner"),
        volume("large", "x", "9Gi"),
        volume("small", "y", "2Gi"),
        claim("c", size="2Gi"),
        claim("d", size="2Gi"),
        claim("e", size="2Gi"),
        using("c", name="p"),
        using("d", name="q"),
        using("e", name="r"),
    )
    assert places(run) == {"p": "b", "q": "a"}
    assert left(run) == {"r": "Unschedulable"}


def test_a_volume_that_is_kept_for_a_claim_is_its_own() -> None:
    kept = volume("kept", "y", claimRef={"namespace": "default", "name": "c"})
    run = simulated(A, B, storage_class(), kept, claim("d"), claim("c"), using("c"))
    assert places(run) == {"p": "b"}


def test_a_volume_of_no_class_is_for_a_claim_of_none() -> None:
    run = simulated(A, B, volume("v", "y", storageClassName=""), claim(class_name=""), using("c"))
    assert places(run) == {"p": "b"}


# -- who gets none --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([storage_class(), claim(phase="Pending")], id="a controller has not bound it"),
        pytest.param([storage_class("kubernetes.io/no-provisioner"), claim()], id="no provisioner"),
        pytest.param([claim()], id="no class"),
    ],
)
def test_a_claim_that_nobody_binds_keeps_its_pod_waiting(documents: list[Document]) -> None:
    run = simulated(A, *documents, using("c"))
    assert left(run) == {"p": "Unschedulable"}
    assert "unbound immediate PersistentVolumeClaims" in run.left[0].outcome.message


def test_a_claim_that_waits_for_its_pod_is_left_to_the_scheduler() -> None:
    made = world(A, storage_class(volumeBindingMode="WaitForFirstConsumer"), claim(), using("c"))
    found = made.view.objects.persistent_volume_claims.get("default/c")
    assert isinstance(found, PersistentVolumeClaim)
    assert (found.status.phase, found.spec.volume_name) == ("Pending", "")


# -- what is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "notes"),
    [
        pytest.param(
            [storage_class(), claim("c"), claim("d")],
            "StorageClass fast binds at once: PersistentVolumeClaim default/c and 1 more is taken "
            "to get a new volume, for any node",
            id="made up",
        ),
        pytest.param(
            [
                storage_class(
                    allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["x"]}]}]
                ),
                database(),
            ],
            "StorageClass fast binds at once: a claim of StatefulSet default/db is taken to get a "
            "new volume, in its allowedTopologies",
            id="made up, somewhere",
        ),
        pytest.param([storage_class(), volume("v", "x"), claim()], "", id="one that is there"),
        pytest.param(
            [storage_class(), claim(phase="Pending")],
            "nobody binds PersistentVolumeClaim default/c here: its pods are left",
            id="a controller has not bound it",
        ),
    ],
)
def test_volumes_that_are_made_up_are_told(documents: list[Document], notes: str) -> None:
    assert scenario(A, *documents).notes == ((notes,) if notes else ())
