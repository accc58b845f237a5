"""New claims of classes with immediate binding are bound before scheduling."""

from typing import Any

import pytest

import kubesched
from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim
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
    volumes = [{"name": name_, "persistentVolumeClaim": {"claimName": name_}} for name_ in claims]
    return pod(name, volumes=volumes, **rest)


def database(replicas: int = 2) -> Document:
    template = claim("data")
    return workload(
        "StatefulSet",
        "db",
        replicas=replicas,
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": template["spec"]}],
    )


# -- provisioned volumes --------------------------------------------------------------------------


def test_each_new_claim_gets_a_provisioned_volume() -> None:
    made = world(A, storage_class(), claim("c"), claim("d"), using("c", "d"))
    objects = made.view.objects
    names = set()
    for key in ("default/c", "default/d"):
        found = objects.store_of(PersistentVolumeClaim).get(key)
        assert isinstance(found, PersistentVolumeClaim)
        assert found.status.phase == "Bound"
        bound = objects.store_of(PersistentVolume).get(found.spec.volume_name)
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


def test_a_new_volume_is_in_the_allowed_topology() -> None:
    only_y = storage_class(
        allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["y"]}]}]
    )
    assert places(simulated(A, B, only_y, claim(), using("c"))) == {"p": "b"}


def test_a_new_volume_counts_against_the_attach_limit() -> None:
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


def test_an_ephemeral_volume_is_provisioned() -> None:
    template = {"spec": claim()["spec"]}
    volumes = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
    assert places(simulated(A, storage_class(), pod("p", volumes=volumes))) == {"p": "a"}


# -- existing volumes -----------------------------------------------------------------------------


def test_a_free_volume_binds_once_and_the_smallest_sufficient_first() -> None:
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


def test_a_reserved_volume_binds_to_its_claim() -> None:
    kept = volume("kept", "y", claimRef={"namespace": "default", "name": "c"})
    run = simulated(A, B, storage_class(), kept, claim("d"), claim("c"), using("c"))
    assert places(run) == {"p": "b"}


def test_a_volume_without_a_class_binds_to_a_claim_without_one() -> None:
    run = simulated(A, B, volume("v", "y", storageClassName=""), claim(class_name=""), using("c"))
    assert places(run) == {"p": "b"}


# -- claims without a volume ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([storage_class(), claim(phase="Pending")], id="a controller has not bound it"),
        pytest.param([storage_class("kubernetes.io/no-provisioner"), claim()], id="no provisioner"),
        pytest.param([claim()], id="no class"),
    ],
)
def test_an_unbindable_claim_keeps_its_pod_pending(documents: list[Document]) -> None:
    run = simulated(A, *documents, using("c"))
    assert left(run) == {"p": "Unschedulable"}
    assert "unbound immediate PersistentVolumeClaims" in run.left[0].outcome.message


def test_a_claim_that_waits_for_a_consumer_is_left_to_the_scheduler() -> None:
    made = world(A, storage_class(volumeBindingMode="WaitForFirstConsumer"), claim(), using("c"))
    found = made.view.objects.store_of(PersistentVolumeClaim).get("default/c")
    assert isinstance(found, PersistentVolumeClaim)
    assert (found.status.phase, found.spec.volume_name) == ("Pending", "")


# -- notes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "notes"),
    [
        pytest.param(
            [storage_class(), claim("c"), claim("d")],
            "StorageClass fast binds immediately; assuming a new volume on any node for "
            "PersistentVolumeClaim default/c and 1 more",
            id="assumed volume",
        ),
        pytest.param(
            [
                storage_class(
                    allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["x"]}]}]
                ),
                database(),
            ],
            "StorageClass fast binds immediately; assuming a new volume in its allowedTopologies "
            "for a claim of StatefulSet default/db",
            id="assumed volume in its topology",
        ),
        pytest.param([storage_class(), volume("v", "x"), claim()], "", id="existing volume"),
        pytest.param(
            [storage_class(), claim(phase="Pending")],
            "no volume matches PersistentVolumeClaim default/c; its pods are unschedulable",
            id="a controller has not bound it",
        ),
    ],
)
def test_assumed_volumes_are_reported(documents: list[Document], notes: str) -> None:
    assert scenario(A, *documents).notes == ((notes,) if notes else ())
