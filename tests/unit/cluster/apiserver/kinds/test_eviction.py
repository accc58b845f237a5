"""Evicting pods; the rejections are those of a v1.36.4 server."""

from typing import Any

import pytest

from tests.unit.cluster.apiserver.kinds.cluster import Cluster, a_pod

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REJECTED = "Cannot evict pod as it would violate the pod's disruption budget."


def an_eviction(name: str = "p", **options: Any) -> dict[str, Any]:
    body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options else body


@pytest.fixture
def cluster() -> Cluster:
    """A running, ready pod with a budget that no controller has synced yet."""
    made = Cluster()
    pod = made.make(PODS, a_pod(nodeName="n"))
    pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert made.request("PUT", f"{PODS}/p/status", pod).code == 200
    budget = {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }
    made.make(BUDGETS, budget)
    return made


def set_budget(cluster: Cluster, **status: Any) -> None:
    budget = cluster.request("GET", f"{BUDGETS}/b").body
    budget["status"] = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        **status,
    }
    assert cluster.request("PUT", f"{BUDGETS}/b/status", budget).code == 200


def a_condition(reason: str) -> dict[str, Any]:
    return {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": reason,
        "message": "why",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }


def test_budget_that_is_not_observed_rejects(cluster: Cluster) -> None:
    reply = cluster.request("POST", f"{PODS}/p/eviction", an_eviction())

    assert (reply.code, reply.body["message"]) == (429, REJECTED)
    assert reply.body["details"] == {
        "retryAfterSeconds": 10,
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b is still being processed by the server.",
            }
        ],
    }


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({}, "The disruption budget b needs 1 healthy pods and has 1 currently"),
        (
            {"currentHealthy": 3, "conditions": [a_condition("Foo")]},
            "The disruption budget b does not allow evicting pods currently (Foo): why",
        ),
        (
            {"conditions": [a_condition("SyncFailed")]},
            (
                "The disruption budget b does not allow evicting pods currently because it failed "
                "sync: why"
            ),
        ),
        (
            {"currentHealthy": 3},
            "The disruption budget b does not allow evicting pods currently",
        ),
    ],
)
def test_an_exhausted_budget_gives_the_reason(
    cluster: Cluster, status: dict[str, Any], cause: str
) -> None:
    set_budget(cluster, **status)

    reply = cluster.request("POST", f"{PODS}/p/eviction", an_eviction())

    assert (reply.code, reply.body["message"]) == (429, REJECTED)
    assert reply.body["details"] == {"causes": [{"reason": "DisruptionBudget", "message": cause}]}


def test_eviction_takes_from_the_budget_and_marks_the_pod(cluster: Cluster) -> None:
    set_budget(cluster, disruptionsAllowed=1, currentHealthy=2)

    reply = cluster.request("POST", f"{PODS}/p/eviction", an_eviction())

    status = cluster.request("GET", f"{BUDGETS}/b").body["status"]
    pod = cluster.request("GET", f"{PODS}/p").body
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"p": "2023-11-14T22:13:20Z"}
    assert status["conditions"][0]["reason"] == "InsufficientPods"
    assert pod["metadata"]["deletionTimestamp"]
    assert pod["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }


@pytest.mark.parametrize(
    ("query", "options"), [("?dryRun=All", {}), ("", {"dryRun": ["All"]})], ids=["query", "body"]
)
def test_dry_run_takes_nothing(cluster: Cluster, query: str, options: dict[str, Any]) -> None:
    set_budget(cluster, disruptionsAllowed=1, currentHealthy=2)

    reply = cluster.request("POST", f"{PODS}/p/eviction{query}", an_eviction(**options))

    assert reply.code == 201
    assert cluster.request("GET", f"{BUDGETS}/b").body["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in cluster.request("GET", f"{PODS}/p").body["metadata"]


def test_pending_pod_needs_no_budget(cluster: Cluster) -> None:
    cluster.make(PODS, a_pod("waiting"))

    assert cluster.request("POST", f"{PODS}/waiting/eviction", an_eviction("waiting")).code == 201
    assert cluster.request("GET", f"{PODS}/waiting").code == 404


def test_an_unhealthy_pod_is_evicted_if_its_policy_allows(cluster: Cluster) -> None:
    budget = cluster.request("GET", f"{BUDGETS}/b").body
    budget["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    cluster.request("PUT", f"{BUDGETS}/b", budget)
    pod = cluster.request("GET", f"{PODS}/p").body
    pod["status"]["conditions"][0]["status"] = "False"
    cluster.request("PUT", f"{PODS}/p/status", pod)

    assert cluster.request("POST", f"{PODS}/p/eviction", an_eviction()).code == 201


def test_two_budgets_are_rejected(cluster: Cluster) -> None:
    budget = cluster.request("GET", f"{BUDGETS}/b").body
    second = {**budget, "metadata": {"name": "c"}}
    cluster.make(BUDGETS, second)

    reply = cluster.request("POST", f"{PODS}/p/eviction", an_eviction())

    assert reply.code == 500
    assert reply.body["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    )


def test_uid_is_a_precondition(cluster: Cluster) -> None:
    set_budget(cluster, disruptionsAllowed=1, currentHealthy=2)

    reply = cluster.request(
        "POST", f"{PODS}/p/eviction", an_eviction(preconditions={"uid": "other"})
    )

    assert reply.code == 409
    assert reply.body["message"].startswith(
        'Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not '
        "match the UID in record ("
    )


def test_absent_pod_is_not_found(cluster: Cluster) -> None:
    reply = cluster.request("POST", f"{PODS}/nope/eviction", an_eviction("nope"))

    assert (reply.code, reply.body["message"]) == (404, 'pods "nope" not found')
