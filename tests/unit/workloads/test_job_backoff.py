"""Backoff before failed pods are replaced."""

from __future__ import annotations

import pytest

from kubesched.api.times import time_text
from kubesched.workloads.job import Backoff, finished_s
from tests.unit.cluster.controllers.job_documents import NOW_S, a_job_pod


def _ended(*times_s: float) -> list[dict[str, object]]:
    return [
        a_job_pod(f"p{number}", "Failed", ended_s=NOW_S + at_s)
        for number, at_s in enumerate(times_s)
    ]


@pytest.mark.parametrize(
    ("failures", "ago_s", "expected"),
    [
        pytest.param(0, 0, 0, id="no failure, no wait"),
        pytest.param(1, 0, 10, id="the first"),
        pytest.param(2, 0, 20, id="doubled"),
        pytest.param(3, 15, 25, id="time that has passed counts"),
        pytest.param(1, 11, 0, id="over"),
        pytest.param(7, 0, 600, id="capped"),
        pytest.param(4000, 0, 600, id="capped, however often"),
    ],
)
def test_remaining_delay(failures: int, ago_s: float, expected: float) -> None:
    assert Backoff(failures, NOW_S - ago_s).remaining_s(NOW_S) == expected


def test_failures_add_up() -> None:
    first = Backoff().after([], _ended(-30, -20))
    assert first == Backoff(2, NOW_S - 20)
    assert first.after([], []) == first
    assert first.after([], _ended(-5)) == Backoff(3, NOW_S - 5)


def test_a_success_resets_earlier_failures() -> None:
    before = Backoff(4, NOW_S - 60)
    assert before.after(_ended(-10), []) == Backoff()
    assert before.after(_ended(-10), _ended(-20, -5, -2)) == Backoff(2, NOW_S - 2)


def test_termination_time_of_a_pod() -> None:
    pod = a_job_pod("p", "Failed", is_deleted=True)
    pod["metadata"]["deletionGracePeriodSeconds"] = 30
    assert finished_s(pod) == NOW_S - 30
    pod["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": time_text(NOW_S - 7)}
    ]
    assert finished_s(pod) == NOW_S - 7
    ended = [
        {"name": name, "state": {"terminated": {"finishedAt": time_text(NOW_S + at_s)}}}
        for name, at_s in (("a", -20), ("b", -3))
    ]
    pod["status"]["containerStatuses"] = ended
    assert finished_s(pod) == NOW_S - 3
    pod["status"]["containerStatuses"] = [*ended, {"name": "c", "state": {"running": {}}}]
    assert finished_s(pod) == NOW_S - 7


def test_a_sidecar_terminates_last() -> None:
    pod = a_job_pod("p", "Succeeded", ended_s=NOW_S - 9)
    pod["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
    pod["status"]["initContainerStatuses"] = [
        {"name": "side", "state": {"terminated": {"finishedAt": time_text(NOW_S - 1)}}},
        {"name": "init", "state": {"terminated": {"finishedAt": time_text(NOW_S)}}},
    ]
    assert finished_s(pod) == NOW_S - 1


def test_a_pod_without_status() -> None:
    assert finished_s(a_job_pod("p", "Failed")) == NOW_S - 600
