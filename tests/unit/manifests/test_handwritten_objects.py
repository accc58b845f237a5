"""Handwritten objects without controller status, and notes on incomplete objects."""

from typing import Any

import pytest

from kubesched.api.policy import PodDisruptionBudget
from kubesched.api.storage import PersistentVolume
from tests.unit.simulate.small_clusters import Document, node, pod, scenario, simulated, workload


def volume(name: str = "v", *, phase: str = "", **spec: Any) -> Document:
    document: Document = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec},
    }
    return {**document, "status": {"phase": phase}} if phase else document


def claim(name: str = "c", **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def storage_class(name: str, mode: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    }


def budget(**spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}, **spec},
    }


def guarded(name: str, *, owner: str = "", **status: Any) -> Document:
    return pod(name, on="n", labels={"app": "w"}, owner=owner, status=status)


# -- volumes --------------------------------------------------------------------------------------

KEPT = {"namespace": "default", "name": "c"}


@pytest.mark.parametrize(
    ("documents", "phase"),
    [
        pytest.param([volume()], "Available", id="an unclaimed volume is available"),
        pytest.param([volume(claimRef=KEPT)], "Available", id="reserved for a future claim"),
        pytest.param(
            [volume(claimRef=KEPT), claim(volumeName="v")], "Bound", id="bound to the claim"
        ),
        pytest.param([volume(claimRef={**KEPT, "uid": "u"})], "Released", id="its claim is gone"),
        pytest.param([volume(phase="Failed")], "Failed", id="an existing phase stays"),
    ],
)
def test_a_volume_gets_its_phase(documents: list[Document], phase: str) -> None:
    (found,) = (o for o in scenario(*documents).objects if isinstance(o, PersistentVolume))
    assert found.status.phase == phase


def test_a_volume_without_a_status_is_available() -> None:
    run = simulated(
        node("n"),
        storage_class("local", "WaitForFirstConsumer"),
        volume(storageClassName="local"),
        claim(storageClassName="local"),
        pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]),
    )
    assert [placement.node for placement in run.placements] == ["n"]


# -- disruption budgets ---------------------------------------------------------------------------

NOT_READY: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "False"}]}
FIVE = workload("ReplicaSet", "w", replicas=5)


@pytest.mark.parametrize(
    ("documents", "allowed"),
    [
        pytest.param(
            [budget(minAvailable=1), guarded("a"), guarded("b")], 1, id="one disruption allowed"
        ),
        pytest.param([budget(minAvailable=2), guarded("a"), guarded("b")], 0, id="none can"),
        pytest.param([budget(minAvailable=0), guarded("a")], 1, id="all can"),
        pytest.param([budget(minAvailable=0)], 0, id="no pod"),
        pytest.param(
            [budget(minAvailable=1), guarded("a"), guarded("b", **NOT_READY)],
            0,
            id="an unready pod is not healthy",
        ),
        pytest.param(
            [
                FIVE,
                budget(maxUnavailable=2),
                *(guarded(f"a{i}", owner="ReplicaSet/w") for i in range(4)),
            ],
            1,
            id="one replica of its controller is unavailable",
        ),
        pytest.param(
            [budget(maxUnavailable=1), *(guarded(f"a{i}", owner="ReplicaSet/x") for i in range(3))],
            1,
            id="an absent controller has its desired scale",
        ),
        pytest.param(
            [budget(minAvailable="50%"), *(guarded(f"a{i}", owner="RS/x") for i in range(4))],
            2,
            id="a percentage of them",
        ),
        pytest.param(
            [budget(maxUnavailable=1), guarded("a", owner="DaemonSet/w")], 0, id="no scale is known"
        ),
        pytest.param([budget(maxUnavailable="x"), guarded("a")], 0, id="not a number"),
        pytest.param(
            [
                {**budget(minAvailable=0), "status": {"disruptionsAllowed": 0}},
                guarded("a"),
            ],
            0,
            id="maxUnavailable is 0",
        ),
        pytest.param(
            [
                {**budget(minAvailable=1), "status": {"observedGeneration": 1}},
                guarded("a"),
                guarded("b"),
            ],
            0,
            id="an existing status stays",
        ),
    ],
)
def test_a_budget_is_computed_from_the_pods_in_the_files(
    documents: list[Document], allowed: int
) -> None:
    read = scenario(node("n", "40"), *documents)
    (found,) = (o for o in read.objects if isinstance(o, PodDisruptionBudget))
    assert found.status.disruptions_allowed == allowed


# -- notes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "note"),
    [
        pytest.param(
            [pod("p", on="gone"), pod("q", on="gone"), pod("r", on="n")],
            "pods on nodes outside the files are ignored: default/p on gone and 1 more",
            id="pods on nodes outside the files",
        ),
        pytest.param(
            [claim(storageClassName="fast"), claim("d", storageClassName="fast")],
            "StorageClass fast of PersistentVolumeClaim default/c and 1 more is not in the files; "
            "no volume is found",
            id="a missing class",
        ),
        pytest.param(
            [
                workload(
                    "StatefulSet",
                    "db",
                    volumeClaimTemplates=[
                        {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
                    ],
                )
            ],
            "StorageClass fast of a claim of StatefulSet default/db is not in the files; "
            "no volume is found",
            id="a class of future claims",
        ),
        pytest.param(
            [storage_class("slow", "Immediate"), claim(storageClassName="slow")],
            "no volume matches PersistentVolumeClaim default/c; its pods are unschedulable",
            id="a class without a provisioner",
        ),
    ],
)
def test_incomplete_objects_are_reported(documents: list[Document], note: str) -> None:
    assert scenario(node("n"), *documents).notes == (note,)


def test_a_node_that_allows_no_pods_is_reported() -> None:
    without = node("n")
    del without["status"]["allocatable"]["pods"]
    note = "Node n has no pods in status.allocatable; no pod fits there"
    assert scenario(without).notes == (note,)


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([volume(claimRef=KEPT), claim(volumeName="v")], id="a bound claim"),
        pytest.param(
            [storage_class("w", "WaitForFirstConsumer"), claim(storageClassName="w")],
            id="a claim that waits for its pod",
        ),
        pytest.param(
            [pod("p", on="gone", status={"phase": "Succeeded"})], id="a pod that has ended"
        ),
    ],
)
def test_complete_objects_are_not_reported(documents: list[Document]) -> None:
    assert scenario(node("n"), *documents).notes == ()
