"""The commands that the playground prints, with kubectl 1.36 and 1.32."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.playground.commands import Command, blocks_of

pytestmark = [pytest.mark.programs, pytest.mark.timeout(180)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=["embedded", "real"])
def command(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Command]:
    flags = (f"--control-plane={request.param}",)
    with Command(tmp_path_factory.mktemp("playground"), flags) as running:
        yield running.until_ready()


@pytest.mark.parametrize("program", ["kubectl", "kubectl-1.32"])
def test_every_printed_command_works(command: Command, program: str) -> None:
    steps = command.steps()
    assert steps[0].startswith("export KUBECONFIG=")
    walk = Walk(command, program, steps[1:])
    assert walk.next("kubectl get nodes").count(" Ready ") == 4
    walk.next("kubectl create deployment web --image=nginx --replicas=3")
    assert walk.next("kubectl rollout status").endswith("successfully rolled out\n")
    assert walk.next("kubectl get pods -o wide").count(" Running ") == 3
    assert len({pod["spec"]["nodeName"] for pod in walk.pods()}) == 3
    walk.next("kubectl scale deployment web --replicas=6")
    command.until(lambda: len(walk.placed()) == 6, "six pods have a node")
    assert walk.next("kubectl cordon node-1") == "node/node-1 cordoned\n"
    assert walk.next("kubectl taint nodes --all").count(" tainted\n") == 4
    walk.next("kubectl scale deployment web --replicas=7")
    command.until(walk.reasons, "the seventh is rejected")
    assert len(walk.placed()) == 6
    assert (
        "0/4 nodes are available: 1 node(s) were unschedulable, "
        "3 node(s) had untolerated taint(s)." in walk.next("kubectl get events")
    )
    assert walk.next("kubectl taint nodes --all").count(" untainted\n") == 4
    assert walk.next("kubectl rollout status").endswith("successfully rolled out\n")
    assert walk.next("kubectl uncordon node-1") == "node/node-1 uncordoned\n"
    assert walk.next("kubectl drain node-2").endswith("node/node-2 drained\n")
    assert all(pod["spec"].get("nodeName") != "node-2" for pod in walk.pods())
    assert walk.next("kubectl uncordon node-2") == "node/node-2 uncordoned\n"
    assert "Successfully bound pod to node" in walk.next("kubectl -n kube-system logs kubesched")
    walk.next("kubectl delete deployment web")
    command.until(lambda: not walk.pods(), "the pods are gone")
    assert not walk.left


def test_the_guide_has_every_printed_command(command: Command) -> None:
    guide = (ROOT / "docs" / "first-ten-minutes.md").read_text()
    lines = "".join(blocks_of(guide)).splitlines()
    missing = [step for step in command.steps()[1:] if step not in lines]
    assert not missing


def test_the_log_of_the_scheduler_can_be_followed(command: Command) -> None:
    text = command.kubectl("-n", "kube-system", "get", "pods", "-o", "json")
    (pod,) = json.loads(text)["items"]
    assert pod["metadata"]["annotations"]["kubernetes.io/config.mirror"]
    assert pod["status"]["phase"] == "Running"
    log = command.kubectl("-n", "kube-system", "logs", pod["metadata"]["name"])
    assert '"Starting Kubernetes Scheduler"' in log


class Walk:
    """Runs the printed lines in order."""

    def __init__(self, command: Command, program: str, lines: list[str]) -> None:
        self.command = command
        self.program = program
        self.left = list(lines)

    def next(self, beginning: str) -> str:
        """Run the next line, which must have this beginning; return its output."""
        line = self.left.pop(0)
        assert line.startswith(beginning)
        return self.command.run_line(line, self.program)

    def pods(self) -> list[Any]:
        text = self.command.kubectl("get", "pods", "-o", "json", program=self.program)
        return list(json.loads(text)["items"])

    def placed(self) -> list[str]:
        """Return the nodes of the pods that have one."""
        return [pod["spec"]["nodeName"] for pod in self.pods() if "nodeName" in pod["spec"]]

    def reasons(self) -> list[str]:
        """Return the reasons why pods wait."""
        return [
            condition["message"]
            for pod in self.pods()
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
