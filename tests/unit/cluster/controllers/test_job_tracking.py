"""Every pod of a Job is counted exactly once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubesched.cluster.controllers.job.tracking import (
    UNCOUNTED_MAX,
    count_released,
    enact_finish,
    plan_tracking,
)
from kubesched.workloads.job import Backoff, JobState
from kubesched.workloads.job_pods import TRACKING_FINALIZER
from tests.unit.cluster.controllers.job_documents import NOW_S, Document, a_job, a_job_pod


def _state(job: Document, *pods: Document) -> JobState:
    state = JobState(job, pods, Backoff(), NOW_S)
    state.evaluate()
    return state


def _names(pods: list[Document]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def test_finished_pods_are_listed_before_their_release() -> None:
    state = _state(
        a_job(completions=9),
        a_job_pod("a", "Succeeded"),
        a_job_pod("b", "Failed"),
        a_job_pod("c"),
        a_job_pod("d", "Succeeded", is_counted=True),
    )
    plan = plan_tracking(state, needs_flush=False)
    assert _names(plan.to_release) == ["a", "b"]
    assert state.uncounted == {"succeeded": ["uid-a"], "failed": ["uid-b"]}
    assert plan.needs_flush
    assert "succeeded" not in state.status
    del plan.tracked["uid-a"], plan.tracked["uid-b"]
    assert count_released(state, plan.tracked)
    assert (state.status["succeeded"], state.status["failed"]) == (1, 1)
    assert state.uncounted == {"succeeded": [], "failed": []}


def test_nothing_is_written_without_changes() -> None:
    listed = {"uncountedTerminatedPods": {"succeeded": ["uid-a"]}}
    state = _state(a_job(completions=9, status=listed), a_job_pod("a", "Succeeded"))
    plan = plan_tracking(state, needs_flush=False)
    assert _names(plan.to_release) == ["a"]
    assert not plan.needs_flush


def test_running_pods_of_a_job_that_failed_have_failed() -> None:
    state = _state(a_job(backoffLimit=0, parallelism=2), a_job_pod("a", "Failed"), a_job_pod("b"))
    plan = plan_tracking(state, needs_flush=False)
    assert _names(plan.to_release) == ["a", "b"]
    assert state.uncounted["failed"] == ["uid-a", "uid-b"]
    assert [condition["type"] for condition in state.status["conditions"]] == ["FailureTarget"]
    assert state.finished is not None
    assert state.finished["type"] == "Failed"


def test_running_pods_of_a_job_that_succeeded_have_not() -> None:
    policy = {"rules": [{"succeededCount": 1}]}
    state = _state(
        a_job(completionMode="Indexed", completions=3, parallelism=3, successPolicy=policy),
        a_job_pod("a", "Succeeded", index=0),
        a_job_pod("b", index=1),
    )
    plan = plan_tracking(state, needs_flush=False)
    assert _names(plan.to_release) == ["a", "b"]
    assert state.uncounted["failed"] == []
    assert state.status["completedIndexes"] == "0"
    assert state.finished is not None
    assert state.finished["type"] == "Complete"


def test_a_failed_pod_is_kept_for_its_replacement() -> None:
    job = a_job(
        completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=3,
        backoffLimit=2**31 - 1,
    )  # fmt: skip
    failed = a_job_pod("a", "Failed", index=0, failures=0, ended_s=NOW_S)
    assert plan_tracking(_state(job, failed), needs_flush=False).to_release == []
    successor = a_job_pod("b", index=0, failures=1)
    plan = plan_tracking(_state(job, failed, successor), needs_flush=False)
    assert _names(plan.to_release) == ["a"]


def test_one_sync_counts_a_limited_number() -> None:
    pods = [a_job_pod(f"p{number}", "Succeeded") for number in range(UNCOUNTED_MAX + 20)]
    plan = plan_tracking(_state(a_job(completions=1000), *pods), needs_flush=False)
    assert plan.is_full
    assert len(plan.to_release) == UNCOUNTED_MAX


def test_the_final_condition_waits_for_terminating_pods() -> None:
    output = {"type": "FailureTarget", "status": "True", "reason": "R", "message": "m"}
    job = a_job(status={"conditions": [output]})
    state = _state(job, a_job_pod("a", is_counted=True, is_deleted=True))
    assert not enact_finish(state)
    state = _state(job)
    assert enact_finish(state)
    assert [condition["type"] for condition in state.status["conditions"]] == [
        "FailureTarget",
        "Failed",
    ]
    assert "completionTime" not in state.status


_PHASES = st.sampled_from(["Succeeded", "Failed", "Running"])


@given(st.lists(_PHASES, max_size=8), st.data())
def test_no_pod_is_lost_or_counted_twice(phases: list[str], data: st.DataObject) -> None:
    """The controller may stop after any write; its successor continues from the last one."""
    pods = {f"p{n}": a_job_pod(f"p{n}", phase) for n, phase in enumerate(phases)}
    job = a_job(completions=100, parallelism=100, backoffLimit=100)
    for _ in range(20):
        state = _state(job, *pods.values())
        plan = plan_tracking(state, needs_flush=False)
        job = {**state.job}
        if data.draw(st.booleans(), "dies before letting go"):
            continue
        for pod in plan.to_release:
            if data.draw(st.booleans(), "lets go"):
                name = pod["metadata"]["name"]
                pods[name] = {**pod, "metadata": {**pod["metadata"], "finalizers": []}}
                plan.tracked.pop(pod["metadata"]["uid"])
        if data.draw(st.booleans(), "dies before counting"):
            job = {**state.job, "status": {**state.status}}
            continue
        count_released(state, plan.tracked)
        job = state.job
    for _ in range(2):
        state = _state(job, *pods.values())
        plan = plan_tracking(state, needs_flush=False)
        for pod in plan.to_release:
            pod["metadata"]["finalizers"] = []
        count_released(state, {})
        job = state.job
    assert job["status"].get("succeeded", 0) == phases.count("Succeeded")
    assert job["status"].get("failed", 0) == phases.count("Failed")
    running = [pod for pod in pods.values() if pod["status"]["phase"] == "Running"]
    assert all(TRACKING_FINALIZER in pod["metadata"]["finalizers"] for pod in running)
