"""examples/space-cloud: the placements under each of its three configurations."""

from __future__ import annotations

from functools import partial

import pytest

from kubesched.api.builders import Document
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.playground.in_process import Playground
from kubesched.testing import a_node, a_pod
from tests.examples.folders import FORMS, SPACE_CLOUD, Form

GROUND = ("node-1", "node-2")
NO_CHOICE = 'running Score plugins: plugin "DynamicResources" failed with: not found'

NODES = (
    a_node("node-1"),
    a_node("node-2"),
    a_node("node-3", labels={"kubernetes.io/role": "edge", "satellite": "tiansuan-1"}),
    a_node("node-4", labels={"kubernetes.io/role": "edge", "satellite": "tiansuan-2"}),
)


def label_nodes(cluster: Playground) -> None:
    for node in NODES:
        metadata = node["metadata"]
        patch = {"metadata": {"labels": metadata["labels"]}}
        cluster.api.patch(f"/api/v1/nodes/{metadata['name']}", patch, MERGE_PATCH).must(200)


def a_space_pod(name: str = "probe", satellite: str = "", cpu: str = "0") -> Document:
    annotations = {"type": "space", **({"satellite": satellite} if satellite else {})}
    scheduler = "space-cloud-scheduler"
    return a_pod(name, annotations=annotations, requests={"cpu": cpu}, scheduler=scheduler)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.timeout(120)
def test_the_recommended_configuration(form: Form) -> None:
    with SPACE_CLOUD.running(form, nodes=4) as cluster:
        label_nodes(cluster)
        cluster.create(*SPACE_CLOUD.documents("pods.yaml"))
        assert cluster.until_bound("antenna") == "node-4"
        assert cluster.until_bound("camera") in {"node-3", "node-4"}
        assert cluster.until_bound("web") in GROUND
        cluster.until_running("web")
        # The default plugins are still enabled.
        patch = {"spec": {"unschedulable": True}}
        cluster.api.patch("/api/v1/nodes/node-3", patch, MERGE_PATCH).must(200)
        cluster.create(a_space_pod("lens", "tiansuan-1"))
        cluster.until(lambda: cluster.notes("lens", "FailedScheduling"), "the pod is rejected")
        (note,) = set(cluster.notes("lens", "FailedScheduling"))
        assert note.startswith(
            "0/4 nodes are available: 1 node(s) were on another satellite, "
            "1 node(s) were unschedulable, 2 node(s) were on the ground."
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.timeout(120)
def test_with_all_plugins_disabled_a_pod_with_several_nodes_fails(form: Form) -> None:
    with SPACE_CLOUD.running(form, "all-disabled.yaml", nodes=4) as cluster:
        label_nodes(cluster)
        cluster.create(*SPACE_CLOUD.documents("pods.yaml"))
        # A single feasible node is not scored.
        assert cluster.until_bound("antenna") == "node-4"
        for name in ("camera", "web"):
            cluster.until(partial(cluster.notes, name, "FailedScheduling"), "it fails")
            assert set(cluster.notes(name, "FailedScheduling")) == {NO_CHOICE}
            assert cluster.node_of(name) == ""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.timeout(120)
def test_without_dynamic_resources_pods_are_placed(form: Form) -> None:
    with SPACE_CLOUD.running(form, "no-dynamic-resources.yaml", nodes=4) as cluster:
        label_nodes(cluster)
        cluster.create(*SPACE_CLOUD.documents("pods.yaml"))
        assert cluster.until_bound("antenna") == "node-4"
        assert cluster.until_bound("camera") in {"node-3", "node-4"}
        assert cluster.until_bound("web") in GROUND


def test_without_the_defaults_taints_cordons_and_resources_are_ignored() -> None:
    with SPACE_CLOUD.in_memory("no-dynamic-resources.yaml") as (cluster, _):
        edge = {"kubernetes.io/role": "edge"}
        cluster.add(
            a_node("cordoned", labels={**edge, "satellite": "a"}, unschedulable=True),
            a_node("tainted", labels={**edge, "satellite": "b"}, taints=["sun:NoSchedule"]),
            a_node("small", labels={**edge, "satellite": "c"}, capacity={"cpu": "1"}),
            a_space_pod("one", "a"),
            a_space_pod("two", "b"),
            a_space_pod("three", "c", cpu="8"),
        )
        cluster.schedule()
        assert cluster.placed() == {
            "default/one": "cordoned",
            "default/two": "tainted",
            "default/three": "small",
        }


@pytest.mark.parametrize(
    ("annotations", "nodes"),
    [
        ({"type": "space"}, ("node-3", "node-4")),
        ({"type": "space", "satellite": "tiansuan-1"}, ("node-3",)),
        ({"satellite": "tiansuan-1"}, GROUND),
        ({"type": "ground"}, GROUND),
        ({}, GROUND),
    ],
)
def test_annotations_decide(annotations: dict[str, str], nodes: tuple[str, ...]) -> None:
    with SPACE_CLOUD.in_memory() as (cluster, _):
        pod = a_pod("probe", annotations=annotations, scheduler="space-cloud-scheduler")
        cluster.add(*NODES, pod)
        cluster.schedule()
        assert cluster.node_of("probe") in nodes


def test_a_pod_for_an_unknown_satellite_waits() -> None:
    with SPACE_CLOUD.in_memory() as (cluster, _):
        cluster.add(*NODES, a_space_pod(satellite="tiansuan-9"))
        cluster.schedule()
        assert cluster.why("probe").startswith(
            "0/4 nodes are available: 2 node(s) were on another satellite, "
            "2 node(s) were on the ground."
        )
