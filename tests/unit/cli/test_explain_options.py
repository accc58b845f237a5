"""Options of `explain`: one node, another configuration, JSON and YAML."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubesched as library
from tests.unit.cli.running import EXAMPLE_PLUGINS, SAMPLE_CLUSTER, Run, is_one_line, kubesched

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: %s
"""
NO_TAINTS = "{filter: {disabled: [{name: TaintToleration}]}}"
ONLY_IMAGES = (
    "{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 1}]},"
    " preScore: {disabled: [{name: '*'}]}}"
)
KEYS = [
    "version",
    "pod",
    "profile",
    "outcome",
    "held",
    "node",
    "why",
    "nodeCount",
    "fitCount",
    "total",
    "tiedCount",
    "tied",
    "runnerUp",
    "ranking",
    "rankingLeftOut",
    "rejectedCount",
    "unvisitedCount",
    "rejections",
    "rejectionsLeftOut",
    "rejectedWhole",
    "preemption",
    "event",
    "changes",
]


def explained(*arguments: str, pod: str = "web-7") -> Run:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, pod, *arguments)
    assert ran.status == 0, ran.err
    return ran


def decided(pod: str = "web-7") -> dict[str, Any]:
    decision: dict[str, Any] = explained("-o", "decision", pod=pod).json
    return decision


def many_nodes(count: int) -> bytes:
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"worker-{number:04}.example.com"},
            "spec": {"unschedulable": number % 10 == 0},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        for number in range(count)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}]},
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, pod]}).encode()


# -- objects --------------------------------------------------------------------------------------


def test_yaml_and_json_are_the_same_object() -> None:
    as_yaml = yaml.safe_load(explained("-o", "yaml").out)
    assert as_yaml == explained("-o", "json").json
    assert list(as_yaml) == KEYS


def test_the_object_equals_the_result_of_the_library() -> None:
    explanation = library.explain("default/web-7", SAMPLE_CLUSTER)
    report = explained("-o", "json").json
    assert (report["node"], report["total"], report["event"]["message"]) == (
        explanation.node,
        explanation.total,
        explanation.event.message,
    )
    assert explanation.changes is not None
    assert [change["text"] for change in report["changes"]] == [c.text for c in explanation.changes]


def test_the_object_agrees_with_the_decision() -> None:
    report, decision = explained("-o", "json").json, decided()
    assert report["node"] in decision["best"]
    for row in report["ranking"]:
        assert {**row["scores"], "total": row["total"]} == decision["scores"][row["node"]]
    rejected = [node for group in report["rejections"] for node in group["nodes"]]
    assert sorted(rejected) == list(decision["rejected"])


def test_the_object_stays_small() -> None:
    cluster = many_nodes(1000)
    ran = kubesched("explain", "-f", "-", "-o", "json", stdin=cluster)
    assert ran.json["nodeCount"] == 1000
    assert len(ran.json["ranking"]) == 10
    assert len(ran.out) < 10_000
    unlimited = kubesched("explain", "-f", "-", "-o", "json", "--top", "0", stdin=cluster)
    assert len(unlimited.json["ranking"]) == 900


def test_no_changes_omits_changes() -> None:
    assert explained("-o", "yaml", "--no-changes").out.endswith("changes: null\n")
    assert "Changes that would" not in explained("--no-changes", pod="trainer-0").out
    assert "Changes that would make the pod fit:" in explained(pod="trainer-0").out


def test_changes_for_more_nodes_are_shown_for_a_placed_pod_on_request() -> None:
    assert "Changes that would" not in explained().out
    lines = explained("--changes").out.splitlines()
    assert lines[lines.index("Changes that would make more nodes fit:") + 1 :] == [
        "  fits on b2-draining once uncordoned",
        "  fits on c2-gpu with a toleration of nvidia.com/gpu=present:NoSchedule",
    ]


def test_omitted_reasons_are_counted() -> None:
    requests = {f"example.com/r{number:02}": "1" for number in range(40)}
    container = {"name": "c", "resources": {"limits": requests, "requests": requests}}
    cluster = json.loads(many_nodes(1))
    node, pod = cluster["items"]
    node["spec"] = {}
    pod["spec"]["containers"] = [container]
    files = json.dumps(cluster).encode()
    (rejection,) = kubesched("explain", "-f", "-", "-o", "json", stdin=files).json["rejections"]
    assert (len(rejection["reasons"]), rejection["reasonsLeftOut"]) == (20, 20)
    text = " ".join(kubesched("explain", "-f", "-", stdin=files).out.split())
    assert "Insufficient example.com/r19 and 20 more" in text


# -- rows and columns -----------------------------------------------------------------------------


def test_the_ranking_is_as_long_as_requested() -> None:
    decision = decided()
    lines = explained("--top", "2").out.splitlines()
    assert "and 2 more (--top 0 shows all)" in lines
    shown = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in ALL]
    ordered = sorted(decision["scores"], key=lambda node: -decision["scores"][node]["total"])
    assert shown[:2] == ordered[:2]


ALL = {"a1", "a2-spot", "b1", "c1"}


def test_wide_has_a_column_for_every_plugin() -> None:
    row = next(line for line in explained("--wide").out.splitlines() if line.startswith("  c1 "))
    assert sorted(map(int, row.split()[1:])) == sorted(decided()["scores"]["c1"].values())


# -- one node -------------------------------------------------------------------------------------


def test_a_fitting_node_is_compared_with_the_chosen_one() -> None:
    scores = decided()["scores"]
    report = explained("--node", "a1", "-o", "json").json
    assert (report["fits"], report["chosen"], report["rejected"]) == (True, "c1", None)
    assert report["total"] == scores["a1"]["total"]
    assert report["behind"] == scores["c1"]["total"] - scores["a1"]["total"]
    place = 1 + sum(score["total"] > scores["a1"]["total"] for score in scores.values())
    assert report["place"] == place
    by_plugin = {score["plugin"]: (score["node"], score["chosen"]) for score in report["scores"]}
    assert by_plugin == {p: (scores["a1"][p], scores["c1"][p]) for p in by_plugin}
    assert set(by_plugin) == set(scores["a1"]) - {"total"}
    text = explained("--node", "a1").out
    assert text.startswith(
        f"default/web-7 fits on a1: rank {place} of 4 with {report['total']} points; "
        f"the chosen node c1 has {report['behind']} more.\n"
    )


def test_a_rejected_node_has_every_filters_verdict() -> None:
    report = explained("--node", "b2-draining", "-o", "json").json
    assert report["rejected"]["plugin"] == "NodeUnschedulable"
    rejecting = [v["plugin"] for v in report["verdicts"] if v["reasons"]]
    # The first rejection counts; the taint of a cordoned node would be the next.
    assert rejecting == ["NodeUnschedulable", "TaintToleration"]
    assert report["changes"][0]["kind"] == "uncordon"
    text = explained("--node", "b2-draining").out
    assert text.startswith(
        "default/web-7 does not fit on b2-draining: NodeUnschedulable rejects it.\n"
    )
    assert "  TaintToleration       rejects: node(s) had untolerated taint(s)\n" in text
    assert "  fits on b2-draining once uncordoned\n" in text


def test_no_changes_omits_changes_for_a_node() -> None:
    assert "Changes that would make the pod fit:" in explained("--node", "b2-draining").out
    assert "Changes that would" not in explained("--node", "b2-draining", "--no-changes").out
    report = explained("--node", "b2-draining", "--no-changes", "-o", "json").json
    assert report["changes"] is None


def test_room_is_reported_with_the_missing_amount() -> None:
    report = explained("--node", "a1", "-o", "json", pod="trainer-0").json
    room = {entry["resource"]: entry for entry in report["room"]}
    assert room["nvidia.com/gpu"] == {
        "resource": "nvidia.com/gpu",
        "requested": 1,
        "free": 0,
        "nominated": 0,
        "allocatable": 0,
    }
    assert room["cpu"]["allocatable"] == 8000
    assert room["cpu"]["requested"] > room["cpu"]["free"]
    assert "nominated" not in explained("--node", "a1", pod="trainer-0").out


ROOM = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 2, memory: 1Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: old}
spec:
  nodeName: a
  containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 2Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: first}
spec: {priority: 10, containers: [{name: c, image: i, resources: {requests: {cpu: 700m}}}]}
status: {nominatedNodeName: a}
---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 0}}}]}
"""


def test_nominated_room_is_missing_and_unrequested_resources_are_not() -> None:
    text = kubesched("explain", "-f", "-", "new", "--node", "a", stdin=ROOM.encode()).out
    _, _, room = text.partition("Resources:\n")
    table, _, changes = room.partition("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["resource", "requested", "free", "nominated", "allocatable", "missing"],
        ["cpu", "500m", "1", "700m", "2", "200m"],
        ["memory", "0", "-1Gi", "0", "1Gi"],
        ["pods", "1", "9", "1", "10"],
    ]
    assert "lacks 200m cpu on a\n" in changes


def test_free_room_is_rounded_down() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "4", "memory": "7925956Ki", "pods": "10"}},
    }
    container = {"name": "c", "resources": {"requests": {"memory": "7.6Gi"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container]},
    }
    files = json.dumps([node, pod]).encode()
    lines = kubesched("explain", "-f", "-", "--node", "a", stdin=files).out.splitlines()
    rows = [line.split() for line in lines]
    at = rows.index(["resource", "requested", "free", "allocatable", "missing"])
    assert ["memory", "7.6Gi", "7.55Gi", "7.55Gi", "42.21Mi"] in rows[at:]


def test_the_chosen_node_is_reported_as_chosen() -> None:
    assert explained("--node", "c1").out.startswith("default/web-7 goes to c1.\n")


def test_an_unknown_node_is_an_error_in_one_line() -> None:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "web-7", "--node", "nowhere")
    assert (ran.status, ran.err) == (
        1,
        (
            "kubesched: node nowhere not found; the cluster has a1, a2-spot, b1, b2-draining, c1, "
            "c2-gpu\n"
        ),
    )


# -- two configurations ---------------------------------------------------------------------------


@pytest.fixture
def no_taints(tmp_path: Path) -> str:
    return written(tmp_path, NO_TAINTS)


def written(tmp_path: Path, plugins: str) -> str:
    file = tmp_path / "other.yaml"
    file.write_text(CONFIG % plugins)
    return str(file)


def test_the_same_configuration_changes_nothing(tmp_path: Path) -> None:
    other = written(tmp_path, "{}")
    report = explained("--compare", other, "-o", "json").json
    assert report["same"]
    assert (report["verdicts"], report["scores"]) == ([], [])
    assert report["first"] == report["second"]
    text = explained("--compare", other).out
    assert text.startswith("default/web-7: the two configurations make the same decision.\n")
    assert "All verdicts and the score differences of the best nodes are the same.\n" in text


def test_verdicts_that_differ_are_reported_with_their_plugin(no_taints: str) -> None:
    report = explained("--compare", no_taints, "-o", "json").json
    assert report["verdicts"] == [
        {
            "rejectedUnder": 1,
            "plugin": "TaintToleration",
            "reasons": ["node(s) had untolerated taint(s)"],
            "count": 1,
            "nodes": ["c2-gpu"],
        }
    ]
    text = " ".join(explained("--compare", no_taints).out.split())
    assert (
        "1 node rejected only under the default configuration: TaintToleration: "
        "node(s) had untolerated taint(s): c2-gpu"
    ) in text


def test_scores_that_differ_are_reported_with_their_plugin(tmp_path: Path) -> None:
    other = written(tmp_path, ONLY_IMAGES)
    report = explained("--compare", other, "-o", "json").json
    scores = decided()["scores"]
    first, second = report["between"]
    assert not report["same"]
    assert (first, second) == ("c1", report["second"]["node"])
    # Only nodes of zone a have the image.
    assert second in ("a1", "a2-spot")
    for move in report["scores"]:
        plugin = move["plugin"]
        assert move["first"] == scores[first][plugin] - scores[second][plugin]
        assert move["second"] == 0, "only ImageLocality scores, and its points are the same"
        assert move["moved"] == move["first"] - move["second"]
    assert "ImageLocality" not in {move["plugin"] for move in report["scores"]}
    text = explained("--compare", other).out
    assert text.startswith("default/web-7: the two configurations make different decisions.\n")
    assert f"Lead of {first} over {second} by plugin, where it differs:\n" in text


def test_json_has_changes_for_both_configurations(no_taints: str) -> None:
    report = explained("--compare", no_taints, "-o", "json").json
    opened = [
        [change["nodes"] for change in report[side]["changes"]] for side in ("first", "second")
    ]
    # Under the second, the tainted node fits already.
    assert [["b2-draining"] in nodes for nodes in opened] == [True, True]
    assert [["c2-gpu"] in nodes for nodes in opened] == [True, False]
    report = explained("--compare", no_taints, "-o", "json", "--no-changes").json
    assert (report["first"]["changes"], report["second"]["changes"]) == (None, None)


def test_changes_are_shown_for_both_configurations_on_request(no_taints: str) -> None:
    assert "Changes that would" not in explained("--compare", no_taints).out
    lines = explained("--compare", no_taints, "--changes").out.splitlines()
    first = lines.index("Changes that would make more nodes fit under the default configuration:")
    assert lines[first + 1 : first + 3] == [
        "  fits on b2-draining once uncordoned",
        "  fits on c2-gpu with a toleration of nvidia.com/gpu=present:NoSchedule",
    ]
    text = " ".join(" ".join(lines[first + 3 :]).split())
    assert text == (
        f"Changes that would make more nodes fit under {no_taints}: "
        "fits on b2-draining once uncordoned"
    )


def test_a_configuration_may_be_compared_with_one_without_the_plugin(tmp_path: Path) -> None:
    other = written(tmp_path, "{}")
    plugin = f"{EXAMPLE_PLUGINS}/not_on_spot.py:NotOnSpot"
    report = explained("--plugin", plugin, "--compare", other, "-o", "json").json
    assert [(v["rejectedUnder"], v["plugin"], v["nodes"]) for v in report["verdicts"]] == [
        (1, "NotOnSpot", ["a2-spot"])
    ]


def test_an_error_names_the_file_without_the_profile(tmp_path: Path) -> None:
    other = written(tmp_path, "{}")
    Path(other).write_text(Path(other).read_text().replace("default-scheduler", "foo"))
    complaint = (
        f"kubesched: {other}: pod default/web-7: no profile has the scheduler name "
        "'default-scheduler'; the configuration has 'foo'\n"
    )
    for option in ("--compare", "--config"):
        ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "web-7", option, other)
        assert (ran.status, ran.err) == (1, complaint)


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        pytest.param(["--top", "-1"], 2, "--top", id="a negative number"),
        pytest.param(["--node", "a1", "--compare", "x"], 2, "are mutually exclusive", id="both"),
        pytest.param(
            ["--node", "a1", "-o", "decision"],
            2,
            "-o decision cannot be combined",
            id="decision of a node",
        ),
        pytest.param(
            ["--changes", "-o", "decision"],
            2,
            "-o decision cannot be combined",
            id="decision with changes",
        ),
        pytest.param(["--compare", "-", "--config", "-"], 2, "only once", id="stdin twice"),
        pytest.param(["--compare", "no/such"], 1, "no/such: No such file", id="nothing to compare"),
    ],
)
def test_conflicting_options_are_reported_in_one_line(
    arguments: list[str], status: int, problem: str
) -> None:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "web-7", *arguments)
    assert ran.status == status
    assert is_one_line(ran.err)
    assert problem in ran.err
    assert ran.out == ""
