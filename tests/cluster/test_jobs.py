"""Jobs: completion, failures, indexes and policies."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import World
from tests.cluster.job_pods import (
    a_job,
    end_pod,
    index_of,
    job,
    job_path,
    pods_of,
    true_conditions,
    until_condition,
    until_job,
    until_waiting,
    waiting_pods,
)
from tests.cluster.replicated import Document, condition, notes, patch

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.mark.programs
def test_a_job_runs_to_completion(world: World) -> None:
    world.create(a_job("sum", runs=True, completions=4, parallelism=2))
    world.kubectl("wait", "--for=condition=complete", "job/sum", "--timeout=40s")
    status = job(world, "sum")["status"]
    assert true_conditions(status) == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    complete = condition({"status": status}, "Complete")
    assert complete["message"] == "Reached expected number of succeeded pods"
    assert (status["succeeded"], status.get("active", 0), status.get("failed", 0)) == (4, 0, 0)
    assert (status["ready"], status["terminating"]) == (0, 0)
    assert status["uncountedTerminatedPods"] == {}
    assert status["startTime"] <= status["completionTime"]
    pods = pods_of(world, "sum")
    assert len(pods) == 4
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    assert [pod["metadata"].get("finalizers") for pod in pods] == [None] * 4
    assert "4/4" in world.kubectl("get", "job", "sum")
    world.until(lambda: notes(world, "sum", "Completed") == ["Job completed"], "the event")
    created = notes(world, "sum", "SuccessfulCreate")
    assert sorted(created) == sorted(f"Created pod: {pod['metadata']['name']}" for pod in pods)


def test_pods_belong_to_the_job_until_they_are_counted(world: World) -> None:
    world.create(a_job("sum"))
    (pod,) = until_waiting(world, "sum", 1)
    metadata = pod["metadata"]
    uid = job(world, "sum")["metadata"]["uid"]
    assert metadata["generateName"] == "sum-"
    assert metadata["finalizers"] == [TRACKING]
    assert metadata["labels"]["batch.kubernetes.io/controller-uid"] == uid
    owner = metadata["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Job", uid)
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
    until_job(world, "sum", lambda status: status.get("active") == 1, "one is active")
    end_pod(world, pod)
    until_condition(world, "sum", "Complete")
    (pod,) = pods_of(world, "sum")
    assert "finalizers" not in pod["metadata"]


def test_parallelism_and_completions_limit_the_pods(world: World) -> None:
    world.create(a_job("sum", completions=3, parallelism=2))
    first, _ = until_waiting(world, "sum", 2)
    end_pod(world, first)
    until_job(world, "sum", lambda status: status.get("succeeded") == 1, "one has succeeded")
    pods = until_waiting(world, "sum", 2)
    patch(world, job_path(world, "sum"), {"spec": {"parallelism": 1}})
    (left,) = until_waiting(world, "sum", 1)
    assert left["metadata"]["name"] in {pod["metadata"]["name"] for pod in pods}
    end_pod(world, left)
    (last,) = until_waiting_after(world, left)
    end_pod(world, last)
    assert until_condition(world, "sum", "Complete")["status"]["succeeded"] == 3


def until_waiting_after(world: World, before: Document) -> list[Document]:
    name = before["metadata"]["name"]

    def others() -> list[Document]:
        pods = waiting_pods(world, "sum")
        return [pod for pod in pods if pod["metadata"]["name"] != name]

    world.until(lambda: len(others()) == 1, f"another pod waits instead of {name}")
    return others()


def test_a_work_queue_is_done_when_one_pod_finds_it_empty(world: World) -> None:
    expected = a_job("sum", parallelism=2)
    world.create(expected)
    first, second = until_waiting(world, "sum", 2)
    end_pod(world, first)
    until_job(world, "sum", lambda status: status.get("succeeded") == 1, "one has succeeded")
    assert true_conditions(job(world, "sum")["status"]) == {}
    end_pod(world, second)
    assert until_condition(world, "sum", "Complete")["status"]["succeeded"] == 2
    assert len(pods_of(world, "sum")) == 2


def test_a_failed_pod_is_replaced(world: World) -> None:
    world.create(a_job("sum"))
    (pod,) = until_waiting(world, "sum", 1)
    end_pod(world, pod, exit_code=1)
    (successor,) = until_waiting_after(world, pod)
    end_pod(world, successor)
    status = until_condition(world, "sum", "Complete")["status"]
    assert (status["succeeded"], status["failed"]) == (1, 1)
    assert len(pods_of(world, "sum")) == 2


def test_the_backoff_limit_fails_the_job(world: World) -> None:
    world.create(a_job("sum", backoffLimit=0, parallelism=2, completions=2))
    first, second = until_waiting(world, "sum", 2)
    end_pod(world, first, exit_code=1)
    status = until_condition(world, "sum", "Failed")["status"]
    assert true_conditions(status) == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    text = "Job has reached the specified backoff limit"
    assert condition({"status": status}, "Failed")["message"] == text
    # The one that had not ended was deleted, and counts as failed.
    assert (status["failed"], status.get("active", 0)) == (2, 0)
    assert "completionTime" not in status
    name = second["metadata"]["name"]
    assert [pod["metadata"]["name"] for pod in pods_of(world, "sum")] != [name]
    world.until(lambda: notes(world, "sum", "BackoffLimitExceeded") == [text], "the event")
    assert notes(world, "sum", "SuccessfulDelete") == [f"Deleted pod: {name}"]


def test_the_deadline_fails_the_job(world: World) -> None:
    world.create(a_job("sum", activeDeadlineSeconds=1))
    status = until_condition(world, "sum", "Failed")["status"]
    assert true_conditions(status)["Failed"] == "DeadlineExceeded"
    text = "Job was active longer than specified deadline"
    assert condition({"status": status}, "Failed")["message"] == text
    world.until(lambda: not pods_of(world, "sum"), "its pod is gone")


def test_suspended_and_resumed(world: World) -> None:
    world.create(a_job("sum", suspend=True, parallelism=2, completions=2))
    status = until_condition(world, "sum", "Suspended")["status"]
    assert "startTime" not in status
    assert pods_of(world, "sum") == []
    path = job_path(world, "sum")
    patch(world, path, {"spec": {"suspend": False}})
    until_waiting(world, "sum", 2)
    status = until_job(world, "sum", lambda status: status.get("active") == 2, "2 active")["status"]
    suspended = condition({"status": status}, "Suspended")
    assert (suspended["status"], suspended["reason"]) == ("False", "JobResumed")
    assert status["startTime"]
    patch(world, path, {"spec": {"suspend": True}})
    world.until(lambda: not pods_of(world, "sum"), "its pods are gone")
    status = until_condition(world, "sum", "Suspended")["status"]
    assert "startTime" not in status
    until_job(world, "sum", lambda status: not status.get("active"), "nothing is active")
    # Pods that were deleted by the suspension have not failed.
    assert job(world, "sum")["status"].get("failed", 0) == 0
    world.until(lambda: notes(world, "sum", "Resumed") == ["Job resumed"], "the event")
    assert "Suspended" in world.reasons("sum")


def test_each_index_has_a_pod(world: World) -> None:
    world.create(a_job("sum", completionMode="Indexed", completions=4, parallelism=4))
    pods = until_waiting(world, "sum", 4)
    assert [index_of(pod) for pod in pods] == [0, 1, 2, 3]
    second = pods[1]
    assert second["metadata"]["name"].startswith("sum-1-")
    assert second["metadata"]["annotations"][INDEX] == "1"
    assert second["spec"]["hostname"] == "sum-1"
    variable = second["spec"]["containers"][0]["env"][0]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    for index in (0, 1, 3):
        end_pod(world, pods[index])
    until_job(world, "sum", lambda status: status.get("succeeded") == 3, "three have succeeded")
    assert job(world, "sum")["status"]["completedIndexes"] == "0,1,3"
    end_pod(world, pods[2])
    assert until_condition(world, "sum", "Complete")["status"]["completedIndexes"] == "0-3"


def test_a_failed_index_has_its_own_backoff(world: World) -> None:
    world.create(
        a_job("sum", completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1)
    )
    first, second = until_waiting(world, "sum", 2)
    end_pod(world, first, exit_code=1)
    end_pod(world, second)
    (retry,) = until_waiting(world, "sum", 1)
    assert index_of(retry) == 0
    counts = "batch.kubernetes.io/job-index-failure-count"
    assert retry["metadata"]["annotations"][counts] == "1"
    end_pod(world, retry, exit_code=1)
    status = until_condition(world, "sum", "Failed")["status"]
    assert true_conditions(status)["Failed"] == "FailedIndexes"
    assert (status["completedIndexes"], status["failedIndexes"]) == ("1", "0")
    assert (status["succeeded"], status["failed"]) == (1, 2)


def test_a_success_policy_ends_the_job_early(world: World) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    world.create(
        a_job("sum", completionMode="Indexed", completions=3, parallelism=3, successPolicy=policy)
    )
    leader, *_ = until_waiting(world, "sum", 3)
    end_pod(world, leader)
    status = until_condition(world, "sum", "Complete")["status"]
    assert true_conditions(status) == {
        "SuccessCriteriaMet": "SuccessPolicy",
        "Complete": "SuccessPolicy",
    }
    assert condition({"status": status}, "Complete")["message"] == "Matched rules at index 0"
    assert status["succeeded"] == 1
    # Pods that it ends early count as failed if the controller syncs once more before the job is
    # finished.
    assert status.get("failed", 0) <= 2
    world.until(lambda: len(pods_of(world, "sum")) == 1, "the others are gone")


def test_a_failure_policy_ends_the_job_at_once(world: World) -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    world.create(a_job("sum", podFailurePolicy={"rules": rules}, backoffLimit=0))
    (pod,) = until_waiting(world, "sum", 1)
    end_pod(world, pod, exit_code=7)
    (retry,) = until_waiting_after(world, pod)
    assert job(world, "sum")["status"].get("failed", 0) == 0
    end_pod(world, retry, exit_code=42)
    status = until_condition(world, "sum", "Failed")["status"]
    assert true_conditions(status)["Failed"] == "PodFailurePolicy"
    name = retry["metadata"]["name"]
    assert condition({"status": status}, "Failed")["message"] == (
        f"Container sum for pod {world.namespace}/{name} failed with exit code 42 "
        "matching FailJob rule at index 1"
    )


@pytest.mark.programs
def test_deleting_a_job_deletes_its_pods(world: World) -> None:
    world.create(a_job("sum", parallelism=2, completions=2))
    until_waiting(world, "sum", 2)
    world.kubectl("delete", "job", "sum", "--timeout=30s")
    world.until(lambda: not pods_of(world, "sum"), "its pods are gone")


@pytest.mark.programs
def test_pods_of_a_deleted_job_are_released(world: World) -> None:
    world.create(a_job("sum"))
    (pod,) = until_waiting(world, "sum", 1)
    world.kubectl("delete", "job", "sum", "--cascade=orphan", "--timeout=30s")
    name = pod["metadata"]["name"]
    path = world.path("pods", name)
    world.until(lambda: "finalizers" not in world.get(path)["metadata"], "nothing holds its pod")
    orphan = world.get(path)["metadata"]
    assert "ownerReferences" not in orphan
    assert "deletionTimestamp" not in orphan


def test_a_job_adopts_matching_pods(world: World) -> None:
    expected = a_job("sum", manualSelector=True, selector={"matchLabels": {"job": "mine"}})
    expected["spec"]["template"]["metadata"] = {"labels": {"job": "mine"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"job": "mine"}},
        "spec": expected["spec"]["template"]["spec"],
    }
    world.create(pod)
    world.create(expected)
    path = world.path("pods", "stray")
    world.until(lambda: world.get(path)["metadata"].get("finalizers") == [TRACKING], "taken in")
    assert world.get(path)["metadata"]["ownerReferences"][0]["name"] == "sum"
    end_pod(world, world.get(path))
    assert until_condition(world, "sum", "Complete")["status"]["succeeded"] == 1
    assert [pod["metadata"]["name"] for pod in world.pods("job=mine")] == ["stray"]


def test_jobs_managed_by_others_are_ignored(world: World) -> None:
    world.create(a_job("theirs", managedBy="example.com/controller"))
    world.create(a_job("ours", completions=0))
    until_condition(world, "ours", "Complete")
    assert pods_of(world, "theirs") == []
    assert job(world, "theirs")["status"] == {}


def test_a_finished_job_is_deleted_after_its_ttl(world: World) -> None:
    world.create(a_job("sum", ttlSecondsAfterFinished=1))
    (pod,) = until_waiting(world, "sum", 1)
    end_pod(world, pod)
    world.until(lambda: not job(world, "sum"), "the job is gone")
    world.until(lambda: not pods_of(world, "sum"), "its pods are gone")


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_a_deleted_pod_counts_as_failed(world: World, policy: str) -> None:
    world.create(a_job("sum", podReplacementPolicy=policy))
    (pod,) = until_waiting(world, "sum", 1)
    path = world.path("pods", pod["metadata"]["name"])
    world.api.delete(path).must(200)
    until_job(world, "sum", lambda status: status.get("failed") == 1, "one has failed")
    world.until(lambda: not world.get(path), "the pod is gone")
