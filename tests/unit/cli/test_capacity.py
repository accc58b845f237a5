from pathlib import Path

import pytest

from tests.unit.cli.running import ROOT, SAMPLE_CLUSTER, is_one_line, kubesched
from tests.unit.simulate.small_clusters import node, pod, stream, workload

WORKLOADS = ROOT / "examples" / "workloads"
NOTHING = stream().read()


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_bytes(stream(node("n", "4"), node("m", "2"), pod("x", on="n")).read())
    return str(file)


def test_the_output_has_the_count_the_nodes_and_the_reason(cluster: str) -> None:
    ran = kubesched("capacity", "-f", cluster, "-f", "-", stdin=stream(pod("p")).read())
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "Pod default/p: 5 copies fit on 2 of 2 nodes."
    assert lines[1].startswith(
        "The next copy does not fit (Unschedulable): 0/2 nodes are available: 2 Insufficient cpu."
    )
    assert "      2  Insufficient cpu" in lines
    assert "  n          3  Insufficient cpu (NodeResourcesFit)" in lines
    assert "  m          2  Insufficient cpu (NodeResourcesFit)" in lines


def test_templates_are_counted_in_turn_and_in_total(cluster: str) -> None:
    # 3 and 2 cpu are free. a (1) and b (2) in turn: b goes where most is left.
    both = stream(pod("a"), pod("b", "2")).read()
    ran = kubesched("capacity", "-f", cluster, "-f", "-", "-o", "json", stdin=both)
    assert [template["template"] for template in ran.json["templates"]] == [
        "Pod default/a",
        "Pod default/b",
    ]
    assert ran.json["fit"] == sum(template["fit"] for template in ran.json["templates"])
    text = kubesched("capacity", "-f", cluster, "-f", "-", stdin=both).out
    assert f"Total: {ran.json['fit']} copies fit." in text


def test_json_matches_the_documentation(cluster: str) -> None:
    ran = kubesched(
        "capacity", "-f", cluster, "-f", "-", "-o", "json", stdin=stream(pod("p")).read()
    )
    report = ran.json
    assert (report["kind"], report["version"], report["nodes"]) == ("Capacity", 1, 2)
    (fit,) = report["templates"]
    assert (fit["fit"], fit["desired"], fit["byNode"]) == (5, None, {"m": 2, "n": 3})
    assert fit["stop"]["reasons"] == {"Insufficient cpu": 2}
    assert fit["stop"]["byNode"]["n"] == {
        "plugin": "NodeResourcesFit",
        "code": "Unschedulable",
        "reasons": ["Insufficient cpu"],
    }
    cpu = report["utilization"]["after"]["resources"]["cpu"]
    assert cpu == {"requested": 6000, "allocatable": 6000, "percent": 100.0}


def test_a_number_of_copies_can_be_requested(cluster: str) -> None:
    template = stream(workload("Deployment", "web")).read()
    ran = kubesched("capacity", "-f", cluster, "-f", "-", "--count", "4", stdin=template)
    assert ran.out.startswith("Deployment default/web: 4 of 4 copies fit on 2 of 2 nodes.\n")
    assert "does not fit" not in ran.out


def test_top_limits_the_nodes_of_a_table(tmp_path: Path) -> None:
    many = stream(*(node(f"n{i:02}", "1") for i in range(30)), pod("p")).read()
    ran = kubesched("capacity", "-f", "-", "--top", "3", "p", stdin=many)
    assert "  and 27 more nodes (--top, or -o json)" in ran.out.splitlines()
    unlimited = kubesched("capacity", "-f", "-", "--top", "0", "p", stdin=many)
    assert sum(line.startswith("  n") for line in unlimited.out.splitlines()) == 32


def test_top_limits_the_nodes_in_json(cluster: str) -> None:
    arguments = ("capacity", "-f", cluster, "-f", "-", "-o", "json", "--top", "1")
    (fit,) = kubesched(*arguments, stdin=stream(pod("p")).read()).json["templates"]
    assert (fit["fit"], fit["byNode"]) == (5, {"n": 3})
    assert len(fit["stop"]["byNode"]) == 1
    assert fit["omitted"] == {"byNode": 1, "stop.byNode": 1}


def test_a_daemon_set_gets_one_copy_on_each_node(tmp_path: Path) -> None:
    tainted = node("tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    running = pod("x", on="served", owner="DaemonSet/agent")
    nodes = [node("large"), node("small", "1"), node("served"), tainted]
    file = tmp_path / "cluster.json"
    file.write_bytes(stream(*nodes, running).read())
    template = stream(workload("DaemonSet", "agent", "2")).read()
    lines = kubesched("capacity", "-f", str(file), "-f", "-", stdin=template).out.splitlines()
    assert lines[0] == "DaemonSet default/agent: 1 of 2 copies fit on 1 of 4 nodes."
    assert lines[1:3] == [
        "One copy per node: 2 of 4 nodes lack a pod, 1 have one, 1 excluded by node",
        "  selector, affinity or taints.",
    ]
    assert lines[3].startswith("The first copy that does not fit (Unschedulable): 0/4 nodes are")
    assert "  small       0  Insufficient cpu (NodeResourcesFit)" in lines
    assert "      1  Insufficient cpu" in lines


def test_a_template_may_be_a_pod_of_the_sample_cluster() -> None:
    ran = kubesched("capacity", "-f", SAMPLE_CLUSTER, "web-7")
    assert ran.out.startswith("Pod default/web-7: 16 copies fit on 4 of 6 nodes.\n")
    ran = kubesched("capacity", "-f", SAMPLE_CLUSTER, "-f", str(WORKLOADS / "queue.yaml"))
    assert ran.out.startswith("StatefulSet default/queue: 2 copies fit on 2 of 6 nodes.\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "text"),
    [
        pytest.param(["-f", "-"], b"{", 1, "standard input: ", id="not readable"),
        pytest.param(["-f", "none.yaml"], b"", 1, "none.yaml: No such file", id="no file"),
        pytest.param(["-f", "-"], NOTHING, 1, "no pod template", id="nothing"),
        pytest.param(["-f", "-", "x"], NOTHING, 1, "no pod or workload", id="no such template"),
        pytest.param(["-f", "-", "--config", "-"], b"", 2, "only once", id="stdin twice"),
        pytest.param(["-f", "-", "--config", "none"], b"", 1, "none: No such", id="no config"),
        pytest.param(["-f", "-", "--count", "0"], b"", 2, "--count", id="no copies"),
        pytest.param([], b"", 2, "-f", id="no files"),
        pytest.param(["-f", "-", "--plugin", "nowhere:X"], b"", 2, "--plugin", id="no plugin"),
    ],
)
def test_invalid_input_is_reported_in_one_line(
    arguments: list[str], stdin: bytes, status: int, text: str
) -> None:
    ran = kubesched("capacity", *arguments, stdin=stdin)
    assert (ran.status, ran.out) == (status, "")
    assert is_one_line(ran.err)
    assert text in ran.err


def test_a_failing_plugin_stops_the_next_copy(tmp_path: Path, cluster: str) -> None:
    plugin = tmp_path / "bad.py"
    plugin.write_text(
        "class Bad:\n"
        "    name = 'Bad'\n"
        "    def filter(self, state, pod, node):\n"
        "        raise RuntimeError('broken')\n"
    )
    template = stream(pod("p")).read()
    ran = kubesched(
        "capacity", "-f", cluster, "-f", "-", "--plugin", f"{plugin}:Bad", stdin=template
    )
    assert ran.status == 0
    assert "(Error): " in ran.out
    assert "broken" in ran.out


def test_tables_fit_80_columns() -> None:
    ran = kubesched("capacity", "-f", SAMPLE_CLUSTER, "-f", str(WORKLOADS))
    event = "The next copy does not fit"
    assert max(len(line) for line in ran.out.splitlines() if not line.startswith(event)) <= 80
    assert "                       (VolumeBinding)" in ran.out.splitlines()
