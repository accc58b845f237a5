"""Logs, exec, attach and port-forward through the API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import World
from tests.cluster.running_pods import (
    a_command,
    a_pod,
    own,
    until_phase,
    until_ready,
)

Document = dict[str, Any]

__all__ = ["own"]

UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


def log_path(world: World, name: str) -> str:
    return f"{world.path('pods', name)}/log"


def test_a_log_has_the_output(own: World) -> None:
    script = a_command("sh", "-c", "echo one; echo two; echo three")
    own.create(a_pod("talks", restartPolicy="Never", containers=[script]))
    until_phase(own, "talks", "Succeeded")
    path = log_path(own, "talks")
    response = own.api.get(path).must(200)
    assert response.text == "one\ntwo\nthree\n"
    assert response.headers["Content-Type"] == "text/plain"
    assert own.api.get(path, query={"tailLines": 2}).must(200).text == "two\nthree\n"
    assert own.api.get(path, query={"tailLines": 0}).must(200).text == ""
    assert own.api.get(path, query={"limitBytes": 5}).must(200).text == "one\nt"
    since = {"sinceTime": "2001-02-03T04:05:06Z"}
    assert own.api.get(path, query=since).must(200).text == "one\ntwo\nthree\n"
    later = {"sinceTime": "2901-02-03T04:05:06Z"}
    assert own.api.get(path, query=later).must(200).text == ""
    stamped = own.api.get(path, query={"timestamps": True}).must(200).text.splitlines()
    assert [line.partition("Z ")[2] for line in stamped] == ["one", "two", "three"]
    assert all(line.startswith("20") for line in stamped)


def test_a_log_without_output_says_that_it_is_simulated(own: World) -> None:
    own.create(a_pod("silent"))
    until_ready(own, "silent")
    text = own.api.get(log_path(own, "silent")).must(200).text
    assert "is simulated and produces no output" in text
    assert len(text.splitlines()) == 1


def test_a_log_is_followed_to_its_end(own: World) -> None:
    script = a_command("sh", "-c", "echo begin; sleep 1; echo end")
    own.create(a_pod("followed", restartPolicy="Never", containers=[script]))
    until_ready(own, "followed")
    response = own.api.get(log_path(own, "followed"), query={"follow": True}).must(200)
    assert response.text == "begin\nend\n"


def test_the_log_of_the_previous_run(own: World) -> None:
    own.create(
        a_pod("twice", restartPolicy="OnFailure", annotations={"exit-code": "4,0", "run-for": "1s"})
    )
    own.until(
        lambda: (own.get(own.path("pods", "twice"))["status"].get("containerStatuses") or [{}])[
            0
        ].get("restartCount"),
        "it was started again",
    )
    response = own.api.get(log_path(own, "twice"), query={"previous": True}).must(200)
    assert response.text.endswith("container main exited with code 4\n")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param({}, 400, "a container name must be specified for pod two, choose one of: "
                     "[check left right]", id="which of them"),
        pytest.param({"container": "other"}, 400, "container other is not valid for pod two",
                     id="there is no such"),
        pytest.param({"container": "left", "previous": True}, 400,
                     'previous terminated container "left" in pod "two" not found', id="no before"),
        pytest.param({"container": "left", "tailLines": -1}, 422, 'PodLogOptions "two" is invalid: '
                     "tailLines: Invalid value: -1: must be greater than or equal to 0",
                     id="fewer than none"),
        pytest.param({"container": "left", "sinceSeconds": 0}, 422,
                     'PodLogOptions "two" is invalid: sinceSeconds: Invalid value: 0: must be '
                     "greater than 0", id="since now"),
    ],
)  # fmt: skip
def test_a_missing_log(own: World, query: Document, code: int, message: str) -> None:
    containers = [{"name": "left", "image": "img"}, {"name": "right", "image": "img"}]
    checks = [a_command("true", name="check")]
    own.create(a_pod("two", containers=containers, initContainers=checks))
    until_ready(own, "two")
    response = own.api.get(log_path(own, "two"), query=query)
    assert (response.code, response.message) == (code, message)


def test_a_waiting_container_has_no_log(own: World) -> None:
    own.create(a_pod("waits", annotations={"start-after": "1h"}))
    own.until(
        lambda: own.get(own.path("pods", "waits"))["status"].get("containerStatuses"),
        "the kubelet has seen it",
    )
    response = own.api.get(log_path(own, "waits"))
    assert response.code == 400
    assert (
        response.message == 'container "main" in pod "waits" is waiting to start: ContainerCreating'
    )


def test_a_pod_without_a_node_has_an_empty_log(world: World) -> None:
    world.create(a_pod("nowhere", nodeSelector={"no-node": "has-this"}))
    response = world.api.get(log_path(world, "nowhere"))
    assert (response.code, response.body) == (204, b"")


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
def test_a_pod_without_a_node_cannot_be_connected_to(world: World, subresource: str) -> None:
    world.create(a_pod("nowhere", nodeSelector={"no-node": "has-this"}))
    path = f"{world.path('pods', 'nowhere')}/{subresource}"
    response = world.api.post(path, None, headers=UPGRADE)
    assert response.code == 400
    assert response.message == "pod nowhere does not have a host assigned"


@pytest.mark.parametrize(
    ("subresource", "reason"),
    [
        ("exec", "there is no container to execute a command in"),
        ("attach", "there is no container to attach to"),
        ("portforward", "there is no container to forward a port to"),
    ],
)
def test_exec_attach_and_port_forward_are_rejected(
    own: World, subresource: str, reason: str
) -> None:
    own.create(a_pod("hollow"))
    until_ready(own, "hollow")
    path = f"{own.path('pods', 'hollow')}/{subresource}"
    response = own.api.post(path, None, query={"command": "ls"}, headers=UPGRADE)
    assert (response.code, response.reason) == (501, "NotImplemented")
    assert response.message == f"pods are simulated here: {reason}"
    plain = own.api.post(path, None)
    assert (plain.code, plain.message) == (400, "Upgrade request required")


@pytest.mark.programs
@pytest.mark.parametrize("program", ["kubectl", "kubectl-1.32"])
def test_kubectl_shows_logs_and_rejections(own: World, program: str) -> None:
    script = a_command("sh", "-c", "echo begin; sleep 1; echo end")
    own.create(a_pod("once", restartPolicy="Never", containers=[script]), a_pod("web"))
    until_ready(own, "web")
    assert own.kubectl("logs", "-f", "once", program=program) == "begin\nend\n"
    assert own.kubectl("logs", "once", "--tail=1", program=program) == "end\n"
    assert "is simulated and produces no output" in own.kubectl("logs", "web", program=program)
    for arguments in (
        ["exec", "web", "--", "ls"],
        ["attach", "web"],
        ["port-forward", "web", ":80"],
    ):
        completed = own.cluster.run_kubectl("-n", own.namespace, *arguments, program=program)
        assert completed.returncode == 1, arguments
        assert "pods are simulated here" in completed.stderr
