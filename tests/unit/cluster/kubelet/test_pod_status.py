"""Pod status patches."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.kubelet.pod_runs import PodRun
from kubesched.cluster.kubelet.pod_status import PodAddresses, status_inputs, status_patch
from tests.unit.cluster.kubelet.pod_world import NOW_S, SETTINGS, Document, a_pod

PLACE = PodAddresses(["10.0.0.1"], ["10.1.0.2"])
STARTED = "2027-01-15T08:00:01Z"


def conditions(patch: Document) -> dict[str, Any]:
    return {
        condition["type"]: (condition["status"], condition.get("reason"), condition.get("message"))
        for condition in patch["conditions"]
    }


def test_a_new_pod_is_being_created() -> None:
    patch = status_patch(PodRun(a_pod(), NOW_S, SETTINGS), PLACE, NOW_S)
    unready = ("False", "ContainersNotReady", "containers with unready status: [main]")
    assert conditions(patch) == {
        "PodReadyToStartContainers": ("False", None, None),
        "Initialized": ("True", None, None),
        "Ready": unready,
        "ContainersReady": unready,
        "PodScheduled": ("True", None, None),
    }
    assert patch["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert patch["hostIP"] == "10.0.0.1"
    assert "podIP" not in patch
    assert "phase" not in patch


def test_a_running_pod() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    container = {"name": "main", "image": "img", "resources": resources}
    run = PodRun(a_pod(containers=[container]), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    patch = status_patch(run, PLACE, NOW_S + 1.0)
    (status,) = patch["containerStatuses"]
    assert status["state"] == {"running": {"startedAt": STARTED}}
    assert (status["ready"], status["started"], status["restartCount"]) == (True, True, 0)
    assert status["resources"] == resources
    assert status["allocatedResources"] == {"cpu": "1"}
    assert status["containerID"].startswith("kubesched://")
    assert (patch["phase"], patch["podIP"], patch["podIPs"]) == (
        "Running",
        "10.1.0.2",
        [{"ip": "10.1.0.2"}],
    )
    assert {condition["status"] for condition in patch["conditions"]} == {"True"}
    assert {condition["observedGeneration"] for condition in patch["conditions"]} == {1}
    assert patch["observedGeneration"] == 1


def test_containers_waiting_for_init_containers() -> None:
    run = PodRun(a_pod(initContainers=[{"name": "setup", "image": "i"}]), NOW_S, SETTINGS)
    patch = status_patch(run, PLACE, NOW_S)
    for field in ("containerStatuses", "initContainerStatuses"):
        assert patch[field][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(patch)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [setup]",
    )


def test_only_changed_conditions_are_written() -> None:
    run = PodRun(a_pod(), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    first = status_patch(run, PLACE, NOW_S + 1.0)
    run.observe({**run.pod, "status": {**first, "qosClass": "BestEffort"}}, NOW_S + 2.0)
    assert status_patch(run, PLACE, NOW_S + 2.0) == {}
    metadata = {**run.pod["metadata"], "annotations": {"kubesched.dev/ready": "false"}}
    run.observe({**run.pod, "metadata": metadata}, NOW_S + 5.0)
    patch = status_patch(run, PLACE, NOW_S + 5.0)
    assert set(patch) == {"containerStatuses", "conditions"}
    assert {
        condition["type"]: condition["lastTransitionTime"] for condition in patch["conditions"]
    } == {
        "Ready": "2027-01-15T08:00:05Z",
        "ContainersReady": "2027-01-15T08:00:05Z",
    }


def test_a_new_generation_keeps_transition_times() -> None:
    run = PodRun(a_pod(), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    first = status_patch(run, PLACE, NOW_S + 1.0)
    metadata = {**run.pod["metadata"], "generation": 2}
    run.observe({**run.pod, "metadata": metadata, "status": first}, NOW_S + 9.0)
    patch = status_patch(run, PLACE, NOW_S + 9.0)
    assert patch["observedGeneration"] == 2
    assert {condition["lastTransitionTime"] for condition in patch["conditions"]} == {STARTED}


def test_a_reason_is_removed_with_its_condition() -> None:
    run = PodRun(a_pod(), NOW_S, SETTINGS)
    first = status_patch(run, PLACE, NOW_S)
    run.observe({**run.pod, "status": first}, NOW_S)
    run.advance(NOW_S + 1.0)
    patch = status_patch(run, PLACE, NOW_S + 1.0)
    ready = next(condition for condition in patch["conditions"] if condition["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("True", None, None)


def test_foreign_conditions_are_no_input() -> None:
    pod = a_pod(readinessGates=[{"conditionType": "open"}])
    other = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    gate = {"conditions": [{"type": "open", "status": "True"}]}
    assert status_inputs(pod) == status_inputs({**pod, "status": other})
    assert status_inputs(pod) != status_inputs({**pod, "status": gate})
