"""`kubesched.explain` and the command `kubesched explain` have equal inputs and results."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import kubesched
from tests.unit.cli.running import kubesched as run
from tests.unit.simulate.small_clusters import Document, node, pod, workload

CLUSTER: list[Document] = [
    node("small", "1"),
    node("large", "8"),
    pod("running", on="large"),
    workload("Deployment", "web", "2"),
    workload("StatefulSet", "db", "2"),
    workload("DaemonSet", "agent", "2"),
    pod("waiting", "4"),
]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    cluster, beside = tmp_path / "cluster.yaml", tmp_path / "beside.yaml"
    cluster.write_text(yaml.safe_dump_all(CLUSTER))
    beside.write_text(yaml.safe_dump(workload("Job", "report", "16")))
    return [str(cluster), str(beside)]


@pytest.mark.parametrize(
    "name",
    ["waiting", "default/running", "deployment/web", "sts/default/db", "ds/agent", "job/report"],
)
def test_call_and_command_have_equal_results(files: list[str], name: str) -> None:
    ran = run("explain", *(f"-f{file}" for file in files), "-o", "json", name)
    assert ran.status == 0, ran.err
    assert json.loads(msgspec.json.encode(kubesched.explain(name, files))) == ran.json


def test_objects_may_be_passed_instead_of_files() -> None:
    explanation = kubesched.explain("deployment/web", CLUSTER)
    assert (explanation.node, explanation.pod.startswith("default/web-")) == ("large", True)
    assert kubesched.explain("agent", iter(CLUSTER)).outcome == "unschedulable"


def test_paths_may_be_path_objects(files: list[str]) -> None:
    paths = [Path(file) for file in files]
    assert kubesched.explain("job/report", paths).outcome == "unschedulable"
    assert kubesched.explain("waiting", paths[0]).node == "large"


def test_the_only_workload_needs_no_name() -> None:
    assert kubesched.explain(None, [node("a"), workload("Deployment", "web")]).node == "a"


@pytest.mark.parametrize(
    ("name", "cluster", "text"),
    [
        pytest.param(
            "deployment/wbe",
            CLUSTER,
            "no pod or workload in the files is named deployment/wbe; the files hold ",
            id="none",
        ),
        pytest.param(
            "web", [node("a")], "pod web is not in the files; they hold no pod", id="empty"
        ),
        pytest.param("web", ["gone.yaml"], "gone.yaml: No such file or directory", id="no file"),
        pytest.param("web", [1], "objects: item 1: expected an object, got 1", id="no object"),
        pytest.param(
            "web",
            [node("a"), {**node("b"), "kind": "Nod", "apiVersion": ""}],
            "objects: item 2: ",
            id="a malformed object",
        ),
        pytest.param(
            "web",
            [{"kind": object}],
            "objects: item 1: not serializable as JSON",
            id="not serializable",
        ),
    ],
)
def test_errors_are_reported_in_one_line(name: str, cluster: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)) as problem:
        kubesched.explain(name, cluster)
    assert "\n" not in str(problem.value)


def test_the_list_of_kubectl_may_be_passed_unchanged() -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": CLUSTER}
    assert kubesched.explain("waiting", whole) == kubesched.explain("waiting", CLUSTER)


def test_the_list_of_one_kind_may_be_among_the_objects() -> None:
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": CLUSTER[:2]}
    explanation = kubesched.explain("waiting", [nodes, *CLUSTER[2:]])
    assert (explanation.node_count, explanation.node) == (2, "large")


# -- options --------------------------------------------------------------------------------------

NO_FIT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
}


def test_a_configuration_may_be_an_object_or_a_file(tmp_path: Path) -> None:
    assert kubesched.explain("waiting", CLUSTER).fit_count == 1
    assert kubesched.explain("waiting", CLUSTER, config=NO_FIT).fit_count == 2
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(NO_FIT))
    assert kubesched.explain("waiting", CLUSTER, config=file).fit_count == 2
    assert kubesched.explain("waiting", CLUSTER, config=str(file)).fit_count == 2


@pytest.mark.parametrize(
    ("config", "text"),
    [
        pytest.param({}, "config: ", id="empty"),
        pytest.param({**NO_FIT, "parallelism": -1}, "config: parallelism: ", id="invalid"),
        pytest.param("gone.yaml", "gone.yaml: No such file or directory", id="no file"),
    ],
)
def test_an_invalid_configuration_is_reported_in_one_line(config: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}") as problem:
        kubesched.explain("waiting", CLUSTER, config=config)
    assert "\n" not in str(problem.value)


def test_an_error_names_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("kind: Nothing\n")
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: "):
        kubesched.explain("waiting", CLUSTER, config=file)


@pytest.mark.parametrize(("top", "count"), [(1, 1), (2, 2), (0, 3), (None, 3)])
def test_top_limits_the_ranking(top: int | None, count: int) -> None:
    cluster = [node("a"), node("b"), node("c"), pod("p")]
    assert len(kubesched.explain("p", cluster, top=top).ranking) == count


def test_a_negative_number_of_rows_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^top: expected a number of rows, .*, got -1$"):
        kubesched.explain("waiting", CLUSTER, top=-1)


def test_the_explained_pod_does_not_count_in_the_cluster() -> None:
    # A bound pod is removed from its node first.
    explanation = kubesched.explain("running", [node("a", "1"), pod("running", "1", on="a")])
    assert explanation.node == "a"


def test_a_held_pod_is_reported_with_its_plugin() -> None:
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    explanation = kubesched.explain("gated", [node("a"), gated])
    assert explanation.held is not None
    assert [(held.plugin, held.message) for held in explanation.held] == [
        ("SchedulingGates", "waiting for scheduling gates: [example.com/wait]")
    ]
    assert (explanation.outcome, explanation.node) == ("placed", "a")
