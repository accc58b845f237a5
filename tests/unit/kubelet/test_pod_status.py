"""What a pod's status says, and how little of it is written."""

from __future__ import annotations

from typing import Any

from kubesched.kubelet.pod_runs import PodRun
from kubesched.kubelet.pod_status import Place, inputs_of, status_patch
from tests.unit.kubelet.pod_world import NOW_S, SETTINGS, Document, a_pod

PLACE = Place(["10.0.0.1"], ["10.1.0.2"])
STARTED = "2027-01-15T08:00:01Z"


def conditions(patch: Document) -> dict[str, Any]:
    return {
        one["type"]: (one["status"], one.get("reason"), one.get("message"))
        for one in patch["conditions"]
    }


def test_a_pod_that_has_come_is_being_created() -> None:
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


def test_a_pod_that_runs() -> None:
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
    assert {one["status"] for one in patch["conditions"]} == {"True"}
    assert {one["observedGeneration"] for one in patch["conditions"]} == {1}
    assert patch["observedGeneration"] == 1


def test_containers_that_wait_for_others_say_so() -> None:
    run = PodRun(a_pod(initContainers=[{"name": "setup", "image": "i"}]), NOW_S, SETTINGS)
    patch = status_patch(run, PLACE, NOW_S)
    for field in ("containerStatuses", "initContainerStatuses"):
        assert patch[field][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(patch)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [setup]",
    )


def test_only_what_changes_is_written_and_times_stay_with_what_does_not() -> None:
    run = PodRun(a_pod(), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    first = status_patch(run, PLACE, NOW_S + 1.0)
    run.observe({**run.pod, "status": {**first, "qosClass": "BestEffort"}}, NOW_S + 2.0)
    assert status_patch(run, PLACE, NOW_S + 2.0) == {}
    metadata = {**run.pod["metadata"], "annotations": {"kubesched.dev/ready": "false"}}
    run.observe({**run.pod, "metadata": metadata}, NOW_S + 5.0)
    patch = status_patch(run, PLACE, NOW_S + 5.0)
    assert set(patch) == {"containerStatuses", "conditions"}
    assert {one["type"]: one["lastTransitionTime"] for one in patch["conditions"]} == {
        "Ready": "2027-01-15T08:00:05Z",
        "ContainersReady": "2027-01-15T08:00:05Z",
    }


def test_a_new_generation_moves_no_transition() -> None:
    run = PodRun(a_pod(), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    first = status_patch(run, PLACE, NOW_S + 1.0)
    metadata = {**run.pod["metadata"], "generation": 2}
    run.observe({**run.pod, "metadata": metadata, "status": first}, NOW_S + 9.0)
    patch = status_patch(run, PLACE, NOW_S + 9.0)
    assert patch["observedGeneration"] == 2
    assert {one["lastTransitionTime"] for one in patch["conditions"]} == {STARTED}


def test_a_reason_goes_with_the_condition_that_had_it() -> None:
    run = PodRun(a_pod(), NOW_S, SETTINGS)
    first = status_patch(run, PLACE, NOW_S)
    run.observe({**run.pod, "status": first}, NOW_S)
    run.advance(NOW_S + 1.0)
    patch = status_patch(run, PLACE, NOW_S + 1.0)
    ready = next(one for one in patch["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("True", None, None)


def test_what_others_say_does_not_count_as_news() -> None:
    pod = a_pod(readinessGates=[{"conditionType": "open"}])
    other = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    gate = {"conditions": [{"type": "open", "status": "True"}]}
    assert inputs_of(pod) == inputs_of({**pod, "status": other})
    assert inputs_of(pod) != inputs_of({**pod, "status": gate})
