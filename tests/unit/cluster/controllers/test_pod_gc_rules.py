"""Surplus terminated pods and out-of-service nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.times import time_text
from kubesched.cluster.controllers.pod_gc.controller import (
    is_out_of_service,
    surplus_terminated_pods,
)
from tests.unit.cluster.controllers.job_documents import NOW_S, a_job_pod


def _ended(name: str, age_s: float, *, phase: str = "Succeeded", reason: str = "") -> Any:
    pod = a_job_pod(name, phase)
    pod["metadata"]["creationTimestamp"] = time_text(NOW_S - age_s)
    if reason:
        pod["status"]["reason"] = reason
    return pod


def test_evicted_pods_are_deleted_first_then_the_oldest() -> None:
    pods = [
        a_job_pod("running"),
        _ended("young", 1),
        _ended("old", 100, phase="Failed"),
        _ended("b-older", 200),
        _ended("a-older", 200),
        _ended("evicted", 5, phase="Failed", reason="Evicted"),
    ]
    expected = ["evicted", "a-older", "b-older", "old"]
    assert [pod["metadata"]["name"] for pod in surplus_terminated_pods(pods, 1)] == expected
    assert surplus_terminated_pods(pods, 5) == []


@pytest.mark.parametrize(
    ("ready", "taint", "expected"),
    [
        ("False", "node.kubernetes.io/out-of-service", True),
        ("Unknown", "node.kubernetes.io/out-of-service", True),
        ("True", "node.kubernetes.io/out-of-service", False),
        ("False", "node.kubernetes.io/unreachable", False),
    ],
)
def test_out_of_service(ready: str, taint: str, expected: bool) -> None:
    node = {
        "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    assert is_out_of_service(node) is expected
