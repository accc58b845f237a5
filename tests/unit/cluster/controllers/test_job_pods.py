"""Pods of a Job: removal order and new pods."""

from __future__ import annotations

from typing import Any

from kubesched.api.times import time_text
from kubesched.cluster.controllers.job.pods import active_pods_for_removal, new_pod
from kubesched.workloads.job_pods import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_COUNT,
    NO_INDEX,
    TRACKING_FINALIZER,
    completion_index,
)
from tests.unit.cluster.controllers.job_documents import NOW_S, Document, a_job, a_job_pod


def _names(pods: list[Document]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def _placed(pod: Document, *, ready_s: float | None = None, created_s: float = -600) -> Document:
    pod["spec"]["nodeName"] = "n1"
    pod["metadata"]["creationTimestamp"] = time_text(NOW_S + created_s)
    if ready_s is not None:
        since = time_text(NOW_S + ready_s)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        pod["status"]["conditions"] = [ready]
    return pod


def test_the_least_advanced_pods_are_removed_first() -> None:
    pods = [
        _placed(a_job_pod("long-ready"), ready_s=-500),
        _placed(a_job_pod("just-ready"), ready_s=-5),
        _placed(a_job_pod("old"), created_s=-90),
        _placed(a_job_pod("young"), created_s=-10),
        _placed(a_job_pod("starting", "Pending")),
        a_job_pod("waiting", "Pending"),
    ]
    expected = ["waiting", "starting", "young", "old", "just-ready", "long-ready"]
    assert _names(active_pods_for_removal(a_job(), pods, 6)) == expected
    assert _names(active_pods_for_removal(a_job(), pods, 2)) == expected[:2]
    assert active_pods_for_removal(a_job(), pods, 0) == []


def test_duplicate_and_invalid_indexes_are_always_removed() -> None:
    job = a_job(completionMode="Indexed", completions=3, parallelism=3)
    pods = [
        _placed(a_job_pod("first", index=0), ready_s=-50),
        _placed(a_job_pod("double", index=0), ready_s=-5),
        _placed(a_job_pod("second", index=1)),
        _placed(a_job_pod("beyond", index=3)),
        _placed(a_job_pod("none")),
    ]
    assert sorted(_names(active_pods_for_removal(job, pods, 0))) == ["beyond", "double", "none"]


def test_an_unreadable_index_is_none() -> None:
    pod = a_job_pod("a")
    for text, expected in (("7", 7), ("x", NO_INDEX), ("-3", NO_INDEX), ("", NO_INDEX)):
        pod["metadata"]["annotations"][COMPLETION_INDEX] = text
        assert completion_index(pod) == expected


def test_a_pod_without_an_index() -> None:
    job = a_job()
    pod = new_pod(job, NO_INDEX, None)
    metadata = pod["metadata"]
    assert metadata["generateName"] == "sum-"
    assert metadata["finalizers"] == [TRACKING_FINALIZER]
    assert metadata["labels"] == {"job": "sum"}
    owner = metadata["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "job-uid", True)
    assert "hostname" not in pod["spec"]
    assert "env" not in pod["spec"]["containers"][0]
    assert job == a_job()


def test_a_pod_with_an_index() -> None:
    job = a_job(completionMode="Indexed", completions=3)
    job["metadata"]["name"] = "a" * 60
    pod = new_pod(job, 2, None)
    assert pod["metadata"]["generateName"] == "a" * 55 + "-2-"
    assert pod["metadata"]["annotations"] == {COMPLETION_INDEX: "2"}
    assert pod["metadata"]["labels"] == {"job": "sum", COMPLETION_INDEX: "2"}
    assert pod["spec"]["hostname"] == "a" * 60 + "-2"
    path = f"metadata.labels['{COMPLETION_INDEX}']"
    assert pod["spec"]["containers"][0]["env"] == [
        {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    ]


def test_an_existing_index_variable_is_kept() -> None:
    job = a_job(completionMode="Indexed", completions=3)
    own = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    job["spec"]["template"]["spec"]["containers"][0]["env"] = own
    assert new_pod(job, 0, None)["spec"]["containers"][0]["env"] == own


def test_a_replacement_counts_earlier_failures() -> None:
    rules: list[Any] = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]
    job = a_job(
        completionMode="Indexed",
        completions=3,
        backoffLimitPerIndex=5,
        podFailurePolicy={"rules": rules},
    )

    def counts(replaced: Document | None) -> tuple[str | None, str | None]:
        annotations = new_pod(job, 0, replaced)["metadata"]["annotations"]
        return annotations.get(FAILURE_COUNT), annotations.get(IGNORED_COUNT)

    assert counts(None) == ("0", None)
    assert counts(a_job_pod("a", "Failed", index=0, failures=1, exit_code=1)) == ("2", None)
    assert counts(a_job_pod("a", "Failed", index=0, failures=1, exit_code=3)) == ("1", "1")
