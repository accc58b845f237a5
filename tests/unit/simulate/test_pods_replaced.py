"""Pods that the workloads of a running cluster lack, by the state of their existing pods."""

from typing import Any

import pytest

from kubesched.api.pod import Pod
from kubesched.manifests.documents import ManifestError
from tests.unit.simulate.small_clusters import Document, capacity_of, node, pod, scenario, workload

GOING = {"deletionTimestamp": "2024-01-01T00:00:00Z"}
INDEX = "batch.kubernetes.io/job-completion-index"


def made(*documents: Document) -> list[str]:
    """Return the names of the created pods."""
    objects = scenario(node("n"), *documents).with_missing_pods().objects
    waiting = [obj for obj in objects if isinstance(obj, Pod) and not obj.spec.node_name]
    return [obj.metadata.name for obj in waiting]


def with_status(document: Document, **status: Any) -> Document:
    return {**document, "status": status}


def condition(kind: str, status: str = "True") -> list[dict[str, str]]:
    return [{"type": kind, "status": status}]


# -- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "count"),
    [
        pytest.param(
            with_status(workload("Job", "j"), conditions=condition("Complete")), 0, id="complete"
        ),
        pytest.param(
            with_status(workload("Job", "j"), conditions=condition("Failed")), 0, id="failed"
        ),
        pytest.param(
            with_status(workload("Job", "j"), conditions=condition("Failed", "False")),
            1,
            id="explicitly not failed",
        ),
        pytest.param(
            with_status(workload("Job", "j"), conditions=condition("SuccessCriteriaMet")),
            0,
            id="about to be complete",
        ),
        pytest.param(
            with_status(workload("Job", "j"), conditions=condition("FailureTarget")),
            0,
            id="about to be failed",
        ),
        pytest.param(
            with_status(workload("Job", "j", parallelism=3), succeeded=1),
            0,
            id="one success is enough without completions",
        ),
        pytest.param(
            with_status(workload("Job", "j", parallelism=3, completions=5), succeeded=4),
            1,
            id="as many as are left",
        ),
        pytest.param(
            workload("Job", "j", managedBy="kueue.x-k8s.io/multikueue"), 0, id="another's job"
        ),
        pytest.param(
            workload("Job", "j", managedBy="kubernetes.io/job-controller"),
            1,
            id="explicitly managed by the job controller",
        ),
        pytest.param(
            with_status(workload("Job", "j", backoffLimit=2), failed=3), 0, id="failed too often"
        ),
    ],
)
def test_a_job_creates_pods_until_it_is_complete(job: Document, count: int) -> None:
    assert len(made(job)) == count


def test_a_job_without_a_status_counts_its_pods() -> None:
    ended = pod("j-x", on="n", owner="Job/j", status={"phase": "Succeeded"})
    assert made(workload("Job", "j", parallelism=2), ended) == []


def test_an_indexed_job_starts_the_lowest_free_indexes() -> None:
    job = workload("Job", "j", completionMode="Indexed", parallelism=3, completions=5)
    runs = pod("j-2-x", on="n", owner="Job/j", metadata={"annotations": {INDEX: "2"}})
    assert made(with_status(job, succeeded=1, completedIndexes="0"), runs) == ["j-1", "j-3"]


def test_an_index_whose_pod_failed_is_started_again() -> None:
    job = workload("Job", "j", completionMode="Indexed", parallelism=2, completions=2)
    failed = pod(
        "j-0",
        on="n",
        owner="Job/j",
        status={"phase": "Failed"},
        metadata={"annotations": {INDEX: "0"}},
    )
    assert made(job, failed) == ["j-0-new", "j-1"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"parallelism": 2},
            r"Job default/j: spec.completions: Required value: when completion mode is Indexed",
            id="completions are required",
        ),
        pytest.param(
            {"parallelism": 100_001, "completions": 1},
            r"Job default/j: spec.parallelism: Invalid value: must be less than or equal to 100000",
            id="not too many at once",
        ),
    ],
)
def test_an_indexed_job_has_required_fields(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(ManifestError, match=text):
        scenario(workload("Job", "j", completionMode="Indexed", **spec))


# -- stateful sets --------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_stateful_set_replaces_a_terminated_pod_under_its_name(phase: str) -> None:
    documents = [
        node("n"),
        workload("StatefulSet", "db", replicas=3),
        pod("db-0", on="n", owner="StatefulSet/db", status={"phase": phase}),
        pod("db-1", on="n", owner="StatefulSet/db"),
    ]
    objects = scenario(*documents).with_missing_pods().objects
    phases = {obj.metadata.name: obj.status.phase for obj in objects if isinstance(obj, Pod)}
    assert phases == {"db-0": "", "db-1": "Running", "db-2": ""}


def test_the_next_pod_of_a_stateful_set_is_the_replacement() -> None:
    read = scenario(
        node("n"),
        workload("StatefulSet", "db", replicas=2),
        pod("db-0", on="n", owner="StatefulSet/db", status={"phase": "Failed"}),
        pod("db-1", on="n", owner="StatefulSet/db"),
    )
    subject = read.subject("sts/db")
    assert subject.pod.metadata.name == "db-0"
    assert "default/db-0" not in [obj.key for obj in subject.others]


def test_a_stateful_set_starts_at_its_first_ordinal() -> None:
    database = workload("StatefulSet", "db", replicas=2, ordinals={"start": 5})
    beyond = pod("db-0", on="n", owner="StatefulSet/db")
    assert made(database, beyond) == ["db-5", "db-6"]


def test_copies_of_a_stateful_set_start_at_its_first_ordinal() -> None:
    database = workload("StatefulSet", "db", ordinals={"start": 5})
    run = capacity_of([node("n", "2")], database)
    assert [run.world.has_pod(f"default/db-{at}") for at in (0, 5, 6)] == [False, True, True]


# -- deletion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        pytest.param("ReplicaSet", ["w-0"], id="a replica set replaces it at once"),
        pytest.param("ReplicationController", ["w-0"], id="so does a replication controller"),
        pytest.param("Job", ["w-0"], id="so does a job"),
        pytest.param("StatefulSet", [], id="a stateful set waits until the name is free"),
        pytest.param("DaemonSet", [], id="a daemon set waits until the pod is gone"),
    ],
)
def test_a_pod_that_is_being_deleted_is_replaced(kind: str, names: list[str]) -> None:
    going = pod(
        "w-0" if kind == "StatefulSet" else "w-x", on="n", owner=f"{kind}/w", metadata=GOING
    )
    assert made(workload(kind, "w"), going) == names


def test_a_job_may_wait_until_a_pod_has_terminated() -> None:
    going = pod("j-x", on="n", owner="Job/j", metadata=GOING)
    assert made(workload("Job", "j", podReplacementPolicy="Failed"), going) == []


@pytest.mark.parametrize(
    "kind", ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"]
)
def test_a_workload_that_is_being_deleted_creates_no_pods(kind: str) -> None:
    document = workload(kind, "w")
    document["metadata"] |= GOING
    assert made(document) == []
