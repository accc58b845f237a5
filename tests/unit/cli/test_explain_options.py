"""What `explain` shows on request: one node, another configuration, objects for machines."""

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
    "refusedCount",
    "unvisitedCount",
    "refusals",
    "refusalsLeftOut",
    "refusedWhole",
    "preemption",
    "event",
    "changes",
]


def explained(*arguments: str, pod: str = "web-7") -> Run:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, pod, *arguments)
    assert ran.status == 0, ran.err
    return ran


def decided(pod: str = "web-7") -> dict[str, Any]:
    found: dict[str, Any] = explained("-o", "decision", pod=pod).json
    return found


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


def test_the_object_is_what_the_library_returns() -> None:
    found = library.explain("default/web-7", SAMPLE_CLUSTER)
    told = explained("-o", "json").json
    assert (told["node"], told["total"], told["event"]["message"]) == (
        found.node,
        found.total,
        found.event.message,
    )
    assert found.changes is not None
    assert [change["text"] for change in told["changes"]] == [c.text for c in found.changes]


def test_the_object_agrees_with_the_decision() -> None:
    told, decision = explained("-o", "json").json, decided()
    assert told["node"] in decision["best"]
    for row in told["ranking"]:
        assert {**row["scores"], "total": row["total"]} == decision["scores"][row["node"]]
    refused = [node for group in told["refusals"] for node in group["nodes"]]
    assert sorted(refused) == list(decision["rejected"])


def test_the_object_stays_small() -> None:
    cluster = many_nodes(1000)
    ran = kubesched("explain", "-f", "-", "-o", "json", stdin=cluster)
    assert ran.json["nodeCount"] == 1000
    assert len(ran.json["ranking"]) == 10
    assert len(ran.out) < 10_000
    everything = kubesched("explain", "-f", "-", "-o", "json", "--top", "0", stdin=cluster)
    assert len(everything.json["ranking"]) == 900


def test_changes_are_left_out_on_request() -> None:
    assert explained("-o", "yaml", "--no-changes").out.endswith("changes: null\n")
    assert "What would" not in explained("--no-changes", pod="trainer-0").out
    assert "What would have to change:" in explained(pod="trainer-0").out


def test_a_placed_pod_is_told_of_more_nodes_on_request() -> None:
    assert "What would" not in explained().out
    lines = explained("--changes").out.splitlines()
    assert lines[lines.index("What would open more nodes:") + 1 :] == [
        "  fits on b2-draining once uncordoned",
        "  fits on c2-gpu with a toleration of nvidia.com/gpu=present:NoSchedule",
    ]


def test_reasons_that_are_left_out_are_counted() -> None:
    requests = {f"example.com/r{number:02}": "1" for number in range(40)}
    container = {"name": "c", "resources": {"limits": requests, "requests": requests}}
    cluster = json.loads(many_nodes(1))
    node, pod = cluster["items"]
    node["spec"] = {}
    pod["spec"]["containers"] = [container]
    files = json.dumps(cluster).encode()
    (refusal,) = kubesched("explain", "-f", "-", "-o", "json", stdin=files).json["refusals"]
    assert (len(refusal["reasons"]), refusal["reasonsLeftOut"]) == (20, 20)
    text = " ".join(kubesched("explain", "-f", "-", stdin=files).out.split())
    assert "Insufficient example.com/r19 and 20 more" in text


# -- rows and columns -----------------------------------------------------------------------------


def test_the_ranking_is_as_long_as_asked_for() -> None:
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


def test_a_fitting_node_is_set_beside_the_chosen_one() -> None:
    scores = decided()["scores"]
    told = explained("--node", "a1", "-o", "json").json
    assert (told["fits"], told["chosen"], told["refused"]) == (True, "c1", None)
    assert told["total"] == scores["a1"]["total"]
    assert told["behind"] == scores["c1"]["total"] - scores["a1"]["total"]
    place = 1 + sum(one["total"] > scores["a1"]["total"] for one in scores.values())
    assert told["place"] == place
    by_plugin = {one["plugin"]: (one["node"], one["chosen"]) for one in told["scores"]}
    assert by_plugin == {p: (scores["a1"][p], scores["c1"][p]) for p in by_plugin}
    assert set(by_plugin) == set(scores["a1"]) - {"total"}
    text = explained("--node", "a1").out
    assert text.startswith(
        f"default/web-7 fits on a1: place {place} of 4 with {told['total']} points; "
        f"c1, which is taken, has {told['behind']} more.\n"
    )


def test_a_refused_node_has_every_filters_verdict() -> None:
    told = explained("--node", "b2-draining", "-o", "json").json
    assert told["refused"]["plugin"] == "NodeUnschedulable"
    refusing = [v["plugin"] for v in told["verdicts"] if v["reasons"]]
    # The first refusal counts; the taint that a cordoned node has would be the next.
    assert refusing == ["NodeUnschedulable", "TaintToleration"]
    assert told["changes"][0]["kind"] == "uncordon"
    text = explained("--node", "b2-draining").out
    assert text.startswith(
        "default/web-7 does not fit on b2-draining: NodeUnschedulable refuses it.\n"
    )
    assert "  TaintToleration       refuses: node(s) had untolerated taint(s)\n" in text
    assert "  fits on b2-draining once uncordoned\n" in text


def test_what_would_open_a_node_is_left_out_on_request() -> None:
    assert "What would open it:" in explained("--node", "b2-draining").out
    assert "What would" not in explained("--node", "b2-draining", "--no-changes").out
    told = explained("--node", "b2-draining", "--no-changes", "-o", "json").json
    assert told["changes"] is None


def test_room_is_told_with_what_is_lacking() -> None:
    told = explained("--node", "a1", "-o", "json", pod="trainer-0").json
    room = {one["resource"]: one for one in told["room"]}
    assert room["nvidia.com/gpu"] == {
        "resource": "nvidia.com/gpu",
        "asked": 1,
        "free": 0,
        "promised": 0,
        "allocatable": 0,
    }
    assert room["cpu"]["allocatable"] == 8000
    assert room["cpu"]["asked"] > room["cpu"]["free"]
    assert "promised" not in explained("--node", "a1", pod="trainer-0").out


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


def test_promised_room_is_lacking_and_what_is_not_asked_for_is_not() -> None:
    text = kubesched("explain", "-f", "-", "new", "--node", "a", stdin=ROOM.encode()).out
    _, _, room = text.partition("Room:\n")
    table, _, changes = room.partition("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["resource", "asked", "free", "promised", "allocatable", "lacks"],
        ["cpu", "500m", "1", "700m", "2", "200m"],
        ["memory", "0", "-1Gi", "0", "1Gi"],
        ["pods", "1", "9", "1", "10"],
    ]
    assert "lacks 200m cpu on a\n" in changes


def test_room_is_never_told_as_more_than_there_is() -> None:
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
    at = rows.index(["resource", "asked", "free", "allocatable", "lacks"])
    assert ["memory", "7.6Gi", "7.55Gi", "7.55Gi", "42.21Mi"] in rows[at:]


def test_the_chosen_node_is_said_to_be_it() -> None:
    assert explained("--node", "c1").out.startswith("default/web-7 goes to c1.\n")


def test_an_unknown_node_is_one_line() -> None:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "web-7", "--node", "nowhere")
    assert (ran.status, ran.err) == (
        1,
        "kubesched: there is no node nowhere; there are a1, a2-spot, b1, b2-draining, c1, c2-gpu\n",
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
    told = explained("--compare", other, "-o", "json").json
    assert told["same"]
    assert (told["verdicts"], told["scores"]) == ([], [])
    assert told["first"] == told["second"]
    text = explained("--compare", other).out
    assert text.startswith("default/web-7: both configurations decide alike.\n")
    assert "No verdict differs, nor the points between the best nodes.\n" in text


def test_verdicts_that_differ_are_told_with_their_plugin(no_taints: str) -> None:
    told = explained("--compare", no_taints, "-o", "json").json
    assert told["verdicts"] == [
        {
            "refusedUnder": 1,
            "plugin": "TaintToleration",
            "reasons": ["node(s) had untolerated taint(s)"],
            "count": 1,
            "nodes": ["c2-gpu"],
        }
    ]
    text = " ".join(explained("--compare", no_taints).out.split())
    assert (
        "1 node refused only under the default configuration: TaintToleration: "
        "node(s) had untolerated taint(s): c2-gpu"
    ) in text


def test_scores_that_differ_are_told_with_their_plugin(tmp_path: Path) -> None:
    other = written(tmp_path, ONLY_IMAGES)
    told = explained("--compare", other, "-o", "json").json
    scores = decided()["scores"]
    first, second = told["between"]
    assert not told["same"]
    assert (first, second) == ("c1", told["second"]["node"])
    # Only nodes of zone a have the image.
    assert second in ("a1", "a2-spot")
    for move in told["scores"]:
        plugin = move["plugin"]
        assert move["first"] == scores[first][plugin] - scores[second][plugin]
        assert move["second"] == 0, "only ImageLocality scores, and its points are the same"
        assert move["moved"] == move["first"] - move["second"]
    assert "ImageLocality" not in {move["plugin"] for move in told["scores"]}
    text = explained("--compare", other).out
    assert text.startswith("default/web-7: both configurations decide differently.\n")
    assert f"What plugins give {first} more than {second}, where it differs:\n" in text


def test_both_sides_tell_machines_what_would_have_to_change(no_taints: str) -> None:
    told = explained("--compare", no_taints, "-o", "json").json
    opened = [[change["nodes"] for change in told[side]["changes"]] for side in ("first", "second")]
    # Under the second, the tainted node fits already.
    assert [["b2-draining"] in nodes for nodes in opened] == [True, True]
    assert [["c2-gpu"] in nodes for nodes in opened] == [True, False]
    told = explained("--compare", no_taints, "-o", "json", "--no-changes").json
    assert (told["first"]["changes"], told["second"]["changes"]) == (None, None)


def test_both_sides_are_told_what_would_have_to_change_on_request(no_taints: str) -> None:
    assert "What would" not in explained("--compare", no_taints).out
    lines = explained("--compare", no_taints, "--changes").out.splitlines()
    first = lines.index("What would open more nodes under the default configuration:")
    assert lines[first + 1 : first + 3] == [
        "  fits on b2-draining once uncordoned",
        "  fits on c2-gpu with a toleration of nvidia.com/gpu=present:NoSchedule",
    ]
    text = " ".join(" ".join(lines[first + 3 :]).split())
    assert text == (
        f"What would open more nodes under {no_taints}: fits on b2-draining once uncordoned"
    )


def test_a_plugin_may_be_compared_with_its_absence(tmp_path: Path) -> None:
    other = written(tmp_path, "{}")
    plugin = f"{EXAMPLE_PLUGINS}/not_on_spot.py:NotOnSpot"
    told = explained("--plugin", plugin, "--compare", other, "-o", "json").json
    assert [(v["refusedUnder"], v["plugin"], v["nodes"]) for v in told["verdicts"]] == [
        (1, "NotOnSpot", ["a2-spot"])
    ]


def test_the_file_that_lacks_the_profile_is_named(tmp_path: Path) -> None:
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
        pytest.param(["--top", "-1"], 2, "--top", id="fewer than none"),
        pytest.param(["--node", "a1", "--compare", "x"], 2, "cannot be given together", id="both"),
        pytest.param(
            ["--node", "a1", "-o", "decision"], 2, "-o decision prints", id="no decision of it"
        ),
        pytest.param(
            ["--changes", "-o", "decision"], 2, "-o decision prints", id="no changes in it"
        ),
        pytest.param(["--compare", "-", "--config", "-"], 2, "only once", id="stdin twice"),
        pytest.param(["--compare", "no/such"], 1, "no/such: No such file", id="nothing to compare"),
    ],
)
def test_what_cannot_be_shown_is_one_line(arguments: list[str], status: int, problem: str) -> None:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "web-7", *arguments)
    assert ran.status == status
    assert is_one_line(ran.err)
    assert problem in ran.err
    assert ran.out == ""
