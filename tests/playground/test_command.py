"""`kubesched playground`: output, shutdown and child processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.testing import a_pod
from tests.playground.commands import Command, has_kubelet
from tests.unit.cli.running import kubesched

PODS = "/api/v1/namespaces/default/pods"


def deployment(replicas: int, image: str = "nginx:1") -> dict[str, Any]:
    labels = {"app": "web"}
    pod = {"containers": [{"name": "main", "image": image}]}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def test_it_prints_an_introduction_and_next_steps(tmp_path: Path) -> None:
    with Command(tmp_path) as command:
        command.until_ready()
        text = command.output
        assert text.startswith("A cluster of 4 nodes, ready in ")
        assert (
            f"API server   https://127.0.0.1:{command.port}  (embedded, objects in memory)" in text
        )
        assert "scheduler    default-scheduler; metrics: https://127.0.0.1:" in text
        assert "kubectl -n kube-system logs -f kubesched-node-1" in text
        assert command.kubeconfig.is_file()
        assert command.kubeconfig.stat().st_mode & 0o077 == 0
        with command.api() as api:
            api.post(PODS, a_pod("web")).must(201)
            command.until(
                lambda: "default/web -> node-" in command.output, "the decision is reported"
            )
            api.post(PODS, a_pod("big", requests={"cpu": "64"})).must(201)
            command.until(
                lambda: (
                    "default/big pending: 0/4 nodes are available: 4 Insufficient cpu."
                    in command.output
                ),
                "the reason is reported",
            )
        command.send_signal(signal.SIGINT)
        assert command.wait() == 0
        end = command.output.partition("Playground stopped: ")[2]
        assert end.startswith("1 pod bound, 1 still pending.\n")
        assert "kubesched new-plugin NAME" in end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(
    ("plane", "count"), [("embedded", 2), pytest.param("real", 5, marks=pytest.mark.programs)]
)
def test_no_child_survives_it(
    tmp_path: Path, plane: str, count: int, number: signal.Signals
) -> None:
    with Command(tmp_path, (f"--control-plane={plane}",)) as command:
        children = command.until_ready().children()
        assert len(children) == count
        command.send_signal(number)
        assert command.wait() == (0 if number != signal.SIGKILL else -signal.SIGKILL)
        until(lambda: not any(map(has_kubelet, children)), "its children are gone", 10.0)


def test_it_stops_with_the_output_of_a_child_that_dies(tmp_path: Path) -> None:
    with Command(tmp_path) as command:
        api_server, _scheduler = command.until_ready().children()
        os.kill(api_server, signal.SIGKILL)
        assert command.wait() == 1
        assert "kubesched apiserver exited with status -9" in command.output


def test_after_a_kill_the_rollout_continues_with_the_same_data(tmp_path: Path) -> None:
    data = tmp_path / "cluster.db"
    path = "/apis/apps/v1/namespaces/default/deployments"
    with Command(tmp_path, (f"--data={data}",)) as command:
        command.until_ready()
        with command.api() as api:
            api.post(path, deployment(12)).must(201)

            def web() -> Any:
                return api.get(f"{path}/web").must(200).json

            command.until(lambda: _is_rolled_out(web(), 12), "all pods are there")
            new = {"spec": {"template": deployment(12, "nginx:2")["spec"]["template"]}}
            api.patch(f"{path}/web", new, MERGE_PATCH).must(200)
            command.until(lambda: _is_between(web(), 12), "some pods are new")
            command.send_signal(signal.SIGKILL)
        command.wait()
    with Command(tmp_path, (f"--data={data}",), port=command.port) as restarted:
        restarted.until_ready()
        with restarted.api() as api:
            restarted.until(
                lambda: _is_rolled_out(api.get(f"{path}/web").must(200).json, 12),
                "the rollout is over",
            )
            restarted.until(lambda: len(api.get(PODS).json["items"]) == 12, "the old pods are gone")
            pods = api.get(PODS).json["items"]
            events = api.get("/api/v1/namespaces/default/events").json["items"]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"nginx:2"}
    bound = [event["involvedObject"]["uid"] for event in events if event["reason"] == "Scheduled"]
    assert len(bound) == len(set(bound))


def _is_between(document: Any, count: int) -> bool:
    status = document["status"]
    is_seen = status["observedGeneration"] == document["metadata"]["generation"]
    return is_seen and 0 < status.get("updatedReplicas", 0) < count


def _is_rolled_out(document: Any, count: int) -> bool:
    status = document.get("status", {})
    counts = [status.get(field) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    is_seen = status.get("observedGeneration") == document["metadata"]["generation"]
    return is_seen and counts == [count] * 3


def test_a_pod_whose_scheduler_is_not_running_is_reported(tmp_path: Path) -> None:
    with Command(tmp_path, ("--nodes=1",)) as command:
        command.until_ready()
        with command.api() as api:
            api.post(PODS, a_pod("lost", scheduler="nobody")).must(201)
            command.until(
                lambda: (
                    "default/lost waits for the scheduler 'nobody', which is not running "
                    "(running: default-scheduler)." in command.output
                ),
                "the pod is named",
            )


def test_configuration_and_plugins_are_passed_to_the_scheduler(tmp_path: Path) -> None:
    plugin = tmp_path / "last.py"
    plugin.write_text(
        "class Last:\n"
        "    name = 'Last'\n"
        "    def score(self, state, pod, node):\n"
        "        return 100 if node.name == 'worker-3' else 0\n"
    )
    config = tmp_path / "scheduler.yaml"
    enabled = {"multiPoint": {"enabled": [{"name": "Last", "weight": 100}]}}
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"schedulerName": "mine", "plugins": enabled}],
            }
        )
    )
    template = tmp_path / "node.yaml"
    template.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "worker-%d", "labels": {"disk": "ssd"}},
                "status": {"capacity": {"cpu": "2"}},
            }
        )
    )
    flags = (f"--config={config}", f"--plugin={plugin}:Last", f"--node-template={template}")
    with Command(tmp_path, (*flags, "--nodes=3")) as command:
        command.until_ready()
        with command.api() as api:
            api.post(PODS, a_pod("web", scheduler="mine")).must(201)
            command.until(lambda: "default/web -> worker-3" in command.output, "it is placed")
            node = api.get("/api/v1/nodes/worker-3").must(200).json
    assert node["metadata"]["labels"]["disk"] == "ssd"
    assert node["status"]["allocatable"]["cpu"] == "2"


def test_a_missing_scheduler_is_reported(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "mine" / "config"
    flags = ("--no-scheduler", "--nodes=1", f"--write-kubeconfig={kubeconfig}")
    with Command(tmp_path, flags) as command:
        command.until_ready()
        assert "scheduler    none: start your own" in command.output
        assert command.kubeconfig == kubeconfig
        assert len(command.children()) == 1


@pytest.mark.parametrize(
    ("flags", "output"),
    [
        (
            ["--from-cluster", "--nodes=3"],
            "--nodes and --node-template do not apply to a copy of a cluster",
        ),
        (["--control-plane=real", "--data=x.db"], "--data requires --control-plane embedded"),
        (
            ["--no-scheduler", "--plugin=a:B"],
            "--config and --plugin cannot be used with --no-scheduler",
        ),
        (["--snapshot=missing.json"], "missing.json does not exist: create it with --from-cluster"),
        (["--nodes=-1"], "'--nodes': -1 is not in the range"),
    ],
)
def test_conflicting_options_are_rejected(flags: list[str], output: str) -> None:
    run = kubesched("playground", *flags)
    assert run.status == 2
    assert output in run.err


def test_a_faulty_configuration_is_rejected_before_anything_starts(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("apiVersion: v1\nkind: Pod\n")
    run = kubesched("playground", f"--config={config}")
    assert run.status == 1
    assert "Pod" in run.err


def test_it_stops_with_the_scheduler_output_for_a_faulty_plugin(tmp_path: Path) -> None:
    with Command(tmp_path, ("--nodes=1", "--plugin=no_such_module:Plugin")) as command:
        assert command.wait() == 1
        assert "cannot import no_such_module" in command.output


def test_its_help_has_examples() -> None:
    run = kubesched("playground", "--help")
    assert run.status == 0
    for text in ("export KUBECONFIG=", "--from-cluster", "kubesched.dev/run-for", "first-ten"):
        assert text in run.out
