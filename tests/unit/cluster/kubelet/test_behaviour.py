"""Run time and exit code of simulated containers."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.kubelet.annotations import AnnotationError
from kubesched.cluster.kubelet.behaviour import behaviour_of, should_restart
from kubesched.cluster.kubelet.commands import FOREVER
from kubesched.cluster.kubelet.settings import KubeletSettings
from tests.unit.cluster.kubelet.pod_world import SETTINGS, a_pod

MAIN = {"name": "main", "image": "img"}


def a_job_pod() -> dict[str, Any]:
    pod = a_pod(restartPolicy="OnFailure")
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "work", "controller": True}]
    return pod


def behaves(
    pod: dict[str, Any],
    container: dict[str, Any] = MAIN,
    *,
    run_index: int = 0,
    is_init: bool = False,
    settings: KubeletSettings = SETTINGS,
) -> tuple[float, int]:
    found = behaviour_of(pod, container, is_init=is_init, run_index=run_index, settings=settings)
    return found.run_s, found.exit_code


@pytest.mark.parametrize(
    ("pod", "container", "expected"),
    [
        pytest.param(a_pod(), MAIN, (FOREVER, 0), id="a server runs on"),
        pytest.param(
            a_pod(restartPolicy="Never"), MAIN, (FOREVER, 0), id="unknown image"
        ),
        pytest.param(
            a_pod(restartPolicy="Never"), {**MAIN, "args": ["train"]}, (2.0, 0), id="work ends"
        ),
        pytest.param(a_job_pod(), MAIN, (2.0, 0), id="a job completes"),
        pytest.param(
            a_job_pod(), {**MAIN, "image": "pause:3"}, (FOREVER, 0), id="but not if it pauses"
        ),
        pytest.param(
            a_pod(restartPolicy="Never"), {**MAIN, "command": ["sleep", "9"]}, (9.0, 0),
            id="its command sets the time",
        ),
        pytest.param(
            a_pod(restartPolicy="Never", annotations={"run-for": "5s"}),
            {**MAIN, "command": ["sleep", "9"]}, (5.0, 0),
            id="an annotation takes precedence",
        ),
        pytest.param(a_pod(annotations={"exit-code": "3"}), MAIN, (2.0, 3), id="a failure ends"),
        pytest.param(
            a_pod(annotations={"run-for": "5s", "run-for.main": "7s"}), MAIN, (7.0, 0),
            id="a container's own annotation goes first",
        ),
        pytest.param(
            a_pod(restartPolicy="Never"), {**MAIN, "image": "k8s.gcr.io/pause:3.9@sha256:ab"},
            (FOREVER, 0), id="pause waits",
        ),
        pytest.param(
            a_pod(restartPolicy="Never"), {**MAIN, "image": "agnhost:2", "args": ["pause"]},
            (FOREVER, 0), id="a pause command",
        ),
        pytest.param(
            a_pod(restartPolicy="Never"), {**MAIN, "restartPolicy": "Always"}, (FOREVER, 0),
            id="a container has a policy of its own",
        ),
    ],
)  # fmt: skip
def test_precedence_of_annotations_and_commands(
    pod: dict[str, Any], container: dict[str, Any], expected: tuple[float, int]
) -> None:
    assert behaves(pod, container) == expected


def test_init_containers_exit_at_once_and_ignore_pod_annotations() -> None:
    pod = a_pod(annotations={"run-for": "5s", "exit-code": "1", "exit-code.check": "4"})
    assert behaves(pod, {"name": "setup", "image": "img"}, is_init=True) == (0.0, 0)
    assert behaves(pod, {"name": "check", "image": "img"}, is_init=True) == (2.0, 4)


def test_each_run_may_have_another_exit_code() -> None:
    pod = a_pod(annotations={"exit-code": "1, 2, 0"})
    codes = [behaves(pod, run_index=index)[1] for index in range(5)]
    assert codes == [1, 2, 0, 0, 0]


def test_speed_divides_durations() -> None:
    fast = KubeletSettings(speed=4.0, run_s=2.0)
    pod = a_pod(restartPolicy="Never")
    assert behaves(pod, {**MAIN, "args": ["train"]}, settings=fast) == (0.5, 0)
    assert behaves(a_pod(annotations={"run-for": "8s"}), settings=fast) == (2.0, 0)
    assert behaves(pod, {**MAIN, "command": ["sleep", "8"]}, settings=fast) == (2.0, 0)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [("run-for", "soon"), ("run-for", "-1s"), ("exit-code", "-1"), ("exit-code", "256")],
)
def test_invalid_annotations_are_rejected(annotation: str, text: str) -> None:
    with pytest.raises(AnnotationError, match=f"^kubesched.dev/{annotation}: '{text}'"):
        behaves(a_pod(annotations={annotation: text}))


@pytest.mark.parametrize(
    ("policy", "own", "code", "expected"),
    [
        ("Always", {}, 0, True),
        ("Always", {}, 1, True),
        ("OnFailure", {}, 0, False),
        ("OnFailure", {}, 1, True),
        ("Never", {}, 1, False),
        ("Never", {"restartPolicy": "OnFailure"}, 1, True),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        (
            "Never",
            {"restartPolicyRules": [
                {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
            ]},
            42,
            True,
        ),
        (
            "Never",
            {"restartPolicyRules": [
                {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [42]}}
            ]},
            42,
            False,
        ),
    ],
)  # fmt: skip
def test_restart_policies(policy: str, own: dict[str, Any], code: int, *, expected: bool) -> None:
    assert should_restart(a_pod(restartPolicy=policy), {**MAIN, **own}, code) is expected
