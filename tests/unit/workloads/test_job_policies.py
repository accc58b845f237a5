"""Pod failure policies and success policies."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.workloads.job_pods import (
    FailureMatch,
    Indexes,
    match_pod_failure_policy,
    match_success_policy,
)
from tests.unit.cluster.controllers.job_documents import a_job_pod


def _codes(action: str, operator: str, *values: int, name: str | None = None) -> dict[str, Any]:
    requirement: dict[str, Any] = {"operator": operator, "values": list(values)}
    if name is not None:
        requirement["containerName"] = name
    return {"action": action, "onExitCodes": requirement}


def _condition(action: str, type_: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"}]}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([], FailureMatch(), id="no rule: it counts"),
        pytest.param(
            [_codes("FailJob", "In", 5, 7)],
            FailureMatch(
                "FailJob",
                "Container c for pod ns/p failed with exit code 7 matching FailJob rule at index 0",
            ),
            id="an exit code that is listed",
        ),
        pytest.param([_codes("FailJob", "In", 5)], FailureMatch(), id="an unlisted code"),
        pytest.param([_codes("Ignore", "NotIn", 5)], FailureMatch("Ignore"), id="an excluded code"),
        pytest.param([_codes("Ignore", "NotIn", 7)], FailureMatch(), id="and is"),
        pytest.param(
            [_codes("Ignore", "In", 7, name="other")], FailureMatch(), id="of another container"
        ),
        pytest.param(
            [_codes("Count", "In", 7, name="c"), _codes("FailJob", "In", 7)],
            FailureMatch("Count"),
            id="the first rule that matches decides",
        ),
        pytest.param(
            [_condition("Ignore", "ConfigIssue"), _condition("FailJob", "DisruptionTarget")],
            FailureMatch(
                "FailJob",
                "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 1",
            ),
            id="a condition of the pod",
        ),
    ],
)
def test_failure_rules(rules: list[dict[str, Any]], expected: FailureMatch) -> None:
    pod = a_job_pod("p", "Failed", exit_code=7)
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    assert match_pod_failure_policy({"rules": rules}, pod) == expected


def test_a_running_or_successful_container_has_no_exit_code() -> None:
    policy = {"rules": [_codes("FailJob", "NotIn", 1)]}
    assert match_pod_failure_policy(policy, a_job_pod("p", "Failed", exit_code=0)).action == ""
    running = a_job_pod("p", "Failed")
    running["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    assert match_pod_failure_policy(policy, running).action == ""


def test_init_containers_are_checked_last() -> None:
    pod = a_job_pod("p", "Failed", exit_code=3)
    ended = {"name": "setup", "state": {"terminated": {"exitCode": 9}}}
    pod["status"]["initContainerStatuses"] = [ended]
    policy = {"rules": [_codes("FailJob", "In", 9), _codes("Ignore", "In", 3)]}
    assert match_pod_failure_policy(policy, pod).message.startswith("Container setup for pod ns/p")


@pytest.mark.parametrize(
    ("rules", "succeeded", "expected"),
    [
        pytest.param([{"succeededCount": 2}], [0, 4], "Matched rules at index 0", id="enough"),
        pytest.param([{"succeededCount": 3}], [0, 4], "", id="too few"),
        pytest.param(
            [{"succeededIndexes": "0-2"}], [0, 1, 2, 5], "Matched rules at index 0", id="all named"
        ),
        pytest.param([{"succeededIndexes": "0-2"}], [0, 1, 5], "", id="not all named"),
        pytest.param(
            [{"succeededIndexes": "0-2", "succeededCount": 2}],
            [0, 1, 5],
            "Matched rules at index 0",
            id="so many of the named",
        ),
        pytest.param(
            [{"succeededIndexes": "7"}, {"succeededIndexes": "5"}],
            [5],
            "Matched rules at index 1",
            id="the second rule",
        ),
        pytest.param([{"succeededIndexes": "20"}], [0], "", id="an index beyond completions"),
        pytest.param([{"succeededCount": 0}], [], "", id="never before the first success"),
    ],
)
def test_success_rules(rules: list[dict[str, Any]], succeeded: list[int], expected: str) -> None:
    assert match_success_policy({"rules": rules}, 10, Indexes.of(succeeded)) == expected
