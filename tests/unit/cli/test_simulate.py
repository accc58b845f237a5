from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cli.running import ROOT, SAMPLE_CLUSTER, is_one_line, kubesched
from tests.unit.sim.small_clusters import node, pod, stream, workload

WORKLOADS = ROOT / "examples" / "workloads"
PACKED = str(WORKLOADS / "config" / "packed.yaml")


def test_the_sample_cluster_is_scheduled_in_order_of_priority() -> None:
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER)
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:2] == [
        "2 waiting, 6 nodes: 2 pods placed, 0 left, 1 evicted to make room, 0 of them",
        "  made anew.",
    ]
    assert "  default/trainer-0  c2-gpu  after evictions" in lines
    assert "  default/trainer-0 (priority 1000) takes c2-gpu" in lines
    assert "    evicted: default/notebook-0 (priority 0), gone" in lines


def test_the_sample_workloads_are_made_and_scheduled() -> None:
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, "-f", str(WORKLOADS), "-o", "json")
    assert ran.err == (
        "note: pods made: 4 of Job default/nightly, 3 of StatefulSet default/queue, "
        "6 of Deployment default/shop, 3 of Deployment default/checkout\n"
    )
    summary = ran.json["summary"]
    assert summary["pending"] == 2 + 4 + 3 + 6 + 3
    assert summary["placed"] + summary["left"] == summary["pending"] + summary["recreated"]
    assert {one["pod"] for one in ran.json["placements"]} >= {"default/trainer-0", "default/web-7"}


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
    ("asked", "shown"),
    [
        pytest.param([], 1000, id="a thousand if nothing is said"),
        pytest.param(["--top", "3"], 3, id="so many"),
        pytest.param(["--top", "0"], 1001, id="all"),
    ],
)
def test_top_counts_in_a_page(asked: list[str], shown: int) -> None:
    documents = stream(node("n", "2k", pods="2k"), *(pod(f"p{i}") for i in range(1001))).read()
    page = kubesched("simulate", "-f", "-", "-o", "html", *asked, stdin=documents).out
    assert page.count("<td>default/p") == shown


def test_two_runs_that_do_not_differ_have_no_column_for_it(tmp_path: Path) -> None:
    config = tmp_path / "same.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    documents = stream(node("n"), pod("p")).read()
    ran = kubesched("simulate", "-f", "-", "--compare", str(config), stdin=documents)
    lines = ran.out.splitlines()
    assert lines[lines.index("Side by side:") + 1].split() == ["default", "same.yaml"]


def test_a_configuration_compared_with_itself_is_told() -> None:
    beside = str(Path(PACKED).parent / ".." / "config" / "packed.yaml")
    documents = stream(node("n")).read()
    ran = kubesched("simulate", "-f", "-", "--config", PACKED, "--compare", beside, stdin=documents)
    assert ran.err == f"note: {beside} is compared with itself: nothing can differ\n"


def test_what_pods_take_and_no_node_offers_is_shown() -> None:
    asks = {"requests": {"example.com/fpga": "2"}}
    running = pod("p", on="n", containers=[{"name": "c", "resources": asks}])
    documents = stream(node("n"), running).read()
    lines = kubesched("simulate", "-f", "-", stdin=documents).out.splitlines()
    assert "  example.com/fpga    0.0%   0.0%         2 of 0" in lines


def test_leftovers_stand_under_the_reason_they_share() -> None:
    documents = stream(node("n", "1"), *(pod(f"p{i}") for i in range(12))).read()
    lines = kubesched("simulate", "-f", "-", stdin=documents).out.splitlines()
    assert lines[0] == "12 waiting, 1 node: 1 pod placed, 11 left."
    place = lines.index("Left (11):")
    assert lines[place + 2] == "  default/p7, default/p8 and 3 more"
    assert lines[place + 3].startswith("    Unschedulable: 0/1 nodes are available: 1 Insufficient")


def test_json_is_what_the_documentation_says() -> None:
    documents = stream(
        node("n", "2", zone="a"),
        pod("low", on="n", owner="ReplicaSet/low"),
        pod("big", "2", priority=7),
    ).read()
    answer = kubesched("simulate", "-f", "-", "-o", "json", stdin=documents).json
    assert (answer["kind"], answer["version"]) == ("Simulation", 1)
    assert answer["summary"] == {
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
    assert answer["placements"] == [
        {
            "pod": "default/big",
            "node": "n",
            "priority": 7,
            "attempts": 2,
            "afterPreemption": True,
        }
    ]
    assert answer["preemptions"] == [
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
    (left,) = answer["left"]
    assert (left["pod"], left["verdict"], left["nominatedNode"]) == (
        "default/low-again-1",
        "Unschedulable",
        None,
    )
    before, after = answer["utilisation"]["before"], answer["utilisation"]["after"]
    assert before["resources"]["cpu"]["requested"] == 1000
    assert after["zones"]["a"]["resources"]["cpu"]["percent"] == 100.0
    (row,) = answer["nodes"]
    assert (row["before"]["cpu"], row["after"]["cpu"], row["zone"]) == (1000, 2000, "a")


def test_many_placements_are_summed_up_by_node() -> None:
    documents = stream(node("n"), node("m"), workload("Job", "j", "1m", parallelism=40)).read()
    lines = kubesched("simulate", "-f", "-", stdin=documents).out.splitlines()
    assert "Placed (40) on 2 nodes:" in lines


def test_lists_are_as_long_as_one_asks() -> None:
    waiting = [pod(f"p{i}") for i in range(40)]
    documents = stream(*(node(f"n{i}", "1") for i in range(35)), *waiting).read()
    whole = kubesched("simulate", "-f", "-", "-o", "json", stdin=documents).json
    assert (len(whole["placements"]), len(whole["nodes"]), whole["omitted"]) == (35, 35, {})
    few = kubesched("simulate", "-f", "-", "-o", "json", "--top", "3", stdin=documents).json
    assert few["placements"] == whole["placements"][:3]
    assert (few["nodes"], few["left"]) == (whole["nodes"][:3], whole["left"][:3])
    assert few["omitted"] == {"placements": 32, "left": 2, "nodes": 32}
    assert few["summary"] == whole["summary"]
    text = kubesched("simulate", "-f", "-", stdin=documents).out
    assert "  and 5 more nodes (--top, or -o json)\n" in text
    assert "  n9 " not in text
    everything = kubesched("simulate", "-f", "-", "--top", "0", stdin=documents).out
    assert "more node" not in everything
    assert "  default/p34  n34" in everything


def test_two_configurations_stand_side_by_side() -> None:
    files = ["-f", SAMPLE_CLUSTER, "-f", str(WORKLOADS / "shop.yaml")]
    ran = kubesched("simulate", *files, "--compare", PACKED)
    assert ran.status == 0
    assert ran.out.startswith("6 pods ended elsewhere.\n")
    header = next(line for line in ran.out.splitlines() if line.endswith("difference"))
    assert header.split() == ["default", "packed.yaml", "difference"]
    answer = kubesched("simulate", *files, "--compare", PACKED, "-o", "json").json
    assert (answer["kind"], answer["names"]) == ("Comparison", ["default", "packed.yaml"])
    assert len(answer["differences"]["moved"]) == 6
    assert [run["kind"] for run in answer["runs"]] == ["Simulation", "Simulation"]


def test_lists_of_what_differs_are_as_long_as_one_asks() -> None:
    documents = stream(node("n"), node("m", "8"), *(pod(f"p{i}") for i in range(6))).read()
    asked = ("-f", "-", "--compare", PACKED, "-o", "json")
    whole = kubesched("simulate", *asked, stdin=documents).json
    few = kubesched("simulate", *asked, "--top", "1", stdin=documents).json
    moved = whole["differences"]["moved"]
    assert len(moved) > 1
    assert few["differences"]["moved"] == moved[:1]
    assert few["omitted"] == {"moved": len(moved) - 1}
    assert [len(run["placements"]) for run in few["runs"]] == [1, 1]


def test_a_configuration_compared_with_itself_differs_in_nothing() -> None:
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, "--config", PACKED, "--compare", PACKED)
    assert ran.out.startswith("Both configurations put every pod on the same node.\n")
    assert ran.out.count("Preemptions (1):") == 1


@pytest.mark.parametrize("more", [[], ["--compare", PACKED]])
def test_a_page_is_written_where_one_asks(tmp_path: Path, more: list[str]) -> None:
    page = tmp_path / "report.html"
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, *more, "-o", "html", "--output", str(page))
    assert (ran.status, ran.out) == (0, "")
    ElementTree.fromstring(page.read_text(encoding="utf-8"))


def test_many_names_keep_to_80_columns() -> None:
    names = [f"a-pod-with-a-long-name-{number}" for number in range(9)]
    ran = kubesched("simulate", "-f", "-", stdin=stream(*(pod(name) for name in names)).read())
    told = [line for line in ran.out.splitlines() if "a-pod-with" in line]
    assert len(told) > 1
    assert all(len(line) <= 80 and line.startswith("  default/") for line in told)


def test_any_form_can_be_written_to_a_file(tmp_path: Path) -> None:
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
        pytest.param(["-f", "-", "-o", "pdf"], b"", 2, "pdf", id="no such form"),
        pytest.param(["-f", "-", "--output", "/none/x"], b"", 1, "/none/x: No", id="no folder"),
        pytest.param(["-f", "none", "--output", "/none/x"], b"", 1, "/none/x: No", id="told first"),
        pytest.param(["-f", "-", "--output", "json"], b"", 2, "mean -o json?", id="form for file"),
        pytest.param(["-f", "-", "--seed", "x"], b"", 2, "--seed", id="no number"),
        pytest.param(["-f", "-", "x"], b"", 2, "unexpected extra argument", id="too much"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    arguments: list[str], stdin: bytes, status: int, text: str
) -> None:
    ran = kubesched("simulate", *arguments, stdin=stdin)
    assert (ran.status, ran.out) == (status, "")
    assert is_one_line(ran.err)
    assert text in ran.err


def test_a_faulty_configuration_is_named(tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("apiVersion: v1\nkind: Pod\n")
    ran = kubesched("simulate", "-f", SAMPLE_CLUSTER, "--compare", str(config))
    assert (ran.status, ran.out) == (1, "")
    assert is_one_line(ran.err)
    assert ran.err.startswith(f"kubesched: {config}: ")


def test_nothing_to_do_is_no_error() -> None:
    ran = kubesched("simulate", "-f", "-", stdin=stream(node("n")).read())
    assert ran.status == 0
    assert ran.out.startswith("0 waiting, 1 node: 0 pods placed, 0 left.\n")


def test_a_cluster_without_nodes_is_told() -> None:
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
    """Return whether a number would ask for more pods than a test has time for."""
    return isinstance(value, int) and value > 100
