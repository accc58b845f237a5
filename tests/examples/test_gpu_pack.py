"""examples/gpu-pack: the four configurations of its README, simulated and on clusters."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.playground.in_process import (
    ControllersKind,
    Playground,
    ServerKind,
    is_ready_node,
    playground,
)
from kubesched.profile.plugin_loading import load_plugin
from kubesched.testing import SchedulerSettings, start_scheduler
from kubesched.testing.plugin_checks import check_plugin
from tests.examples.readme import EXAMPLES, ROOT, Walk, commands_of
from tests.playground.commands import blocks_of
from tests.unit.cli.running import kubesched

EXAMPLE = EXAMPLES / "gpu-pack"
README = (EXAMPLE / "README.md").read_text()
PLUGIN = load_plugin(f"{EXAMPLE}/gpu_pack.py:GpuPack").factory
PODS = 17


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def simulated(line: str, *more: str) -> str:
    name, *arguments = shlex.split(line)
    assert name == "kubesched"
    completed = kubesched(*arguments, *more)
    assert completed.status == 0, completed.err
    return completed.out


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(ROOT)
    lines = [line for line in commands_of("gpu-pack") if line.startswith("kubesched simulate")]
    assert len(lines) == 3
    return lines


def outcome(run: dict[str, Any]) -> tuple[str, int]:
    """Return the large pod's node, and the number of web pods on GPU nodes."""
    nodes = {
        placement["pod"].removeprefix("default/"): placement["node"]
        for placement in run["placements"]
    }
    web = [node for pod, node in nodes.items() if pod.startswith("web-")]
    assert len(web) == 4
    return nodes.get("large", ""), sum(node.startswith("gpu-") for node in web)


def test_the_table_of_the_readme(comparisons: list[str]) -> None:
    runs = [json.loads(simulated(line, "-o", "json"))["runs"] for line in comparisons]
    defaults, most = runs[0]
    assert runs[1][0]["placements"] == defaults["placements"]
    assert runs[2][0]["placements"] == most["placements"]
    ratio, plugin = runs[1][1], runs[2][1]
    expected = [
        (bool(large), web)
        for large, web in (outcome(one) for one in (defaults, most, ratio, plugin))
    ]
    rows = [line.split(" | ") for line in README.splitlines() if line.startswith("| ")][1:]
    table = [("placed" in row[2], int(row[3].rstrip(" |"))) for row in rows if len(row) == 4]
    assert expected == table == [(False, 3), (True, 4), (True, 4), (True, 0)]
    assert [one["pod"] for one in defaults["left"]] == ["default/large"]


def test_the_comparison_of_the_readme(comparisons: list[str]) -> None:
    printed = simulated(comparisons[0]).splitlines()
    (expected,) = blocks_of(README, "text")
    assert [line for line in expected.splitlines() if line not in printed] == []


def test_a_plugin_that_neither_configuration_enables_is_named(comparisons: list[str]) -> None:
    *_, plugin = shlex.split(comparisons[2])
    completed = kubesched(*shlex.split(comparisons[0])[1:], "--plugin", plugin)
    assert completed.status == 0, "without --config it is enabled in the defaults"
    config = str(EXAMPLE / "requested-to-capacity.yaml")
    completed = kubesched(*shlex.split(comparisons[0])[1:], "--config", config, "--plugin", plugin)
    assert completed.status != 0
    assert "no profile enables the plugin GpuPack" in completed.err


def test_the_plugin_of_the_readme_is_the_one_that_runs() -> None:
    (source,) = blocks_of(README, "python")
    assert source in (EXAMPLE / "gpu_pack.py").read_text()
    assert len(source.splitlines()) == 10


def test_the_plugin_keeps_the_rules() -> None:
    cluster = documents(EXAMPLE / "cluster" / "nodes.yaml")
    pods = [
        document for document in documents(EXAMPLE / "workload.yaml") if document["kind"] == "Pod"
    ]
    report = check_plugin(PLUGIN, clusters={"gpus": [*cluster, *pods]})
    # Eight of eight on a GPU node that is empty.
    assert report.score_range == (100, 100)
    assert check_plugin(PLUGIN).pod_count > 10


# -- clusters -------------------------------------------------------------------------------------


@contextmanager
def cluster_with(
    config: str,
    plugins: Sequence[Any] = (),
    *,
    server: ServerKind = "embedded",
    controllers: ControllersKind = "own",
) -> Iterator[Playground]:
    (document,) = documents(EXAMPLE / config)
    fields = {"profiles": document["profiles"]}
    with playground(
        nodes=0, plugins=plugins, config=fields, server=server, controllers=controllers
    ) as cluster:
        add_nodes(cluster)
        yield cluster


def add_nodes(cluster: Playground) -> None:
    cluster.create(*documents(EXAMPLE / "cluster" / "nodes.yaml"))
    cluster.until(lambda: all(map(is_open, nodes(cluster))), "all nodes take pods")


def nodes(cluster: Playground) -> list[dict[str, Any]]:
    return list(cluster.api.get("/api/v1/nodes").must(200).json["items"])


def is_open(node: dict[str, Any]) -> bool:
    return is_ready_node(node) and not node["spec"].get("taints")


def placements(cluster: Playground) -> dict[str, list[str]]:
    """Return the nodes of the pods that have one, by the first word of the pod's name."""
    nodes_by_workload: dict[str, list[str]] = {}
    for one in cluster.api.get("/api/v1/namespaces/default/pods").must(200).json["items"]:
        if one["spec"].get("nodeName"):
            workload = one["metadata"]["name"].partition("-")[0]
            nodes_by_workload.setdefault(workload, []).append(one["spec"]["nodeName"])
    return nodes_by_workload


def packed(cluster: Playground) -> dict[str, list[str]]:
    """Run the workload; return the placements once all pods have a node."""
    cluster.create(*documents(EXAMPLE / "workload.yaml"))
    cluster.until(lambda: sum(map(len, placements(cluster).values())) == PODS, "all are placed")
    found = placements(cluster)
    assert len({*found["notebook"], *found["training"], *found["large"]}) == 3
    return found


@pytest.mark.parametrize("config", ["most-allocated.yaml", "requested-to-capacity.yaml"])
def test_a_strategy_packs_on_the_playground(config: str) -> None:
    with cluster_with(config) as cluster:
        packed(cluster)


def test_the_plugin_packs_on_the_playground() -> None:
    with cluster_with("with-plugin.yaml", [PLUGIN]) as cluster:
        assert set(packed(cluster)["web"]) == {"cpu-1", "cpu-2"}


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("controllers", ["own", "real"])
def test_strategy_and_plugin_pack_on_real_kubernetes(controllers: ControllersKind) -> None:
    with cluster_with("most-allocated.yaml", server="real", controllers=controllers) as cluster:
        packed(cluster)
    with cluster_with(
        "with-plugin.yaml", [PLUGIN], server="real", controllers=controllers
    ) as cluster:
        assert set(packed(cluster)["web"]) == {"cpu-1", "cpu-2"}


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("config", ["most-allocated.yaml", "requested-to-capacity.yaml"])
def test_kube_scheduler_packs_by_the_same_files(config: str, tmp_path: Path) -> None:
    (document,) = documents(EXAMPLE / config)
    settings = SchedulerSettings(profiles=document["profiles"])
    with (
        playground(nodes=0, scheduler=False, server="real") as cluster,
        ProcessGroup(tmp_path) as group,
    ):
        add_nodes(cluster)
        start_scheduler(cluster.server, group, "kube-scheduler", settings)
        packed(cluster)


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("plane", ["embedded", "real"])
def test_the_readme_word_for_word(plane: str, tmp_path: Path) -> None:
    with Walk("gpu-pack", tmp_path, (f"--control-plane={plane}",)) as walk:
        for _ in range(2):
            assert "default/large  " in walk.next("kubesched simulate")
        assert walk.next("kubesched simulate").startswith("4 pods placed differently.\n")
        walk.next("kubesched playground")
        walk.next("export KUBECONFIG=")
        walk.next("kubectl apply")
        assert walk.next("kubectl wait").count(" condition met\n") == 6
        walk.until(
            lambda: "taints" not in walk.cluster.kubectl("get", "nodes", "-o", "json"), "all"
        )
        walk.next("kubectl apply")
        walk.next("kubectl rollout status")
        walk.until(lambda: running(walk) == PODS, "all run")
        lines = walk.next("kubectl get pods").splitlines()[1:]
        assert len(lines) == PODS
        web = [line for line in lines if line.startswith("web-")]
        assert all(" cpu-" in line for line in web)
        gpu = {word for line in lines for word in line.split() if word.startswith("gpu-")}
        assert len(gpu) == 3
        assert not walk.left


def running(walk: Walk) -> int:
    text = walk.cluster.kubectl("get", "pods", "-o", "json")
    return sum(pod["status"].get("phase") == "Running" for pod in json.loads(text)["items"])
