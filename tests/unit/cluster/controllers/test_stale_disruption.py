"""When a DisruptionTarget condition becomes stale."""

from __future__ import annotations

import pytest

from kubesched.api.times import time_text
from kubesched.cluster.controllers.disruption.controller import stale_at_s
from tests.unit.cluster.controllers.job_documents import NOW_S, a_job_pod


@pytest.mark.parametrize(
    ("phase", "status", "reason", "is_deleted", "expected"),
    [
        pytest.param("Running", "True", "EvictionByEvictionAPI", False, 120.0, id="after a while"),
        pytest.param("Running", "False", "", False, None, id="it has been withdrawn"),
        pytest.param("Running", "True", "TerminationByKubelet", False, None, id="set by a kubelet"),
        pytest.param(
            "Failed", "True", "PreemptionByScheduler", False, None, id="the pod has ended"
        ),
        pytest.param(
            "Running", "True", "PreemptionByScheduler", True, None, id="the pod is terminating"
        ),
    ],
)
def test_stale(
    phase: str, status: str, reason: str, is_deleted: bool, expected: float | None
) -> None:
    pod = a_job_pod("a", phase, is_deleted=is_deleted)
    condition = {
        "type": "DisruptionTarget",
        "status": status,
        "reason": reason,
        "lastTransitionTime": time_text(NOW_S),
    }
    pod["status"]["conditions"] = [condition]
    found = stale_at_s(pod)
    assert (None if found is None else found - NOW_S) == expected


def test_pods_without_the_condition_never_become_stale() -> None:
    assert stale_at_s(a_job_pod("a")) is None
