"""Kubelets and the pods of their nodes, read through the API.

Tests that KWOK's kubelets cannot pass give the reason: KWOK writes no events, keeps no logs, and
ends only containers of Jobs.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from tests.cluster.conftest import World
from tests.cluster.running_pods import (
    a_command,
    a_pod,
    conditions_of,
    own,
    phase_of,
    pod_of,
    until_phase,
    until_ready,
)

__all__ = ["own"]

Document = dict[str, Any]


def test_a_pod_runs_at_an_address_of_its_own(world: World) -> None:
    world.create(a_pod("one"), a_pod("two"))
    one, two = until_ready(world, "one"), until_ready(world, "two")
    for pod in (one, two):
        status = pod["status"]
        node = world.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        hosts = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
        assert status["phase"] == "Running"
        assert status["hostIP"] == hosts[0]
        assert status["hostIPs"] == [{"ip": hosts[0]}]
        assert status["podIPs"] == [{"ip": status["podIP"]}]
        assert status["startTime"] >= pod["metadata"]["creationTimestamp"]
        (container,) = status["containerStatuses"]
        assert (container["name"], container["image"]) == ("main", "registry.example/web:1")
        assert (container["ready"], container["restartCount"]) == (True, 0)
        assert container["state"]["running"]["startedAt"]
        statuses = {name: one["status"] for name, one in conditions_of(pod).items()}
        assert (
            statuses.items()
            >= {
                "PodScheduled": "True",
                "Initialized": "True",
                "ContainersReady": "True",
                "Ready": "True",
            }.items()
        )
    assert one["status"]["podIP"] != two["status"]["podIP"]


def test_a_pod_of_the_host_network_has_its_address(world: World) -> None:
    world.create(a_pod("host", hostNetwork=True))
    status = until_ready(world, "host")["status"]
    assert status["podIP"] == status["hostIP"]


def test_a_kubelet_records_events(own: World) -> None:
    own.create(a_pod("told"))
    until_ready(own, "told")
    node = pod_of(own, "told")["spec"]["nodeName"]
    own.until(lambda: "Started" in own.reasons("told"), "an event says that it started")
    events = {
        one["reason"]: one
        for one in own.items(own.path("events"))
        if one["involvedObject"]["name"] == "told" and one["source"].get("component") == "kubelet"
    }
    assert {reason: one["message"] for reason, one in events.items()} == {
        "Pulled": 'Container image "registry.example/web:1" already present on machine and can be '
        "accessed by the pod",
        "Created": "Container created",
        "Started": "Container started",
    }
    for one in events.values():
        assert one["source"] == {"component": "kubelet", "host": node}
        assert one["involvedObject"]["fieldPath"] == "spec.containers{main}"
    own.api.delete(own.path("pods", "told")).must(200)
    own.until(lambda: "Killing" in own.reasons("told"), "an event says that it is stopped")


def test_a_deleted_pod_is_removed(world: World) -> None:
    world.create(a_pod("gone", terminationGracePeriodSeconds=5))
    until_ready(world, "gone")
    response = world.api.delete(world.path("pods", "gone")).must(200)
    assert response.json["metadata"]["deletionTimestamp"]
    world.until(lambda: not pod_of(world, "gone"), "the pod is gone")


def test_a_pod_with_a_finalizer_stops_and_stays(own: World) -> None:
    pod = a_pod("held", terminationGracePeriodSeconds=1)
    pod["metadata"]["finalizers"] = ["example.com/held"]
    own.create(pod)
    until_ready(own, "held")
    own.api.delete(own.path("pods", "held")).must(200)
    status = until_phase(own, "held", "Succeeded")["status"]
    assert "terminated" in status["containerStatuses"][0]["state"]
    condition = conditions_of({"status": status})["Ready"]
    assert (condition["status"], condition["reason"]) == ("False", "PodCompleted")
    patch = {"metadata": {"finalizers": None}}
    own.api.patch(own.path("pods", "held"), patch, MERGE_PATCH).must(200)
    own.until(lambda: not pod_of(own, "held"), "the pod is gone")


@pytest.mark.parametrize(
    ("policy", "container", "phase", "code"),
    [
        pytest.param("Never", a_command("true"), "Succeeded", 0, id="it does its work"),
        pytest.param("Never", a_command("false"), "Failed", 1, id="it fails"),
        pytest.param(
            "Never", a_command("sh", "-c", "sleep 0.1; exit 7"), "Failed", 7, id="it says how"
        ),
        pytest.param("OnFailure", a_command("true"), "Succeeded", 0, id="it need not try again"),
        pytest.param("Never", a_command("train", "--fast"), "Succeeded", 0, id="no known end"),
    ],
)
def test_a_pod_exits_as_its_command_does(
    own: World, policy: str, container: Document, phase: str, code: int
) -> None:
    own.create(a_pod("work", restartPolicy=policy, containers=[container]))
    status = until_phase(own, "work", phase)["status"]
    terminated_run = status["containerStatuses"][0]["state"]["terminated"]
    assert terminated_run["exitCode"] == code
    assert terminated_run["reason"] == ("Completed" if code == 0 else "Error")
    assert conditions_of({"status": status})["Ready"]["status"] == "False"


def test_pods_without_a_known_end_keep_running(own: World) -> None:
    pause = {"name": "main", "image": "registry.k8s.io/pause:3.10", "args": ["unused"]}
    own.create(
        a_pod("pause", restartPolicy="Never", containers=[pause]),
        a_pod("bare", restartPolicy="Never"),
        a_pod("work", restartPolicy="Never", annotations={"run-for": "2s"}),
    )
    until_ready(own, "pause")
    until_ready(own, "bare")
    until_phase(own, "work", "Succeeded")
    assert phase_of(own, "pause") == "Running"
    assert phase_of(own, "bare") == "Running"


def test_annotations_set_run_time_and_exit_code(own: World) -> None:
    annotations = {"run-for": "100ms", "exit-code": "1,0"}
    own.create(
        a_pod("never", restartPolicy="Never", annotations=annotations),
        a_pod("again", restartPolicy="OnFailure", annotations=annotations),
        a_pod("always", annotations={"run-for": "50ms", "exit-code": "3"}),
    )
    never = until_phase(own, "never", "Failed")
    assert never["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    restarted = until_phase(own, "again", "Succeeded")["status"]["containerStatuses"][0]
    assert (restarted["restartCount"], restarted["state"]["terminated"]["exitCode"]) == (1, 0)

    def looping() -> Document:
        statuses = pod_of(own, "always").get("status", {}).get("containerStatuses") or [{}]
        waiting: Document = statuses[0].get("state", {}).get("waiting") or {}
        return waiting if waiting.get("reason") == "CrashLoopBackOff" else {}

    own.until(looping, "it is in a crash loop")
    assert looping()["message"].startswith("back-off 10s restarting failed container=main pod=")
    assert phase_of(own, "always") == "Running"
    own.until(lambda: "BackOff" in own.reasons("always"), "the crash loop has an event")


def test_an_invalid_annotation_is_reported(own: World) -> None:
    own.create(a_pod("odd", annotations={"run-for": "soon"}))
    until_ready(own, "odd")
    own.until(lambda: "InvalidAnnotation" in own.reasons("odd"), "an event says what is wrong")


def test_init_containers_run_first_and_in_order(own: World) -> None:
    inits = [
        a_command("sleep", "0.2", name="first"),
        {"name": "helper", "image": "sidecar:1", "restartPolicy": "Always"},
        a_command("true", name="second"),
    ]
    own.create(a_pod("with-inits", initContainers=inits))
    status = until_ready(own, "with-inits")["status"]
    first, helper, second = status["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert second["state"]["terminated"]["reason"] == "Completed"
    assert (helper["started"], helper["ready"]) == (True, True)
    assert "running" in helper["state"]


def test_a_pod_whose_init_container_fails_never_runs(own: World) -> None:
    own.create(
        a_pod("broken", restartPolicy="Never", initContainers=[a_command("false", name="check")])
    )
    status = until_phase(own, "broken", "Failed")["status"]
    assert "waiting" in status["containerStatuses"][0]["state"]
    condition = conditions_of({"status": status})["Initialized"]
    assert (condition["status"], condition["reason"]) == ("False", "ContainersNotInitialized")
    assert condition["message"] == "containers with incomplete status: [check]"


def test_readiness_follows_an_annotation(own: World) -> None:
    own.create(a_pod("slow", annotations={"ready": "false"}))
    until_phase(own, "slow", "Running")
    own.until(lambda: "Ready" in conditions_of(pod_of(own, "slow")), "it says whether it is ready")
    condition = conditions_of(pod_of(own, "slow"))["Ready"]
    assert (condition["status"], condition["reason"]) == ("False", "ContainersNotReady")
    assert condition["message"] == "containers with unready status: [main]"
    patch = {"metadata": {"annotations": {"kubesched.dev/ready": None}}}
    own.api.patch(own.path("pods", "slow"), patch, MERGE_PATCH).must(200)
    until_ready(own, "slow")


def test_readiness_waits_for_gates(own: World) -> None:
    own.create(a_pod("gated", readinessGates=[{"conditionType": "example.com/open"}]))
    until_phase(own, "gated", "Running")
    condition = conditions_of(pod_of(own, "gated"))["Ready"]
    assert (condition["status"], condition["reason"]) == ("False", "ReadinessGatesNotReady")
    gate = {"type": "example.com/open", "status": "True"}
    path = f"{own.path('pods', 'gated')}/status"
    conditions = pod_of(own, "gated")["status"]["conditions"]
    own.api.patch(path, {"status": {"conditions": [*conditions, gate]}}, MERGE_PATCH).must(200)
    until_ready(own, "gated")
    assert conditions_of(pod_of(own, "gated"))["example.com/open"]["status"] == "True"


def test_the_status_has_the_observed_generation(own: World) -> None:
    own.create(a_pod("changed"))
    assert until_ready(own, "changed")["status"]["observedGeneration"] == 1
    own.api.patch(
        own.path("pods", "changed"), {"spec": {"activeDeadlineSeconds": 5000}}, MERGE_PATCH
    ).must(200)
    own.until(
        lambda: pod_of(own, "changed")["status"]["observedGeneration"] == 2,
        "the kubelet has seen the change",
    )
    pod = pod_of(own, "changed")
    assert pod["metadata"]["generation"] == 2
    assert conditions_of(pod)["Ready"]["observedGeneration"] == 2


def test_a_pod_that_exceeds_its_deadline_fails(own: World) -> None:
    own.create(a_pod("late", activeDeadlineSeconds=1))
    status = until_phase(own, "late", "Failed")["status"]
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"


def test_a_node_reports_its_status(world: World) -> None:
    node = world.get(f"/api/v1/nodes/{world.nodes[0]}")
    status = node["status"]
    ready = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert ready["Ready"] == "True"
    assert ready["MemoryPressure"] == "False"
    assert "InternalIP" in {address["type"] for address in status["addresses"]}
    assert status["nodeInfo"]["operatingSystem"] == "linux"
    assert status["nodeInfo"]["kubeletVersion"]
    lease = world.get(
        f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{world.nodes[0]}"
    )
    assert lease["spec"]["holderIdentity"]
    assert lease["spec"]["renewTime"]


def test_allocatable_follows_capacity(own: World) -> None:
    name = f"grown-{own.namespace}"
    path = f"/api/v1/nodes/{name}"
    own.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"capacity": {"cpu": "2", "pods": "10"}, "allocatable": {"cpu": "1500m"}},
        }
    )

    def amounts(field: str) -> Document:
        found: Document = own.get(path)["status"].get(field) or {}
        return found

    try:
        own.until(
            lambda: amounts("allocatable") == {"cpu": "1500m", "pods": "10"},
            "allocatable has what capacity has",
        )
        more = {"status": {"capacity": {"example.com/gpu": "4"}}}
        own.api.patch(f"{path}/status", more, MERGE_PATCH).must(200)
        own.until(
            lambda: amounts("allocatable").get("example.com/gpu") == "4", "the resource is there"
        )
        less = {"status": {"capacity": {"example.com/gpu": None}}}
        own.api.patch(f"{path}/status", less, MERGE_PATCH).must(200)
        own.until(lambda: "example.com/gpu" not in amounts("allocatable"), "it is gone again")
    finally:
        own.api.delete(path).must(200)
