"""Other schedulers on a playground: a second kubesched, and kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.schedulers import scheduler_command
from kubesched.testing import Programs, a_pod
from tests.playground.commands import Command

PODS = "/api/v1/namespaces/default/pods"


def configuration(path: Path, kubeconfig: Path, name: str, *plugins: str) -> Path:
    enabled = [{"name": plugin, "weight": 100} for plugin in plugins]
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(kubeconfig)},
                "leaderElection": {"leaderElect": False},
                "profiles": [
                    {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}}}
                ],
            }
        )
    )
    return path


def node_of(command: Command, pod: str) -> str:
    with command.api() as api:
        return str(api.get(f"{PODS}/{pod}").must(200).json["spec"].get("nodeName", ""))


def test_a_second_kubesched_with_its_own_name_and_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "last.py"
    plugin.write_text(
        "class Last:\n"
        "    name = 'Last'\n"
        "    def score(self, state, pod, node):\n"
        "        return 100 if node.name == 'node-4' else 0\n"
    )
    with Command(tmp_path) as command, ProcessGroup(tmp_path) as group:
        config = configuration(
            tmp_path / "second.yaml", command.until_ready().kubeconfig, "second", "Last"
        )
        group.start(
            "second",
            [
                *scheduler_command("kubesched"),
                f"--config={config}",
                f"--plugin={plugin}:Last",
                "--secure-port=0",
            ],
        )
        with command.api() as api:
            api.post(PODS, a_pod("theirs-0", scheduler="second")).must(201)
            command.until(lambda: node_of(command, "theirs-0"), "the second scheduler runs")
            for number in range(1, 4):
                api.post(PODS, a_pod(f"ours-{number}")).must(201)
                api.post(PODS, a_pod(f"theirs-{number}", scheduler="second")).must(201)
        command.until(
            lambda: all(
                node_of(command, f"{prefix}-{number}")
                for prefix in ("ours", "theirs")
                for number in range(1, 4)
            ),
            "each scheduler places its own pods",
        )
        assert {node_of(command, f"theirs-{number}") for number in range(4)} == {"node-4"}
        assert len({node_of(command, f"ours-{number}") for number in range(1, 4)}) > 1


@pytest.mark.programs
def test_kube_scheduler_schedules_there(tmp_path: Path) -> None:
    Programs.built().check(["kube-scheduler"])
    with Command(tmp_path, ("--no-scheduler",)) as command, ProcessGroup(tmp_path) as group:
        kubeconfig = command.until_ready().kubeconfig
        group.start(
            "kube-scheduler",
            [
                *scheduler_command("kube-scheduler"),
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--secure-port=0",
            ],
        )
        with command.api() as api:
            api.post(PODS, a_pod("web")).must(201)
        command.until(lambda: node_of(command, "web").startswith("node-"), "the pod is placed")
        command.until(lambda: "default/web -> node-" in command.output, "the view shows it")
