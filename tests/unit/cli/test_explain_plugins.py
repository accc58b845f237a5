"""Configurations and out-of-tree plugins, among them the examples of the documentation."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import EXAMPLE_PLUGINS, SAMPLE_CLUSTER, is_one_line, kubesched

SPARE_GPU = f"{EXAMPLE_PLUGINS}/spare_gpu.py:SpareGpu"
SPARE_GPU_COLUMNS = f"{EXAMPLE_PLUGINS}/spare_gpu_columns.py:SpareGpu"
NOT_ON_SPOT = f"{EXAMPLE_PLUGINS}/not_on_spot.py:NotOnSpot"
CONFIG = str(EXAMPLE_PLUGINS / "scheduler.yaml")
# Tolerates the GPU node's taint, so that the GPU node fits.
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  %s
  tolerations: [{operator: Exists}]
  containers: [{name: c, resources: {limits: {%s}}}]
"""


@pytest.fixture
def pod(tmp_path: Path) -> str:
    return written(tmp_path, POD % ("", "cpu: 1"))


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    return str(file)


def decision(*arguments: str, pod: str) -> dict[str, Any]:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "-f", pod, "p", "-o", "decision", *arguments)
    assert ran.status == 0, ran.err
    result: dict[str, Any] = ran.json
    return result


def scores(result: dict[str, Any], plugin: str) -> dict[str, int]:
    return {node: by_plugin[plugin] for node, by_plugin in result["scores"].items()}


@pytest.mark.parametrize("plugin", [SPARE_GPU, SPARE_GPU_COLUMNS])
def test_a_score_plugin_by_node_and_by_column(plugin: str, pod: str) -> None:
    result = scores(decision("--plugin", plugin, pod=pod), "SpareGpu")
    assert result.pop("c2-gpu") == 0
    assert len(result) == 5
    assert set(result.values()) == {100}


@pytest.mark.parametrize("plugin", [SPARE_GPU, SPARE_GPU_COLUMNS])
def test_a_pod_that_requests_a_gpu_wastes_none(plugin: str, tmp_path: Path) -> None:
    cluster = written(
        tmp_path,
        "\n---\n".join(
            f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"
            "status: {allocatable: {cpu: 8, memory: 8Gi, pods: 9, nvidia.com/gpu: 2}}\n"
            for name in ("a", "b")
        )
        + "\n---\n"
        + POD % ("", "nvidia.com/gpu: 1"),
    )
    ran = kubesched("explain", "-f", cluster, "p", "--plugin", plugin, "-o", "decision")
    assert scores(ran.json, "SpareGpu") == {"a": 100, "b": 100}


def test_a_filter_with_its_default_arguments(pod: str) -> None:
    rejected = decision("--plugin", NOT_ON_SPOT, pod=pod)["rejected"]
    assert rejected == {
        "a2-spot": {
            "plugin": "NotOnSpot",
            "code": "UnschedulableAndUnresolvable",
            "reasons": ["node(s) may vanish"],
        }
    }


@pytest.mark.parametrize(
    ("priority", "rejected"),
    [
        pytest.param("priority: 499", [], id="below the priority"),
        pytest.param("priority: 500", ["a2-spot"], id="at the priority"),
    ],
)
def test_arguments_and_weights_of_a_configuration(
    tmp_path: Path, priority: str, rejected: list[str]
) -> None:
    pod = written(tmp_path, POD % (priority, "cpu: 1"))
    result = decision("--config", CONFIG, "--plugin", NOT_ON_SPOT, "--plugin", SPARE_GPU, pod=pod)
    assert list(result["rejected"]) == rejected
    assert scores(result, "SpareGpu")["a1"] == 200


def test_without_a_configuration_the_default_profile_enables_the_plugin(pod: str) -> None:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "-f", pod, "p", "--plugin", SPARE_GPU)
    assert ran.err == "note: enabled at multiPoint of the default profile: SpareGpu\n"
    assert "SpareGpu" in ran.out


PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: %s
"""


@pytest.mark.parametrize(
    ("config", "plugins", "problem"),
    [
        pytest.param(
            PROFILE % "default-scheduler",
            [SPARE_GPU],
            "no profile enables the plugin SpareGpu; add it under",
            id="a plugin that is not enabled",
        ),
        pytest.param(
            Path(CONFIG).read_text(encoding="utf-8"),
            [],
            'Plugin "NotOnSpot" does not exist',
            id="a plugin that is not loaded",
        ),
        pytest.param(
            Path(CONFIG).read_text(encoding="utf-8").replace("priorityMin", "minPriority"),
            [SPARE_GPU, NOT_ON_SPOT],
            "initializing plugin \"NotOnSpot\": args: unknown field 'minPriority', did you mean "
            "'priorityMin'?",
            id="arguments that the plugin rejects",
        ),
        pytest.param(PROFILE % "batch", [], "has 'batch'", id="no profile for the pod"),
        pytest.param("kind: [", [], "yaml: ", id="invalid YAML"),
        pytest.param("kind: Pod", [], "'apiVersion' is missing", id="no configuration"),
        pytest.param(
            PROFILE % "default-scheduler" + "    percentageOfNodesToScore: 101\n",
            [],
            "percentageOfNodesToScore",
            id="an invalid configuration",
        ),
    ],
)
def test_an_invalid_configuration_is_reported(
    tmp_path: Path, pod: str, config: str, plugins: list[str], problem: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config)
    options = [part for plugin in plugins for part in ("--plugin", plugin)]
    files = ["-f", SAMPLE_CLUSTER, "-f", pod, "--config", str(file)]
    ran = kubesched("explain", *files, *options, "p")
    assert ran.status == 1
    assert is_one_line(ran.err)
    assert problem in ran.err
    assert ran.out == ""


def test_the_configuration_may_come_from_standard_input(pod: str) -> None:
    config = (PROFILE % "default-scheduler").encode()
    files = ["-f", SAMPLE_CLUSTER, "-f", pod, "--config", "-"]
    ran = kubesched("explain", *files, "p", stdin=config)
    assert (ran.status, ran.err) == (0, "")


def test_a_note_reports_that_extenders_are_not_called(tmp_path: Path, pod: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n"
    )
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "-f", pod, "--config", str(file), "p")
    assert ran.status == 0
    assert ran.err == "note: extenders of the configuration are not called\n"


FAULTY = """
from kubesched import CycleState, NodeView, PodInfo


class FailsToStart:
    def __init__(self) -> None:
        raise KeyError("a\\nb")

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 0


class FailsToScore:
    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        raise RuntimeError("out of tea")


class NodeAffinity:
    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 0


class ReadsWholePods:
    reads_bound_pods = True

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return sum(bound.object.spec.node_name == node.name for bound in node.pods)
"""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param(
            "FailsToStart",
            'initializing plugin "FailsToStart": KeyError: ',
            id="a failing constructor",
        ),
        pytest.param(
            "NodeAffinity", "a plugin named NodeAffinity already exists", id="a taken name"
        ),
    ],
)
def test_a_plugin_that_cannot_be_constructed(
    tmp_path: Path, pod: str, name: str, problem: str
) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY)
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "-f", pod, "--plugin", f"{file}:{name}", "p")
    assert ran.status == 1
    assert is_one_line(
        ran.err.removeprefix(f"note: enabled at multiPoint of the default profile: {name}\n")
    )
    assert problem in ran.err


def test_a_failing_plugin_ends_the_attempt_with_its_name(tmp_path: Path, pod: str) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY)
    result = decision("--plugin", f"{file}:FailsToScore", pod=pod)
    assert result["error"] == (
        'running Score plugins: plugin "FailsToScore" failed with: RuntimeError: out of tea'
    )


def test_a_plugin_reads_whole_bound_pods_on_request(tmp_path: Path, pod: str) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY)
    result = scores(decision("--plugin", f"{file}:ReadsWholePods", pod=pod), "ReadsWholePods")
    assert result["c2-gpu"] == 2
