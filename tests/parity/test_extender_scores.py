"""Scores of nodes that an extender returned as objects, compared with kube-scheduler's.

Upstream scores the nodes of the answer, without pods and images; plugins that look at all nodes
(spreading, affinity to pods) read the cluster. Every plugin's score is compared: kube-scheduler's
from its log, kubesched's from its explanation. Expected values come from kube-scheduler only.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.extender.server import Exchange, ScriptedExtender
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.testing import (
    Api,
    RealCluster,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    a_node,
    start_scheduler,
)

pytestmark = [pytest.mark.programs, pytest.mark.timeout(180)]

Json = dict[str, Any]
Scores = dict[str, dict[str, int]]
PODS = "/api/v1/namespaces/default/pods"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OPEN = "--authorization-always-allow-paths=/healthz,/readyz,/metrics,/debug/explain"
# Large and full, small and empty, and some between; images and taints are here and there.
NODES = {
    "node-a": ("16", "64Gi", "east", ["big:1"], ["slow:PreferNoSchedule"], 6),
    "node-b": ("4", "8Gi", "east", ["big:1", "app:1"], [], 1),
    "node-c": ("8", "8Gi", "west", ["app:1"], [], 2),
    "node-d": ("2", "32Gi", "west", [], ["old:PreferNoSchedule", "slow:PreferNoSchedule"], 0),
    "node-e": ("6", "16Gi", "north", ["big:1"], [], 1),
}
SIZES = {"big:1": 900 * 2**20, "app:1": 300 * 2**20}


def _spread(key: str, **more: Any) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
        **more,
    }


def _near(weight: int, key: str) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"weight": weight, "podAffinityTerm": term}


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POD_SPECS: dict[str, Json] = {
    "plain": {},
    "spread": {"topologySpreadConstraints": [_spread(ZONE), _spread(HOST, maxSkew=2)]},
    "affine": {
        "affinity": {
            "podAffinity": {PREFERRED: [_near(7, ZONE)]},
            "podAntiAffinity": {PREFERRED: [_near(3, HOST)]},
            "nodeAffinity": {
                PREFERRED: [
                    {
                        "weight": 5,
                        "preference": {
                            "matchExpressions": [
                                {"key": ZONE, "operator": "In", "values": ["west"]}
                            ]
                        },
                    },
                    {
                        "weight": 2,
                        "preference": {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["node-e"]}
                            ]
                        },
                    },
                ]
            },
        }
    },
}


# -- nodes in an extender's answer -----------------------------------------------------------------


def _as_they_are(nodes: list[Json]) -> list[Json]:
    return nodes


def _only_names(nodes: list[Json]) -> list[Json]:
    return [{"metadata": {"name": node["metadata"]["name"]}} for node in nodes]


def _moved(nodes: list[Json]) -> list[Json]:
    for number, node in enumerate(nodes):
        node["metadata"]["labels"][ZONE] = ("west", "nowhere")[number % 2]
        if number == 0:
            del node["metadata"]["labels"][HOST]
    return nodes


def _changed(nodes: list[Json]) -> list[Json]:
    for number, node in enumerate(nodes):
        node["spec"]["taints"] = [{"key": "new", "effect": "PreferNoSchedule"}] * (number % 3)
        node["status"]["allocatable"]["cpu"] = str(3 + number)
        node["status"].pop("images", None)
    return nodes


def _with_an_unknown_node(nodes: list[Json]) -> list[Json]:
    ghost = copy.deepcopy(nodes[0])
    ghost["metadata"]["name"] = "node-ghost"
    return [*nodes[1:], ghost]


ANSWERS: dict[str, Callable[[list[Json]], list[Json]]] = {
    "echo": _as_they_are,
    "names": _only_names,
    "moved": _moved,
    "changed": _changed,
    "ghost": _with_an_unknown_node,
}
CASES = [f"{answer}-{spec}" for answer in ANSWERS for spec in POD_SPECS]


def _filter(exchange: Exchange) -> None:
    request = exchange.json
    kind = request["Pod"]["metadata"]["name"].partition("-")[0]
    # In a fixed order.
    nodes = sorted(request["Nodes"]["items"], key=lambda node: node["metadata"]["name"])
    exchange.answer({"Nodes": {"items": ANSWERS[kind](nodes)}})


# -- runs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with real_cluster("bare") as created:
        with created.api() as api:
            _populate(api)
        yield created


def _populate(api: Api) -> None:
    for name, (cpu, memory, zone, images, taints, count) in NODES.items():
        image_list = [{"names": [image], "sizeBytes": SIZES[image]} for image in images]
        room = {"cpu": cpu, "memory": memory}
        labels = {ZONE: zone}
        node = a_node(name, labels=labels, capacity=room, taints=taints, images=image_list)
        api.post("/api/v1/nodes", node).must(201)
        for number in range(count):
            api.post(PODS, _a_pod(f"{name}-{number}", nodeName=name)).must(201)


def _a_pod(name: str, **spec: Any) -> Json:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    containers = [
        {"name": "big", "image": "big:1", "resources": resources},
        {"name": "app", "image": "app:1"},
    ]
    return {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def _scores(cluster: RealCluster, name: SchedulerName) -> dict[str, Scores]:
    """Return every plugin's score of every node, by case."""
    with ScriptedExtender() as server, cluster.api() as api:
        server.scripts["/filter"] = _filter
        settings = SchedulerSettings(
            extenders=[{"urlPrefix": server.url, "filterVerb": "filter"}],
            port=free_ports(1)[0],
            flags=("--v=10" if name == "kube-scheduler" else OPEN,),
        )
        scheduler = start_scheduler(cluster, cluster.group, name, settings)
        read = _logged if name == "kube-scheduler" else _explained
        result = {}
        for case in CASES:
            spec = POD_SPECS[case.partition("-")[2]]
            path = f"{PODS}/{case}"
            api.post(PODS, _a_pod(case, **spec)).must(201)
            scheduler.until(lambda path=path: _is_bound(api, path), f"{case} is bound")  # type: ignore[misc]  # the loop's own
            scheduler.until(lambda case=case: bool(read(scheduler, case)), f"{case} is explained")  # type: ignore[misc]
            result[case] = read(scheduler, case)
            api.delete(path, {"gracePeriodSeconds": 0}).must(200)
        scheduler.terminate()
    return result


def _is_bound(api: Api, path: str) -> bool:
    return bool(api.get(path).must(200).json["spec"].get("nodeName"))


def _logged(scheduler: SchedulerProcess, pod: str) -> Scores:
    line = re.compile(
        rf'"Plugin scored node for pod" pod="default/{pod}" plugin="(\S+)" node="(\S+)" score=(\S+)'
    )
    result: Scores = {}
    for plugin, node, score in line.findall(scheduler.log):
        result.setdefault(node, {})[plugin] = int(score)
    return result


def _explained(scheduler: SchedulerProcess, pod: str) -> Scores:
    code, text = scheduler.page(f"/debug/explain?pod=default/{pod}")
    assert code == 200, text
    explanation = json.loads(text)["explanation"]
    return {row["node"]: row["scores"] for row in explanation["ranking"]}


@pytest.fixture(scope="module")
def upstream_scores(cluster: RealCluster) -> dict[str, Scores]:
    return _scores(cluster, "kube-scheduler")


@pytest.fixture(scope="module")
def kubesched_scores(cluster: RealCluster, upstream_scores: dict[str, Scores]) -> dict[str, Scores]:
    return _scores(cluster, "kubesched")


@pytest.mark.parametrize("case", CASES)
def test_every_plugin_scores_returned_nodes_as_upstream(
    upstream_scores: dict[str, Scores], kubesched_scores: dict[str, Scores], case: str
) -> None:
    expected = upstream_scores[case]
    assert len(expected) == len(NODES)
    scores_by_node = {node: _known(scores) for node, scores in kubesched_scores[case].items()}
    assert scores_by_node == {node: _known(scores) for node, scores in expected.items()}


def _known(scores: Scores | dict[str, int]) -> dict[str, Any]:
    """Return the scores of plugins, without those of extenders."""
    return {name: score for name, score in scores.items() if not name.startswith("http")}
