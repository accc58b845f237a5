"""When it is taken back that a pod is to be disrupted."""

from __future__ import annotations

import pytest

from kubesched.client.cached.documents import time_text
from kubesched.controllers.stale_disruption import stale_s
from tests.unit.controllers.job_documents import NOW_S, a_job_pod


@pytest.mark.parametrize(
    ("phase", "status", "reason", "is_deleted", "expected"),
    [
        pytest.param("Running", "True", "EvictionByEvictionAPI", False, 120.0, id="after a while"),
        pytest.param("Running", "False", "", False, None, id="it has been taken back"),
        pytest.param("Running", "True", "TerminationByKubelet", False, None, id="kubelets mean it"),
        pytest.param("Failed", "True", "PreemptionByScheduler", False, None, id="it has ended"),
        pytest.param("Running", "True", "PreemptionByScheduler", True, None, id="it is going"),
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
    found = stale_s(pod)
    assert (None if found is None else found - NOW_S) == expected


def test_most_pods_have_no_such_condition() -> None:
    assert stale_s(a_job_pod("a")) is None
