"""Objects that lack what controllers would have written, and notes on what cannot be made up."""

from typing import Any

import pytest

from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.storage import PersistentVolume
from tests.unit.sim.small_clusters import Document, node, pod, scenario, simulated, workload


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
        pytest.param([volume()], "Available", id="a volume of nobody is free"),
        pytest.param([volume(claimRef=KEPT)], "Available", id="kept for a claim to come"),
        pytest.param(
            [volume(claimRef=KEPT), claim(volumeName="v")], "Bound", id="had by the claim"
        ),
        pytest.param([volume(claimRef={**KEPT, "uid": "u"})], "Released", id="its claim is gone"),
        pytest.param([volume(phase="Failed")], "Failed", id="what it says holds"),
    ],
)
def test_a_volume_has_the_phase_a_controller_gives_it(
    documents: list[Document], phase: str
) -> None:
    (found,) = (o for o in scenario(*documents).objects if isinstance(o, PersistentVolume))
    assert found.status.phase == phase


def test_a_volume_without_a_status_can_be_had() -> None:
    run = simulated(
        node("n"),
        storage_class("local", "WaitForFirstConsumer"),
        volume(storageClassName="local"),
        claim(storageClassName="local"),
        pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]),
    )
    assert [one.node for one in run.placements] == ["n"]


# -- disruption budgets ---------------------------------------------------------------------------

NOT_READY: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "False"}]}
FIVE = workload("ReplicaSet", "w", replicas=5)


@pytest.mark.parametrize(
    ("documents", "allowed"),
    [
        pytest.param([budget(minAvailable=1), guarded("a"), guarded("b")], 1, id="one can go"),
        pytest.param([budget(minAvailable=2), guarded("a"), guarded("b")], 0, id="none can"),
        pytest.param([budget(minAvailable=0), guarded("a")], 1, id="all can"),
        pytest.param([budget(minAvailable=0)], 0, id="there is none"),
        pytest.param(
            [budget(minAvailable=1), guarded("a"), guarded("b", **NOT_READY)],
            0,
            id="one that is not ready is not healthy",
        ),
        pytest.param(
            [
                FIVE,
                budget(maxUnavailable=2),
                *(guarded(f"a{i}", owner="ReplicaSet/w") for i in range(4)),
            ],
            1,
            id="of the pods that its controller wants, one is unavailable",
        ),
        pytest.param(
            [budget(maxUnavailable=1), *(guarded(f"a{i}", owner="ReplicaSet/x") for i in range(3))],
            1,
            id="a controller that is not there has what it wants",
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
            id="it says itself that none can",
        ),
        pytest.param(
            [
                {**budget(minAvailable=1), "status": {"observedGeneration": 1}},
                guarded("a"),
                guarded("b"),
            ],
            0,
            id="what a controller wrote holds",
        ),
    ],
)
def test_a_budget_allows_what_the_pods_in_the_files_do(
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
            "pods on nodes that are not in the files count nowhere: default/p on gone and 1 more",
            id="pods of nodes that are not there",
        ),
        pytest.param(
            [claim(storageClassName="fast"), claim("d", storageClassName="fast")],
            "StorageClass fast of PersistentVolumeClaim default/c and 1 more is not in the files: "
            "no volume is found",
            id="a class that is not there",
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
            "StorageClass fast of a claim of StatefulSet default/db is not in the files: "
            "no volume is found",
            id="a class of claims to come",
        ),
        pytest.param(
            [storage_class("slow", "Immediate"), claim(storageClassName="slow")],
            "nobody binds PersistentVolumeClaim default/c here: its pods are left",
            id="a class that makes no volumes",
        ),
    ],
)
def test_what_a_run_cannot_do_justice_to_is_told(documents: list[Document], note: str) -> None:
    assert scenario(node("n"), *documents).notes == (note,)


def test_a_node_that_allows_no_pods_is_told() -> None:
    without = node("n")
    del without["status"]["allocatable"]["pods"]
    note = "Node n has no pods in status.allocatable: no pod fits there"
    assert scenario(without).notes == (note,)


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([volume(claimRef=KEPT), claim(volumeName="v")], id="a claim that has one"),
        pytest.param(
            [storage_class("w", "WaitForFirstConsumer"), claim(storageClassName="w")],
            id="a claim that waits for its pod",
        ),
        pytest.param(
            [pod("p", on="gone", status={"phase": "Succeeded"})], id="a pod that has ended"
        ),
    ],
)
def test_what_is_in_order_is_not_told(documents: list[Document]) -> None:
    assert scenario(node("n"), *documents).notes == ()
