"""The state machine of simulated pods."""

from __future__ import annotations

from itertools import pairwise

from kubesched.cluster.kubelet.pod_runs import PodRun
from kubesched.cluster.kubelet.pod_status import PodAddresses, status_patch
from kubesched.cluster.kubelet.settings import KubeletSettings
from tests.unit.cluster.kubelet.pod_world import NOW_S, SETTINGS, Document, a_pod, deleted

PLACE = PodAddresses(["10.0.0.1"], ["10.1.0.2"])


def run_of(pod: Document, settings: KubeletSettings = SETTINGS) -> PodRun:
    return PodRun(pod, NOW_S, settings)


def reasons(run: PodRun, after_s: float) -> list[str]:
    return [event.reason for event in run.advance(NOW_S + after_s)]


def due_s(run: PodRun) -> float | None:
    next_s = run.next_s()
    return None if next_s is None else next_s - NOW_S


def stored(run: PodRun, now_s: float) -> Document:
    """Return the pod as the API server stores it after the status patch."""
    patch = status_patch(run, PLACE, now_s)
    status = {**run.pod["status"], **patch}
    conditions = {
        condition["type"]: condition for condition in run.pod["status"].get("conditions", [])
    }
    for change in patch.get("conditions", []):
        merged = {**conditions.get(change["type"], {}), **change}
        conditions[change["type"]] = {key: value for key, value in merged.items() if value}
    status["conditions"] = list(conditions.values())
    return {**run.pod, "status": {key: part for key, part in status.items() if part is not None}}


def test_containers_start_after_a_while() -> None:
    run = run_of(a_pod())
    assert reasons(run, 0.0) == []
    assert due_s(run) == 1.0
    assert reasons(run, 1.0) == ["Pulled", "Created", "Started"]
    assert run.phase == "Running"
    assert due_s(run) is None


def test_an_annotation_delays_the_start() -> None:
    run = run_of(a_pod(annotations={"start-after": "7s"}))
    assert reasons(run, 6.9) == []
    assert due_s(run) == 7.0


def test_init_containers_run_one_after_the_other() -> None:
    inits = [
        {"name": "one", "image": "i", "command": ["sleep", "2"]},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
        {"name": "two", "image": "i", "command": ["sleep", "3"]},
    ]
    run = run_of(a_pod(initContainers=inits))
    run.advance(NOW_S + 1.0)
    assert [state.name for _, state in run.containers() if state.is_running] == ["one"]
    assert run.phase == "Pending"
    run.advance(NOW_S + 3.0)
    assert [state.name for _, state in run.containers() if state.is_running] == ["side", "two"]
    run.advance(NOW_S + 6.0)
    assert [state.name for _, state in run.containers() if state.is_running] == ["side", "main"]
    assert run.phase == "Running"


def test_sidecars_end_with_the_others() -> None:
    inits = [{"name": "side", "image": "i", "restartPolicy": "Always"}]
    run = run_of(a_pod(restartPolicy="Never", annotations={"run-for": "2s"}, initContainers=inits))
    run.advance(NOW_S + 1.0)
    run.advance(NOW_S + 3.0)
    assert run.phase == "Succeeded"
    assert not [state.name for _, state in run.containers() if state.is_running]
    assert due_s(run) is None


def test_restarts_back_off_exponentially() -> None:
    run = run_of(a_pod(annotations={"run-for": "1s", "exit-code": "1"}))
    (_, main), *_ = run.containers()
    began: list[float] = []
    now_s = NOW_S
    while len(began) < 9:
        next_s = run.next_s()
        assert next_s is not None
        now_s = next_s
        run.advance(now_s)
        if main.is_running:
            began.append(now_s - NOW_S)
    waits = [later - sooner - 1.0 for sooner, later in pairwise(began)]
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert main.restart_count == 8


def test_on_failure_restarts_until_success() -> None:
    run = run_of(
        a_pod(restartPolicy="OnFailure", annotations={"run-for": "1s", "exit-code": "1,0"})
    )
    run.advance(NOW_S + 1.0)
    run.advance(NOW_S + 2.0)
    assert run.phase == "Running"
    run.advance(NOW_S + 3.0)
    (_, main), *_ = run.containers()
    assert (run.phase, main.restart_count) == ("Succeeded", 1)


def test_stopping_takes_time() -> None:
    run = run_of(a_pod())
    run.advance(NOW_S + 1.0)
    run.observe(deleted(run.pod, grace_s=30), NOW_S + 5.0)
    assert [event.note for event in run.advance(NOW_S + 5.0)] == ["Stopping container main"]
    assert due_s(run) == 8.0
    assert not run.is_stopped
    run.advance(NOW_S + 8.0)
    assert run.is_stopped
    assert run.phase == "Succeeded"


def test_the_grace_period_limits_stopping_and_may_shrink() -> None:
    run = run_of(a_pod(annotations={"stop-after": "1m"}))
    run.advance(NOW_S + 1.0)
    run.observe(deleted(run.pod, grace_s=30), NOW_S + 5.0)
    assert due_s(run) == 35.0
    run.observe(deleted(run.pod, grace_s=2), NOW_S + 6.0)
    assert due_s(run) == 8.0


def test_killed_containers_have_failed() -> None:
    run = run_of(a_pod(restartPolicy="Never", annotations={"run-for": "1h"}))
    run.advance(NOW_S + 1.0)
    run.observe(deleted(run.pod, grace_s=30), NOW_S + 5.0)
    run.advance(NOW_S + 8.0)
    (_, main), *_ = run.containers()
    assert main.terminated_run is not None
    assert (run.phase, main.terminated_run.exit_code) == ("Failed", 137)


def test_a_pod_that_never_ran_stops_at_once() -> None:
    run = run_of(a_pod())
    run.observe(deleted(run.pod, grace_s=30), NOW_S + 0.5)
    run.advance(NOW_S + 0.5)
    assert (run.is_stopped, run.phase) == (True, "Failed")


def test_a_deadline_fails_a_pod() -> None:
    run = run_of(a_pod(activeDeadlineSeconds=10))
    run.advance(NOW_S + 1.0)
    assert due_s(run) == 10.0
    assert reasons(run, 10.0) == ["DeadlineExceeded"]
    assert (run.phase, run.reason) == ("Failed", "DeadlineExceeded")


def test_a_pod_failed_by_another_component_stops() -> None:
    run = run_of(a_pod())
    run.advance(NOW_S + 1.0)
    run.observe({**run.pod, "status": {"phase": "Failed"}}, NOW_S + 2.0)
    run.advance(NOW_S + 2.0)
    assert run.phase == "Failed"
    assert not [state for _, state in run.containers() if state.is_running]
    assert due_s(run) is None


def test_an_added_container_is_started() -> None:
    run = run_of(a_pod())
    run.advance(NOW_S + 1.0)
    more = [{"name": "debug", "image": "busybox"}]
    run.observe({**run.pod, "spec": {**run.pod["spec"], "ephemeralContainers": more}}, NOW_S + 2.0)
    assert reasons(run, 2.0) == ["Pulled", "Created", "Started"]
    assert run.phase == "Running"


def test_a_changed_image_restarts_the_container() -> None:
    run = run_of(a_pod())
    run.advance(NOW_S + 1.0)
    other = [{"name": "main", "image": "img:2"}]
    run.observe({**run.pod, "spec": {**run.pod["spec"], "containers": other}}, NOW_S + 2.0)
    assert reasons(run, 2.0) == ["Killing", "Pulled", "Created", "Started"]
    (_, main), *_ = run.containers()
    assert (main.is_running, main.restart_count, main.image) == (True, 1, "img:2")
    assert reasons(run, 3.0) == []


def test_readiness_is_probed_after_its_delay() -> None:
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 30}
    run = run_of(a_pod(containers=[{"name": "main", "image": "img", "readinessProbe": probe}]))
    run.advance(NOW_S + 1.0)
    (_, main), *_ = run.containers()
    assert (run.phase, run.is_ready(main)) == ("Running", False)
    assert due_s(run) == 31.0
    restored = PodRun(stored(run, NOW_S + 1.0), NOW_S + 9.0, SETTINGS)
    assert due_s(restored) == 31.0
    version = run.version
    run.advance(NOW_S + 31.0)
    assert run.is_ready(main)
    assert run.version > version
    assert due_s(run) is None


def test_a_new_kubelet_restores_running_pods() -> None:
    run = run_of(a_pod(annotations={"run-for": "100s", "exit-code": "1"}))
    run.advance(NOW_S + 1.0)
    run.advance(NOW_S + 101.0)
    run.advance(NOW_S + 201.0)
    pod = stored(run, NOW_S + 201.0)
    restored = PodRun(pod, NOW_S + 202.0, SETTINGS)
    assert restored.advance(NOW_S + 202.0) == []
    assert status_patch(restored, PLACE, NOW_S + 202.0) == {}
    assert due_s(restored) == 211.0
    restored.advance(NOW_S + 211.0)
    (_, main), *_ = restored.containers()
    assert (main.is_running, main.restart_count) == (True, 2)
    assert due_s(restored) == 311.0


def test_containers_of_another_runtime_are_restored() -> None:
    running = {
        "name": "main",
        "image": "docker.io/library/img:latest",
        "containerID": "containerd://abc",
        "restartCount": 2,
        "state": {"running": {"startedAt": "2027-01-15T07:00:00Z"}},
    }
    pod = {**a_pod(), "status": {"phase": "Running", "containerStatuses": [running]}}
    run = PodRun(pod, NOW_S, SETTINGS)
    assert run.advance(NOW_S) == []
    (_, main), *_ = run.containers()
    assert (main.is_running, main.restart_count) == (True, 2)


def test_a_new_kubelet_leaves_finished_pods() -> None:
    run = run_of(a_pod(restartPolicy="Never", annotations={"run-for": "2s"}))
    run.advance(NOW_S + 1.0)
    run.advance(NOW_S + 3.0)
    restored = PodRun(stored(run, NOW_S + 3.0), NOW_S + 9.0, SETTINGS)
    assert restored.advance(NOW_S + 9.0) == []
    assert status_patch(restored, PLACE, NOW_S + 9.0) == {}
    assert due_s(restored) is None
