from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cli.running import ROOT, SAMPLE_CLUSTER, is_one_line, kubesched
from tests.unit.simulate.small_clusters import node, pod, stream, workload

WORKLOADS = ROOT / "examples" / "workloads"
PACKED = str(WORKLOADS / "config" / "packed.yaml")


def test_the_sample_cluster_is_scheduled_in_order_of_priority() -> None:
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER)
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:2] == [
        "2 pending, 6 nodes: 2 pods placed, 0 unschedulable, 1 preempted, 0 recreated.",
        "",
    ]
    assert "  default/trainer-0  c2-gpu  after preemption" in lines
    assert "  default/trainer-0 (priority 1000) on c2-gpu" in lines
    assert "    preempts default/notebook-0 (priority 0), deleted" in lines


def test_pods_of_the_sample_workloads_are_created_and_scheduled() -> None:
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, "-f", str(WORKLOADS), "-o", "json")
    assert ran.err == (
        "note: pods created: 4 of Job default/nightly, 3 of StatefulSet default/queue, "
        "6 of Deployment default/shop, 3 of Deployment default/checkout\n"
    )
    summary = ran.json["summary"]
    assert summary["pending"] == 2 + 4 + 3 + 6 + 3
    assert summary["placed"] + summary["left"] == summary["pending"] + summary["recreated"]
    assert {placement["pod"] for placement in ran.json["placements"]} >= {
        "default/trainer-0",
        "default/web-7",
    }


AWS_NODE = "ip-10-0-10-123.eu-central-1.compute.internal"
AWS_POD = "prometheus-kube-state-metrics-7d9f8c6b5-abcde"


def test_names_of_ordinary_length_fit_into_80_columns() -> None:
    space = {"namespace": "monitoring"}
    low = pod(AWS_POD, on=AWS_NODE, owner="ReplicaSet/kube-state", metadata=space)
    high = pod(AWS_POD.replace("state", "stats"), "4", priority=9, metadata=space)
    documents = stream(node(AWS_NODE), low, high, pod("small", "0")).read()
    ran = kubesched("simulate", "-f", "-", stdin=documents)
    events = [line for line in ran.out.splitlines() if line.startswith("    Unschedulable: ")]
    lines = [line for line in ran.out.splitlines() if line not in events]
    assert [line for line in lines if len(line) > 80] == []
    assert len(events) == 1
    assert f"      {AWS_NODE}" in lines, "a name that has room is not folded"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        pytest.param([], 1000, id="the default"),
        pytest.param(["--top", "3"], 3, id="a number"),
        pytest.param(["--top", "0"], 1001, id="all"),
    ],
)
def test_top_limits_the_rows_of_a_page(options: list[str], shown: int) -> None:
    documents = stream(node("n", "2k", pods="2k"), *(pod(f"p{i}") for i in range(1001))).read()
    page = kubesched("simulate", "-f", "-", "-o", "html", *options, stdin=documents).out
    assert page.count("<td>default/p") == shown


def test_equal_runs_have_no_column_of_differences(tmp_path: Path) -> None:
    config = tmp_path / "same.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    documents = stream(node("n"), pod("p")).read()
    ran = kubesched("simulate", "-f", "-", "--compare", str(config), stdin=documents)
    lines = ran.out.splitlines()
    assert lines[lines.index("Side by side:") + 1].split() == ["default", "same.yaml"]


def test_a_configuration_compared_with_itself_is_reported() -> None:
    beside = str(Path(PACKED).parent / ".." / "config" / "packed.yaml")
    documents = stream(node("n")).read()
    ran = kubesched("simulate", "-f", "-", "--config", PACKED, "--compare", beside, stdin=documents)
    assert ran.err == f"note: {beside} is compared with itself; the runs are the same\n"


def test_resources_that_no_node_offers_are_shown() -> None:
    resources = {"requests": {"example.com/fpga": "2"}}
    running = pod("p", on="n", containers=[{"name": "c", "resources": resources}])
    documents = stream(node("n"), running).read()
    lines = kubesched("simulate", "-f", "-", stdin=documents).out.splitlines()
    assert "  example.com/fpga    0.0%   0.0%        2 of 0" in lines


def test_unschedulable_pods_are_grouped_by_reason() -> None:
    documents = stream(node("n", "1"), *(pod(f"p{i}") for i in range(12))).read()
    lines = kubesched("simulate", "-f", "-", stdin=documents).out.splitlines()
    assert lines[0] == "12 pending, 1 node: 1 pod placed, 11 unschedulable."
    place = lines.index("Unschedulable (11):")
    assert lines[place + 2] == "  default/p7, default/p8 and 3 more"
    assert lines[place + 3].startswith("    Unschedulable: 0/1 nodes are available: 1 Insufficient")


def test_json_matches_the_documentation() -> None:
    documents = stream(
        node("n", "2", zone="a"),
        pod("low", on="n", owner="ReplicaSet/low"),
        pod("big", "2", priority=7),
    ).read()
    report = kubesched("simulate", "-f", "-", "-o", "json", stdin=documents).json
    assert (report["kind"], report["version"]) == ("Simulation", 1)
    assert report["summary"] == {
        "nodes": 1,
        "pending": 1,
        "placed": 1,
        "left": 1,
        "preemptions": 1,
        "evicted": 1,
        "recreated": 1,
        "attempts": 3,
        "profiles": ["default-scheduler"],
    }
    assert report["placements"] == [
        {
            "pod": "default/big",
            "node": "n",
            "priority": 7,
            "attempts": 2,
            "afterPreemption": True,
        }
    ]
    assert report["preemptions"] == [
        {
            "pod": "default/big",
            "priority": 7,
            "node": "n",
            "victims": [
                {"pod": "default/low", "priority": 0, "recreatedAs": "default/low-again-1"}
            ],
            "budgetViolations": 0,
        }
    ]
    (left,) = report["left"]
    assert (left["pod"], left["verdict"], left["nominatedNode"]) == (
        "default/low-again-1",
        "Unschedulable",
        None,
    )
    before, after = report["utilization"]["before"], report["utilization"]["after"]
    assert before["resources"]["cpu"]["requested"] == 1000
    assert after["zones"]["a"]["resources"]["cpu"]["percent"] == 100.0
    (row,) = report["nodes"]
    assert (row["before"]["cpu"], row["after"]["cpu"], row["zone"]) == (1000, 2000, "a")


def test_many_placements_are_counted_by_node() -> None:
    documents = stream(node("n"), node("m"), workload("Job", "j", "1m", parallelism=40)).read()
    lines = kubesched("simulate", "-f", "-", stdin=documents).out.splitlines()
    assert "Placed (40) on 2 nodes:" in lines


def test_top_limits_lists() -> None:
    waiting = [pod(f"p{i}") for i in range(40)]
    documents = stream(*(node(f"n{i}", "1") for i in range(35)), *waiting).read()
    unlimited = kubesched("simulate", "-f", "-", "-o", "json", stdin=documents).json
    assert (len(unlimited["placements"]), len(unlimited["nodes"]), unlimited["omitted"]) == (
        35,
        35,
        {},
    )
    limited = kubesched("simulate", "-f", "-", "-o", "json", "--top", "3", stdin=documents).json
    assert limited["placements"] == unlimited["placements"][:3]
    assert (limited["nodes"], limited["left"]) == (unlimited["nodes"][:3], unlimited["left"][:3])
    assert limited["omitted"] == {"placements": 32, "left": 2, "nodes": 32}
    assert limited["summary"] == unlimited["summary"]
    text = kubesched("simulate", "-f", "-", stdin=documents).out
    assert "  and 5 more nodes (--top, or -o json)\n" in text
    assert "  n9 " not in text
    unlimited = kubesched("simulate", "-f", "-", "--top", "0", stdin=documents).out
    assert "more node" not in unlimited
    assert "  default/p34  n34" in unlimited


def test_two_configurations_are_compared_side_by_side() -> None:
    files = ["-f", SAMPLE_CLUSTER, "-f", str(WORKLOADS / "shop.yaml")]
    ran = kubesched("simulate", *files, "--compare", PACKED)
    assert ran.status == 0
    assert ran.out.startswith("6 pods placed differently.\n")
    header = next(line for line in ran.out.splitlines() if line.endswith("difference"))
    assert header.split() == ["default", "packed.yaml", "difference"]
    report = kubesched("simulate", *files, "--compare", PACKED, "-o", "json").json
    assert (report["kind"], report["names"]) == ("Comparison", ["default", "packed.yaml"])
    assert len(report["differences"]["moved"]) == 6
    assert [run["kind"] for run in report["runs"]] == ["Simulation", "Simulation"]


def test_top_limits_the_list_of_moved_pods() -> None:
    documents = stream(node("n"), node("m", "8"), *(pod(f"p{i}") for i in range(6))).read()
    options = ("-f", "-", "--compare", PACKED, "-o", "json")
    unlimited = kubesched("simulate", *options, stdin=documents).json
    limited = kubesched("simulate", *options, "--top", "1", stdin=documents).json
    moved = unlimited["differences"]["moved"]
    assert len(moved) > 1
    assert limited["differences"]["moved"] == moved[:1]
    assert limited["omitted"] == {"moved": len(moved) - 1}
    assert [len(run["placements"]) for run in limited["runs"]] == [1, 1]


def test_a_configuration_compared_with_itself_has_no_differences() -> None:
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, "--config", PACKED, "--compare", PACKED)
    assert ran.out.startswith("Both configurations place every pod on the same node.\n")
    assert ran.out.count("Preemptions (1):") == 1


@pytest.mark.parametrize("more", [[], ["--compare", PACKED]])
def test_a_page_is_written_to_a_file(tmp_path: Path, more: list[str]) -> None:
    page = tmp_path / "report.html"
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, *more, "-o", "html", "--output", str(page))
    assert (ran.status, ran.out) == (0, "")
    ElementTree.fromstring(page.read_text(encoding="utf-8"))


def test_many_names_fit_80_columns() -> None:
    names = [f"a-pod-with-a-long-name-{number}" for number in range(9)]
    ran = kubesched("simulate", "-f", "-", stdin=stream(*(pod(name) for name in names)).read())
    lines = [line for line in ran.out.splitlines() if "a-pod-with" in line]
    assert len(lines) > 1
    assert all(len(line) <= 80 and line.startswith("  default/") for line in lines)


def test_text_and_json_can_be_written_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run"
    for form in ("text", "json"):
        arguments = ["simulate", "-f", SAMPLE_CLUSTER, "-o", form]
        printed = kubesched(*arguments).out
        assert kubesched(*arguments, "--output", str(file)).out == ""
        assert file.read_text(encoding="utf-8") == printed


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "text"),
    [
        pytest.param(["-f", "-"], b"- 1", 1, "expected an object", id="not an object"),
        pytest.param(["-f", "none"], b"", 1, "none: No such file", id="no file"),
        pytest.param(["-f", "-", "--compare", "-"], b"", 2, "only once", id="stdin twice"),
        pytest.param(["-f", "-", "--config", "-"], b"", 2, "only once", id="stdin twice again"),
        pytest.param(["-f", "-", "--compare", "none"], b"", 1, "none: No such", id="no config"),
        pytest.param(["-f", "-", "-o", "pdf"], b"", 2, "pdf", id="an unknown format"),
        pytest.param(["-f", "-", "--output", "/none/x"], b"", 1, "/none/x: No", id="no folder"),
        pytest.param(
            ["-f", "none", "--output", "/none/x"],
            b"",
            1,
            "/none/x: No",
            id="an output error comes first",
        ),
        pytest.param(
            ["-f", "-", "--output", "json"],
            b"",
            2,
            "mean -o json?",
            id="a format instead of a file",
        ),
        pytest.param(["-f", "-", "--seed", "x"], b"", 2, "--seed", id="no number"),
        pytest.param(["-f", "-", "x"], b"", 2, "unexpected extra argument", id="an extra argument"),
    ],
)
def test_invalid_input_is_reported_in_one_line(
    arguments: list[str], stdin: bytes, status: int, text: str
) -> None:
    ran = kubesched("simulate", *arguments, stdin=stdin)
    assert (ran.status, ran.out) == (status, "")
    assert is_one_line(ran.err)
    assert text in ran.err


def test_an_error_names_the_invalid_configuration(tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("apiVersion: v1\nkind: Pod\n")
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, "--compare", str(config))
    assert (ran.status, ran.out) == (1, "")
    assert is_one_line(ran.err)
    assert ran.err.startswith(f"kubesched: {config}: ")


def test_no_pending_pods_are_no_error() -> None:
    ran = kubesched("simulate", "-f", "-", stdin=stream(node("n")).read())
    assert ran.status == 0
    assert ran.out.startswith("0 pending, 1 node: 0 pods placed, 0 unschedulable.\n")


def test_a_cluster_without_nodes_is_reported() -> None:
    ran = kubesched("simulate", "-f", "-", stdin=stream(pod("web")).read())
    assert (ran.status, ran.err.count("the files hold no node")) == (0, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**65) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
FIELDS = ("replicas", "selector", "template", "volumeClaimTemplates", "parallelism", "completions")


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["Deployment", "StatefulSet", "Job", "ReplicaSet", "ReplicationController"]),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3),
    st.dictionaries(st.sampled_from(["name", "namespace", "labels", "uid"]), JSON, max_size=2),
)
def test_no_workload_shows_a_traceback(
    kind: str, spec: dict[str, Any], metadata: dict[str, Any]
) -> None:
    document = workload(kind, "w", replicas=1)
    document["spec"] |= {k: v for k, v in spec.items() if not _is_large(v)}
    document["metadata"] |= metadata
    for command in ("simulate", "capacity"):
        ran = kubesched(command, "-f", "-", stdin=stream(node("n"), document).read())
        assert ran.status in (0, 1)
        assert ran.status == 0 or is_one_line(ran.err.splitlines(keepends=True)[-1])


def _is_large(value: Any) -> bool:
    """Return whether a number would create more pods than a test has time for."""
    return isinstance(value, int) and value > 100
