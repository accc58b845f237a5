"""Counting of a Job's pods, and the end conditions of the Job."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.times import time_text
from kubesched.workloads.job import Backoff, JobState
from tests.unit.cluster.controllers.job_documents import NOW_S, Document, a_job, a_job_pod


def _state(job: Document, *pods: Document) -> JobState:
    state = JobState(job, pods, Backoff(), NOW_S)
    state.evaluate()
    return state


def _end(state: JobState) -> tuple[str, str]:
    end = state.finished or {}
    return end.get("type", ""), end.get("reason", "")


def test_pods_are_counted_once() -> None:
    status = {
        "succeeded": 2,
        "failed": 1,
        "uncountedTerminatedPods": {"succeeded": ["uid-a"], "failed": ["uid-gone"]},
    }
    state = _state(
        a_job(status=status, completions=9, parallelism=3),
        a_job_pod("a", "Succeeded"),
        a_job_pod("b", "Succeeded"),
        a_job_pod("c", "Succeeded", is_counted=True),
        a_job_pod("d", "Failed"),
        a_job_pod("e", is_ready=True),
        a_job_pod("f", is_deleted=True),
    )
    # Counted, listed as uncounted, and new; pods without a finalizer are in the counter already.
    assert state.succeeded == 2 + 1 + 1
    assert state.failed == 1 + 1 + 2
    assert (len(state.active_pods), state.ready, state.terminating) == (1, 1, 1)


def test_the_informers_document_is_not_modified() -> None:
    job = a_job()
    _state(job, a_job_pod("a", "Succeeded"))
    assert job["status"] == {}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("TerminatingOrFailed", 1, id="a pod that leaves has failed"),
        pytest.param("Failed", 0, id="or not before it has ended"),
    ],
)
def test_terminating_pods(policy: str, expected: int) -> None:
    job = a_job(podReplacementPolicy=policy)
    assert _state(job, a_job_pod("a", is_deleted=True)).failed == expected


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({}, ["Running"], ("", ""), id="it continues"),
        pytest.param({"backoffLimit": 1}, ["Failed"], ("", ""), id="as many failures as allowed"),
        pytest.param(
            {"backoffLimit": 0},
            ["Failed"],
            ("FailureTarget", "BackoffLimitExceeded"),
            id="more than allowed",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 30},
            ["Running"],
            ("FailureTarget", "DeadlineExceeded"),
            id="too late",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 30, "suspend": True}, [], ("", ""), id="suspended: not late"
        ),
        pytest.param({"activeDeadlineSeconds": 61}, ["Running"], ("", ""), id="not yet too late"),
    ],
)
def test_failures(spec: Document, pods: list[str], expected: tuple[str, str]) -> None:
    status = {"startTime": time_text(NOW_S - 60)}
    made = [a_job_pod(f"p{number}", phase) for number, phase in enumerate(pods)]
    assert _end(_state(a_job(status=status, **spec), *made)) == expected


def test_the_deadline_schedules_a_resync() -> None:
    job = a_job(status={"startTime": time_text(NOW_S - 60)}, activeDeadlineSeconds=61)
    assert _state(job).resync_s == 1


@pytest.mark.parametrize(
    ("limit", "restarts", "expected"),
    [
        pytest.param(2, 1, "", id="below"),
        pytest.param(2, 2, "BackoffLimitExceeded", id="reached"),
        pytest.param(0, 0, "", id="none allowed, none seen"),
        pytest.param(0, 1, "BackoffLimitExceeded", id="none allowed, one restart"),
    ],
)
def test_restarts_in_place_count(limit: int, restarts: int, expected: str) -> None:
    pod = a_job_pod("a")
    pod["status"]["containerStatuses"] = [{"name": "c", "restartCount": restarts}]
    state = _state(a_job(backoffLimit=limit, restartPolicy="OnFailure"), pod)
    assert _end(state)[1] == expected


def test_a_declared_outcome_stays() -> None:
    condition = {
        "type": "FailureTarget",
        "status": "True",
        "reason": "DeadlineExceeded",
        "message": "m",
    }
    state = _state(a_job(status={"conditions": [condition]}), a_job_pod("a", "Succeeded"))
    assert _end(state) == ("Failed", "DeadlineExceeded")
    condition = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    state = _state(
        a_job(status={"conditions": [condition]}, backoffLimit=0), a_job_pod("a", "Failed")
    )
    assert _end(state) == ("SuccessCriteriaMet", "CompletionsReached")


def test_a_policy_ends_the_job_before_its_limit() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    job = a_job(podFailurePolicy={"rules": rules}, podReplacementPolicy="Failed")
    state = _state(job, a_job_pod("a", "Failed", exit_code=42))
    assert _end(state) == ("FailureTarget", "PodFailurePolicy")


def test_ignored_failures_do_not_count() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    pod = a_job_pod("a", "Failed")
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    job = a_job(podFailurePolicy={"rules": rules}, backoffLimit=0)
    state = _state(job, pod)
    assert (state.failed, _end(state)) == (0, ("", ""))


# -- indexes --------------------------------------------------------------------------------------


def _indexed(status: Document | None = None, **spec: Any) -> Document:
    return a_job(
        status=status, **{"completionMode": "Indexed", "completions": 5, "parallelism": 3, **spec}
    )


def test_an_index_succeeds_once() -> None:
    state = _state(
        _indexed({"completedIndexes": "0,3", "succeeded": 2}),
        a_job_pod("a", "Succeeded", index=3),
        a_job_pod("b", "Succeeded", index=1),
        a_job_pod("c", "Succeeded", index=7),
        a_job_pod("d", "Succeeded"),
    )
    assert (str(state.succeeded_indexes), state.succeeded) == ("0,1,3", 3)


def test_pending_indexes() -> None:
    job = _indexed({"completedIndexes": "0"})
    assert _state(job, a_job_pod("a", index=2)).pending_indexes(2) == [1, 3]
    leaving = a_job_pod("b", index=1, is_deleted=True)
    assert _state(job, leaving).pending_indexes(9) == [1, 2, 3, 4]
    job = _indexed({"completedIndexes": "0"}, podReplacementPolicy="Failed")
    assert _state(job, leaving).pending_indexes(9) == [2, 3, 4]


def test_success_by_policy() -> None:
    job = _indexed(successPolicy={"rules": [{"succeededIndexes": "2"}]})
    state = _state(job, a_job_pod("a", "Succeeded", index=2), a_job_pod("b", index=1))
    assert _end(state) == ("SuccessCriteriaMet", "SuccessPolicy")


def test_an_index_fails_beyond_its_own_limit() -> None:
    job = _indexed(backoffLimitPerIndex=1, backoffLimit=2**31 - 1)
    first = a_job_pod("a", "Failed", index=0, failures=0, ended_s=NOW_S - 5)
    last = a_job_pod("b", "Failed", index=1, failures=1, ended_s=NOW_S - 5)
    state = _state(job, first, last)
    assert str(state.failed_indexes) == "1"
    assert state.delayed == {0: first}
    assert state.pending_indexes(9) == [0, 2, 3, 4]
    assert _end(state) == ("", "")


def test_failed_indexes_end_the_job() -> None:
    job = _indexed({"completedIndexes": "1-4"}, backoffLimitPerIndex=0, backoffLimit=2**31 - 1)
    failed = a_job_pod("a", "Failed", index=0, failures=0)
    assert _end(_state(job, failed)) == ("FailureTarget", "FailedIndexes")
    job = _indexed(backoffLimitPerIndex=0, maxFailedIndexes=0, backoffLimit=2**31 - 1)
    assert _end(_state(job, failed)) == ("FailureTarget", "MaxFailedIndexesExceeded")


def test_the_latest_failure_of_an_index_is_kept() -> None:
    job = _indexed(backoffLimitPerIndex=5, backoffLimit=2**31 - 1)
    older = a_job_pod("a", "Failed", index=0, failures=0, ended_s=NOW_S - 50)
    newer = a_job_pod("b", "Failed", index=0, failures=1, ended_s=NOW_S - 5)
    assert _state(job, newer, older).delayed == {0: newer}
    assert _state(job, older, newer).delayed == {0: newer}
    running = a_job_pod("c", index=0, failures=2)
    assert _state(job, older, newer, running).delayed == {}


# -- number of pods -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({"completions": 5, "parallelism": 2}, [], 2, id="as many as at once"),
        pytest.param({"completions": 5, "parallelism": 9}, [], 5, id="never more than needed"),
        pytest.param(
            {"completions": 3, "parallelism": 9}, ["Succeeded"] * 2, 1, id="fewer towards the end"
        ),
        pytest.param({"completions": None, "parallelism": 4}, ["Running"], 4, id="a work queue"),
        pytest.param(
            {"completions": None, "parallelism": 4},
            ["Running", "Succeeded"],
            1,
            id="a work queue after the first success",
        ),
    ],
)
def test_desired_number_of_pods(spec: Document, pods: list[str], expected: int) -> None:
    made = [a_job_pod(f"p{number}", phase) for number, phase in enumerate(pods)]
    assert _state(a_job(**spec), *made).desired_active == expected


def test_complete_once_no_pod_runs() -> None:
    state = _state(a_job(completions=None), a_job_pod("a", "Succeeded"))
    assert state.is_complete(0)
    assert not state.is_complete(1)
    assert not _state(a_job(completions=2), a_job_pod("a", "Succeeded")).is_complete(0)
    assert _state(a_job(completions=0)).is_complete(0)
