"""`kubesched.explain` and the command `kubesched explain` take the same and say the same."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import kubesched
from tests.unit.cli.running import kubesched as run
from tests.unit.sim.small_clusters import Document, node, pod, workload

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
def test_both_explain_the_same(files: list[str], name: str) -> None:
    told = run("explain", *(f"-f{file}" for file in files), "-o", "json", name)
    assert told.status == 0, told.err
    assert json.loads(msgspec.json.encode(kubesched.explain(name, files))) == told.json


def test_objects_may_be_given_instead_of_files() -> None:
    found = kubesched.explain("deployment/web", CLUSTER)
    assert (found.node, found.pod.startswith("default/web-")) == ("large", True)
    assert kubesched.explain("agent", iter(CLUSTER)).outcome == "unschedulable"


def test_paths_need_not_be_texts(files: list[str]) -> None:
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
            "no pod or workload in the files is named deployment/wbe; there are ",
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
        pytest.param("web", [{"kind": object}], "objects: item 1: not to be written", id="odd"),
    ],
)
def test_faults_are_told_in_one_line(name: str, cluster: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)) as problem:
        kubesched.explain(name, cluster)
    assert "\n" not in str(problem.value)


def test_the_list_of_kubectl_may_be_given_as_it_is() -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": CLUSTER}
    assert kubesched.explain("waiting", whole) == kubesched.explain("waiting", CLUSTER)


def test_the_list_of_one_kind_may_be_among_the_objects() -> None:
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": CLUSTER[:2]}
    found = kubesched.explain("waiting", [nodes, *CLUSTER[2:]])
    assert (found.node_count, found.node) == (2, "large")


# -- options --------------------------------------------------------------------------------------

NO_FIT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
}


def test_a_configuration_may_be_given_or_its_file(tmp_path: Path) -> None:
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
def test_a_faulty_configuration_is_told_in_one_line(config: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}") as problem:
        kubesched.explain("waiting", CLUSTER, config=config)
    assert "\n" not in str(problem.value)


def test_a_faulty_file_of_a_configuration_is_named(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("kind: Nothing\n")
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: "):
        kubesched.explain("waiting", CLUSTER, config=file)


@pytest.mark.parametrize(("top", "count"), [(1, 1), (2, 2), (0, 3), (None, 3)])
def test_so_many_rows_are_ranked(top: int | None, count: int) -> None:
    cluster = [node("a"), node("b"), node("c"), pod("p")]
    assert len(kubesched.explain("p", cluster, top=top).ranking) == count


def test_fewer_rows_than_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^top: expected a number of rows, .*, got -1$"):
        kubesched.explain("waiting", CLUSTER, top=-1)


def test_what_is_explained_is_no_part_of_the_cluster() -> None:
    # A pod that has its node is taken off it before it is explained.
    found = kubesched.explain("running", [node("a", "1"), pod("running", "1", on="a")])
    assert found.node == "a"


def test_a_pod_that_is_held_is_said_to_be() -> None:
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    found = kubesched.explain("gated", [node("a"), gated])
    assert found.held is not None
    assert [(one.plugin, one.message) for one in found.held] == [
        ("SchedulingGates", "waiting for scheduling gates: [example.com/wait]")
    ]
    assert (found.outcome, found.node) == ("placed", "a")
